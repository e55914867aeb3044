"""The rows of work: runs (one for each accepted prompt), usage, jobs, tool servers, sub-agents."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from django.db import models
from typing_extensions import override

from agents.fleet_models import RemoteWorker
from agents.mcp_models import McpSecret, McpServer
from agents.states import (
    CLAIMABLE,
    IN_PROGRESS,
    JobState,
    LanguageServerState,
    RunOutcome,
    RunState,
    StepKind,
    Strategy,
    SubAgentState,
    choices_of,
)
from workspaces.log.ids import new_id
from workspaces.log.timestamps import now_ms
from workspaces.models import NEVER_EXPIRES, Session, Workspace

__all__ = ["McpSecret", "McpServer", "RemoteWorker"]  # Django finds the rows of an application here


def _values(states: Iterable[StrEnum]) -> list[str]:
    return [state.value for state in states]


class RunKind(models.TextChoices):
    PROMPT = "prompt"
    SUMMARY = "summary"
    AGENT = "agent", "agent (a tool call's own run, in a child session)"
    FETCH = "fetch", "fetch (as agent, to read the web)"
    FLEET = "fleet", "fleet (as agent, by a sub-agent in a process of its own)"


class Run(models.Model):
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="runs")
    session = models.ForeignKey(Session, models.CASCADE, related_name="runs")
    run_id = models.CharField(max_length=200, null=True, blank=True)  # noqa: DJ001  absent is not empty
    accept_number = models.BigIntegerField(help_text="Its place among the session's prompts.")
    kind = models.CharField(max_length=16, choices=RunKind.choices, default=RunKind.PROMPT)
    state = models.CharField(
        max_length=16,
        choices=choices_of(
            RunState,
            parked="parked (waits for an answer)",
            ready="ready (answered or handed over, waits for a worker)",
        ),
        default=RunState.ACCEPTED,
    )
    outcome = models.CharField(
        max_length=16,
        choices=choices_of(
            RunOutcome,
            interrupted="interrupted (its process died in the middle of a step)",
            folded="folded into the run before it",
            over_budget="over budget (a limit of its prompt was reached)",
        ),
        blank=True,
    )
    prompt = models.TextField(blank=True)
    attachments = models.TextField(default="[]", help_text="JSON; the parts of the user message.")
    size = models.BigIntegerField(
        default=0, db_default=0, help_text="Bytes of its prompt and attachments."
    )
    body_digest = models.CharField(max_length=64, blank=True)
    client_id = models.CharField(
        max_length=36,
        blank=True,
        db_default="",
        help_text="The client that sent it, where that is known.",
    )
    author = models.JSONField(
        null=True,
        blank=True,
        help_text="Who sent it: kind, name, user_id. A child run's is its parent's.",
    )
    is_from_person = models.BooleanField(
        db_default=False, help_text="A person sent its prompt, and no tool of this server."
    )
    is_scheduled = models.BooleanField(
        db_default=False, help_text="A timer sent it: interactive prompts come first."
    )
    end_noticed_at = models.BigIntegerField(
        null=True, blank=True, help_text="When it was decided who is notified of its end."
    )
    cancelled_by = models.JSONField(
        null=True, blank=True, help_text="Who cancelled it, as its author."
    )
    is_withdrawn = models.BooleanField(
        db_default=False,
        help_text="This run alone is cancelled: its client left for good, or a person chose it.",
    )
    # Columns that earlier rows lack may be empty, so that their migrations rewrite no row.
    strategy = models.CharField(  # noqa: DJ001  as above
        max_length=16,
        null=True,
        blank=True,
        choices=choices_of(Strategy),
        help_text="What its prompt did with a busy session. Empty: enqueue.",
    )
    options = models.JSONField(
        null=True, blank=True, help_text="model, effort, permission_mode and budget of its prompt."
    )
    replaces = models.BigIntegerField(null=True, blank=True, help_text="The run that it ended.")
    rewind_id = models.CharField(  # noqa: DJ001  as above
        max_length=36,
        null=True,
        blank=True,
        help_text="The rewind by which its rollback undid that run; empty text: nothing to undo.",
    )
    retry_of = models.BigIntegerField(null=True, blank=True, help_text="The run that it repeats.")
    trace_context = models.CharField(  # noqa: DJ001  as above
        max_length=55, null=True, blank=True, help_text="The traceparent of its request."
    )
    steps = models.BigIntegerField(
        null=True, blank=True, help_text="Its own requests to models, summaries included."
    )
    over_budget = models.JSONField(
        null=True, blank=True, help_text="Of a run over its budget: limits, reached, exceeded."
    )
    was_queued = models.BooleanField(default=False, help_text="Accepted behind other work.")
    folded_into = models.ForeignKey(
        "self", models.SET_NULL, null=True, blank=True, related_name="folded"
    )
    # The worker that holds the run. Each of its writes names the fence of its claim.
    worker = models.CharField(max_length=64, blank=True)
    fence = models.BigIntegerField(default=0)
    lease_expires_at = models.BigIntegerField(default=0)
    lost_workers = models.BigIntegerField(null=True, blank=True)  # stopped without releasing it
    # JSON: calls whose tools have started and have no result yet, as a list, or as an object where
    # one has another ``CutRule`` than "report"; what these have printed so far.
    open_calls = models.TextField(default="[]")
    call_outputs = models.TextField(null=True, blank=True)  # noqa: DJ001  as above
    message_id = models.CharField(
        max_length=36, blank=True, help_text="Its last assistant message."
    )
    error = models.TextField(blank=True)
    # For a child run: the run whose call waits for it, its folder if that is not the workspace's,
    # the role of its sub-agent, and a sub-agent's answer, which may differ from its last message.
    parent = models.ForeignKey(
        "self", models.SET_NULL, null=True, blank=True, related_name="children"
    )
    parent_call_id = models.CharField(max_length=200, blank=True, db_default="")
    working_dir = models.TextField(blank=True, db_default="")
    role = models.TextField(blank=True, db_default="")
    answer = models.TextField(blank=True, db_default="")
    hook_decisions = models.TextField(
        db_default="{}", help_text="JSON; of its open calls, so that no hook runs twice for a call."
    )
    accepted_at = models.BigIntegerField(default=now_ms)
    started_at = models.BigIntegerField(null=True, blank=True)
    finished_at = models.BigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "run_id"],
                condition=models.Q(run_id__isnull=False),
                name="one_run_a_run_id",
            ),
            models.UniqueConstraint(
                fields=["session"],
                condition=models.Q(state__in=_values(IN_PROGRESS)),
                name="one_run_holds_a_session",
            ),
            models.UniqueConstraint(
                fields=["session", "accept_number"], name="one_run_an_accept_number"
            ),
        ]
        indexes = [
            models.Index(
                fields=["id"],
                condition=models.Q(state__in=_values(CLAIMABLE)),
                name="run_claimable",
            ),
            # Counts and sums a session's queue without reading its rows.
            models.Index(
                fields=["session", "size", "state"],
                condition=models.Q(state=RunState.ACCEPTED.value),
                name="run_queued",
            ),
            # The sessions whose runs wait for the undoing of a turn; hardly ever one.
            models.Index(
                fields=["session"],
                condition=models.Q(
                    state=RunState.ACCEPTED.value,
                    strategy=Strategy.ROLLBACK.value,
                    rewind_id__isnull=True,
                ),
                name="run_rolling_back",
            ),
            models.Index(
                fields=["worker"],
                condition=models.Q(state=RunState.RUNNING.value),
                name="run_by_worker",
            ),
            # Hardly ever any: those of workers that do not register, and of a killed lone server.
            models.Index(
                fields=["lease_expires_at"],
                condition=models.Q(
                    state=RunState.RUNNING.value, lease_expires_at__lt=NEVER_EXPIRES
                ),
                name="run_expiring",
            ),
            models.Index(
                fields=["workspace"],
                condition=~models.Q(state=RunState.FINISHED.value),
                name="run_unfinished",
            ),
            # The ends without a notice yet, and those of the last moments.
            models.Index(
                fields=["end_noticed_at"],
                condition=models.Q(state=RunState.FINISHED.value, is_from_person=True),
                name="run_ended",
            ),
        ]

    @override
    def __str__(self) -> str:
        return self.run_id or f"run {self.pk}"


class UsageKind(models.TextChoices):
    REPLY = "reply"
    SUMMARY = "summary"
    TITLE = "title"
    EARLIER = "earlier", "earlier (all requests of a session before entries were stored)"


class UsageEntry(models.Model):
    """What one model request has used. It stays when its session is deleted."""

    workspace = models.ForeignKey(
        Workspace, models.CASCADE, related_name="usage_entries", db_index=False
    )
    session_id = models.CharField(max_length=200)
    run_key = models.BigIntegerField(null=True, blank=True)
    # The person whose prompt the request served. Sub-agents' processes have no table of users.
    user_id = models.BigIntegerField(null=True, blank=True)
    user_name = models.CharField(max_length=150, blank=True)
    kind = models.CharField(max_length=16, choices=UsageKind.choices)
    provider = models.CharField(max_length=200, blank=True)
    model = models.CharField(max_length=200, blank=True)
    prompt_tokens = models.BigIntegerField(help_text="With those from the provider's cache.")
    completion_tokens = models.BigIntegerField()
    cache_read_tokens = models.BigIntegerField()
    cache_write_tokens = models.BigIntegerField()
    cost = models.FloatField()
    created_at = models.BigIntegerField()

    class Meta:
        verbose_name_plural = "usage entries"
        indexes = [
            models.Index(fields=["created_at"], name="usage_by_time"),
            models.Index(fields=["workspace", "created_at"], name="usage_of_workspace"),
            models.Index(fields=["run_key"], name="usage_of_run"),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.model or 'unknown model'}: {self.prompt_tokens} + {self.completion_tokens}"


class RunStep(models.Model):
    """A request to a model or a tool call of a run, with its times in milliseconds."""

    run_key = models.BigIntegerField(db_index=True)
    kind = models.CharField(max_length=16, choices=choices_of(StepKind))
    name = models.CharField(max_length=200, help_text="Of the model, or of the tool.")
    provider = models.CharField(max_length=200, blank=True)
    message_id = models.CharField(max_length=36, blank=True)
    call_id = models.CharField(max_length=200, blank=True)
    outcome = models.CharField(max_length=32, blank=True)
    attempts = models.IntegerField(default=1)
    started_at = models.BigIntegerField()
    first_at = models.BigIntegerField(null=True, help_text="Of its first text.")
    ended_at = models.BigIntegerField()
    prompt_tokens = models.BigIntegerField(default=0)
    completion_tokens = models.BigIntegerField(default=0)
    cost = models.FloatField(default=0.0)
    response_model = models.CharField(max_length=200, null=True, blank=True)  # noqa: DJ001

    @override
    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class Job(models.Model):
    """A command in the background. Pid and start time identify it after a crash."""

    id = models.CharField(primary_key=True, max_length=36, default=new_id, editable=False)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="jobs")
    session_id = models.CharField(max_length=200)
    command = models.TextField()
    description = models.TextField(blank=True)
    working_dir = models.CharField(max_length=4096)
    state = models.CharField(
        max_length=16,
        choices=choices_of(JobState, lost="lost (its server died)"),
        default=JobState.RUNNING,
    )
    exit_code = models.IntegerField(null=True, blank=True)
    instance = models.CharField(max_length=64, blank=True, help_text="The server that started it.")
    host = models.CharField(max_length=255, blank=True)
    pid = models.IntegerField(default=0)
    pid_started = models.CharField(max_length=64, blank=True, help_text="The process's start time.")
    process_mark = models.CharField(max_length=64, blank=True)
    supervisor = models.CharField(
        max_length=64,
        blank=True,
        db_default="",
        help_text="The process that keeps it while no server runs.",
    )
    token = models.CharField(
        max_length=64, blank=True, db_default="", help_text="Names its file in the data folder."
    )
    columns = models.IntegerField(
        default=0, db_default=0, help_text="The width of its terminal; 0 if it has none."
    )
    output_path = models.CharField(max_length=4096, blank=True)
    started_at = models.BigIntegerField(default=now_ms)
    ended_at = models.BigIntegerField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["workspace"], condition=models.Q(state=JobState.RUNNING), name="job_running"
            ),
            models.Index(fields=["-started_at", "-id"], name="job_by_start"),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.id} {self.command[:60]}"


class LanguageServer(models.Model):
    """The state of a workspace's language server, for clients."""

    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="language_servers")
    name = models.CharField(max_length=200)
    state = models.IntegerField(choices=choices_of(LanguageServerState))
    error = models.TextField(blank=True)
    diagnostic_count = models.IntegerField(default=0)
    connected_at = models.BigIntegerField(null=True, blank=True)
    pid = models.IntegerField(default=0)
    pid_started = models.CharField(max_length=64, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workspace", "name"], name="one_language_server_a_name")
        ]

    @override
    def __str__(self) -> str:
        return f"{self.name}: {self.get_state_display()}"


class SubAgent(models.Model):
    """One assignment of a sub-agent, for operators. Its text is in its session."""

    run = models.OneToOneField(Run, models.CASCADE, primary_key=True, related_name="sub_agent")
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="sub_agents")
    role = models.CharField(max_length=200)
    child_id = models.CharField(max_length=200, blank=True)
    endpoint = models.CharField(max_length=500, blank=True)
    pid = models.IntegerField(default=0)
    state = models.CharField(
        max_length=16,
        choices=choices_of(SubAgentState, waiting="waiting (for an answer)"),
        default=SubAgentState.STARTING,
    )
    ending = models.CharField(max_length=32, blank=True)
    last_event = models.CharField(max_length=100, blank=True)
    last_event_at = models.BigIntegerField(null=True, blank=True)
    events = models.BigIntegerField(default=0)
    started_at = models.BigIntegerField(default=now_ms)
    ended_at = models.BigIntegerField(null=True, blank=True)

    class Meta:
        verbose_name = "sub-agent"

    @override
    def __str__(self) -> str:
        return f"{self.role} {self.child_id}"
