"""Work: one accepted prompt is one run. And what runs beside it: jobs and servers of tools."""

from __future__ import annotations

from django.db import models
from typing_extensions import override

from workspaces.log.ids import new_id
from workspaces.log.timestamps import now_ms
from workspaces.models import Session, Workspace


class RunState(models.TextChoices):
    ACCEPTED = "accepted"
    RUNNING = "running"
    PARKED = "parked", "parked (waits for an answer)"
    READY = "ready", "ready (answered or handed over, waits for a worker)"
    FINISHED = "finished"


class RunOutcome(models.TextChoices):
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"
    INTERRUPTED = "interrupted", "interrupted (its process died in the middle of a step)"
    FOLDED = "folded", "folded into the run before it"


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
    state = models.CharField(max_length=16, choices=RunState.choices, default=RunState.ACCEPTED)
    outcome = models.CharField(max_length=16, choices=RunOutcome.choices, blank=True)
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
    is_withdrawn = models.BooleanField(
        db_default=False, help_text="Its client left for good: this run alone is cancelled."
    )
    was_queued = models.BooleanField(default=False, help_text="Accepted behind other work.")
    folded_into = models.ForeignKey(
        "self", models.SET_NULL, null=True, blank=True, related_name="folded"
    )
    # Who works on it: every write of a worker names the fence it claimed with.
    worker = models.CharField(max_length=64, blank=True)
    fence = models.BigIntegerField(default=0)
    lease_expires_at = models.BigIntegerField(default=0)
    # Calls whose tools were begun and have no result yet: never begun again.
    open_calls = models.TextField(default="[]")
    message_id = models.CharField(
        max_length=36, blank=True, help_text="Its last assistant message."
    )
    error = models.TextField(blank=True)
    # A child's: the run whose call waits for it, and what it is to work with.
    parent = models.ForeignKey(
        "self", models.SET_NULL, null=True, blank=True, related_name="children"
    )
    parent_call_id = models.CharField(max_length=200, blank=True, db_default="")
    errand = models.TextField(db_default="{}")
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
                condition=models.Q(state__in=["running", "parked", "ready"]),
                name="one_run_holds_a_session",
            ),
            models.UniqueConstraint(
                fields=["session", "accept_number"], name="one_run_an_accept_number"
            ),
        ]
        indexes = [
            models.Index(
                fields=["id"],
                condition=models.Q(state__in=["accepted", "ready"]),
                name="run_claimable",
            ),
            # Counts and sums a session's queue without reading its rows.
            models.Index(
                fields=["session", "size", "state"],
                condition=models.Q(state="accepted"),
                name="run_queued",
            ),
            models.Index(
                fields=["lease_expires_at"],
                condition=models.Q(state="running"),
                name="run_by_lease",
            ),
            models.Index(
                fields=["workspace"],
                condition=~models.Q(state="finished"),
                name="run_unfinished",
            ),
        ]

    @override
    def __str__(self) -> str:
        return self.run_id or f"run {self.pk}"


class LanguageServerState(models.IntegerChoices):
    """As on the wire."""

    UNSTARTED = 0
    STARTING = 1
    READY = 2
    ERROR = 3
    STOPPED = 4
    DISABLED = 5


class JobState(models.TextChoices):
    RUNNING = "running"
    ENDED = "ended"
    KILLED = "killed"
    LOST = "lost", "lost (its server died)"


class Job(models.Model):
    """A command in the background. Known by pid and start time, so that no crash orphans it."""

    id = models.CharField(primary_key=True, max_length=36, default=new_id, editable=False)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="jobs")
    session_id = models.CharField(max_length=200)
    command = models.TextField()
    description = models.TextField(blank=True)
    working_dir = models.CharField(max_length=4096)
    state = models.CharField(max_length=16, choices=JobState.choices, default=JobState.RUNNING)
    exit_code = models.IntegerField(null=True, blank=True)
    instance = models.CharField(max_length=64, blank=True, help_text="The server that started it.")
    host = models.CharField(max_length=255, blank=True)
    pid = models.IntegerField(default=0)
    pid_started = models.CharField(max_length=64, blank=True, help_text="The process's start time.")
    process_mark = models.CharField(max_length=64, blank=True)
    output_path = models.CharField(max_length=4096, blank=True)
    started_at = models.BigIntegerField(default=now_ms)
    ended_at = models.BigIntegerField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["workspace"], condition=models.Q(state="running"), name="job_running"
            )
        ]

    @override
    def __str__(self) -> str:
        return f"{self.id} {self.command[:60]}"


class McpServer(models.Model):
    """What clients are told of a workspace's MCP server."""

    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="mcp_servers")
    name = models.CharField(max_length=200)
    state = models.CharField(max_length=16)  # disabled, starting, connected, error, needs auth
    error = models.TextField(blank=True)
    tool_count = models.IntegerField(default=0)
    prompt_count = models.IntegerField(default=0)
    resource_count = models.IntegerField(default=0)
    auth_url = models.TextField(blank=True, help_text="Where a person lets the server in.")
    connected_at = models.BigIntegerField(null=True, blank=True)
    pid = models.IntegerField(default=0)
    pid_started = models.CharField(max_length=64, blank=True)

    class Meta:
        verbose_name = "MCP server"
        constraints = [
            models.UniqueConstraint(fields=["workspace", "name"], name="one_mcp_server_a_name")
        ]

    @override
    def __str__(self) -> str:
        return f"{self.name}: {self.state}"


class McpSecret(models.Model):
    """Tokens and registration of an MCP server that asks for OAuth, sealed."""

    url = models.CharField(max_length=1000, unique=True)
    sealed = models.TextField()
    changed_at = models.BigIntegerField(default=now_ms)

    class Meta:
        verbose_name = "MCP login"

    @override
    def __str__(self) -> str:
        return self.url


class LanguageServer(models.Model):
    """What clients are told of a workspace's language server."""

    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="language_servers")
    name = models.CharField(max_length=200)
    state = models.IntegerField(choices=LanguageServerState.choices)
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


class SubAgentState(models.TextChoices):
    STARTING = "starting"
    RUNNING = "running"
    WAITING = "waiting", "waiting (for an answer)"
    ENDED = "ended"


class SubAgent(models.Model):
    """One assignment of a sub-agent, as operators see it. What it says is in its session."""

    run = models.OneToOneField(Run, models.CASCADE, primary_key=True, related_name="sub_agent")
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="sub_agents")
    role = models.CharField(max_length=200)
    child_id = models.CharField(max_length=200, blank=True)
    endpoint = models.CharField(max_length=500, blank=True)
    pid = models.IntegerField(default=0)
    state = models.CharField(
        max_length=16, choices=SubAgentState.choices, default=SubAgentState.STARTING
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
