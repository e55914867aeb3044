"""Runs: a page with the lease, the timings and the steps; cancels and retries. What they used."""

from __future__ import annotations

from functools import partial
from typing import Any

import orjson
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.db.models.functions import Left
from django.http import HttpRequest
from typing_extensions import override

from agents.admin_pages.approvals import waiting_of
from agents.admin_pages.workspaces import cancel_sessions, counted
from agents.api.native_prompts import check_options
from agents.api.prompts import queue_limits
from agents.models import Run, RunKind, UsageEntry, UsageKind
from agents.runs.accept import accept_by, retry_run
from agents.states import RunOutcome, RunState
from agents.turn.options import options_named
from people.pages.sender import actor_of
from permissions.models import PermissionRequest, QuestionBatch
from workspaces.access import Right
from workspaces.admin_pages.columns import (
    author,
    beginning,
    first_line,
    in_words,
    json_text,
    linked,
    long_text,
    moment,
    rows_of,
    time,
)
from workspaces.admin_pages.filters import (
    WorkspaceFilter,
    by_author,
    by_user_column,
    chosen_from,
    narrowed,
    recent_values,
    time_filter,
)
from workspaces.admin_pages.lists import MOST_FOUND
from workspaces.admin_pages.pages import ReadOnlyAdmin, act, caller_in_admin, perform
from workspaces.admin_pages.texts import NOTHING, duration, excerpt, one_line, to_the_second
from workspaces.log.errors import Refusal
from workspaces.log.ids import new_id
from workspaces.log.timestamps import now_ms
from workspaces.models import NEVER_EXPIRES, Message, RegisteredProcess
from workspaces.queries.search import find_messages

STEPS_SHOWN = 200
ROWS_SHOWN = 15  # child runs, and the runs of a session
PROMPT_CHARS = 400


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    change_form_template = "admin/run.html"
    list_display = [
        first_line("prompt"),
        "status",
        author(),
        linked("session"),
        linked("workspace"),
        time("accepted_at"),
    ]
    list_filter = [
        narrowed("session"),
        narrowed("parent", "parent run"),
        narrowed("worker"),
        chosen_from("state", [(each.value, each.name) for each in RunState]),
        chosen_from("outcome", [(each.value, each.name) for each in RunOutcome]),
        chosen_from("kind", RunKind.choices),
        WorkspaceFilter,
        by_author(),
        time_filter("accepted_at"),
    ]
    list_select_related = ["session", "workspace"]
    long_fields = ("prompt", "attachments", "answer", "open_calls", "hook_decisions")
    search_fields = ["id__exact", "run_id__exact", "session_id__exact", "prompt"]
    search_help_text = "Words in the conversation, or the whole id of a run or a session"
    ordering = ["-id"]
    actions = ["cancel", "retry"]
    related = [
        rows_of("workspaces.message", "run_key", "messages", is_counted=False),
        rows_of("permissions.permissionrequest", "run_key", "permission requests"),
        rows_of("permissions.questionbatch", "run_key", "question batches"),
        rows_of("agents.run", "parent", "child runs"),
        rows_of("agents.subagent", "run", "sub-agents"),
        rows_of("agents.usageentry", "run_key", "usage entries"),
    ]
    shown = [
        "status",
        author(),
        linked("session"),
        linked("workspace"),
        long_text("error"),
        long_text("prompt"),
        "id",
        "run_id",
        "kind",
        author("cancelled_by"),
        linked("message_id", "workspaces.message"),
        linked("parent", label="parent run"),
        linked("folded_into"),
        "strategy",
        json_text("options"),
        json_text("over_budget"),
        linked("replaces", "agents.run"),
        linked("rewind_id", "workspaces.rewind", "rewind"),
        linked("retry_of", "agents.run"),
        "accept_number",
        in_words("was_queued", "behind other prompts", "at once", "accepted"),
        json_text("attachments"),
        json_text("open_calls"),
        moment("accepted_at"),
        moment("started_at"),
        moment("finished_at"),
    ]

    @admin.display(description="status", ordering="state")
    def status(self, run: Run) -> str:
        return run_status(run)

    @override
    def find(self, rows: QuerySet[Any], term: str) -> set[Any]:
        words = [message_id for message_id, _ in find_messages(term, limit=MOST_FOUND)]
        of_runs = Message.objects.filter(pk__in=words, run_key__isnull=False)
        return super().find(rows, term) | set(of_runs.values_list("run_key", flat=True))

    @override
    def panels(self, request: HttpRequest, row: Run) -> dict[str, Any]:
        return _run_panels(request, row)

    @act("Cancel all accepted work of their sessions", Right.CANCEL)
    def cancel(self, request: HttpRequest, queryset: QuerySet[Run]) -> None:
        # A cancel covers all work of a session: a prompt that is queued after a cancelled
        # one usually depends on it.
        pairs = queryset.order_by().values_list("workspace_id", "session_id").distinct()
        cancel_sessions(self, request, list(pairs))

    @act("Retry: run their prompts once more", Right.PROMPT)
    def retry(self, request: HttpRequest, queryset: QuerySet[Run]) -> None:
        actor, caller, count = actor_of(request, via="admin"), caller_in_admin(request), 0
        rows = queryset.order_by("pk").values_list("pk", "workspace_id", "options")
        for key, workspace_id, options in rows:
            job = partial(
                retry_run,
                workspace_id=workspace_id,
                key=key,
                run_id=new_id(),
                limits=queue_limits(),
                actor=actor,
            )
            try:
                perform(check_options, caller, workspace_id, options_named(options or {}))
                perform(accept_by, workspace_id, job)
                count += 1
            except Refusal as refusal:
                self.message_user(request, f"Run {key}: {refusal.sentence}", messages.WARNING)
        if count:
            text = f"{counted(count, 'prompt')} accepted once more."
            self.message_user(request, text, messages.SUCCESS)


@admin.register(UsageEntry)
class UsageEntryAdmin(ReadOnlyAdmin):
    list_display = [
        "__str__",
        "user_name",
        "cost",
        linked("session_id", "workspaces.session"),
        linked("workspace"),
        time("created_at"),
    ]
    list_filter = [
        narrowed("session_id"),
        narrowed("run_key", "run"),
        chosen_from("kind", UsageKind.choices),
        recent_values("provider"),
        recent_values("model"),
        WorkspaceFilter,
        by_user_column(),
        time_filter("created_at"),
    ]
    list_select_related = ["workspace"]
    search_fields = ["session_id__exact", "run_key__exact", "user_name__exact", "model__exact"]
    search_help_text = "A session's id, a run's number, or the whole name of a user or a model"
    ordering = ["-id"]
    shown = [
        "kind",
        "user_name",
        linked("workspace"),
        linked("session_id", "workspaces.session"),
        linked("run_key", "agents.run", label="run"),
        "provider",
        "model",
        "prompt_tokens",
        "completion_tokens",
        "cache_read_tokens",
        "cache_write_tokens",
        "cost",
        moment("created_at"),
    ]


def _run_panels(request: HttpRequest, run: Run) -> dict[str, Any]:
    """Each panel of other models needs Django's permission to view them."""
    may, now = request.user.has_perm, now_ms()
    panels: dict[str, Any] = {
        "timings": _timings(run, now),
        "lease": _lease(run, now),
        "waiting": waiting_of(request, run_key=run.pk),
    }
    if may("workspaces.view_message"):
        panels["steps"] = _steps(run, now)
    if may("agents.view_usageentry"):
        panels["usage"] = list(
            UsageEntry.objects.filter(run_key=run.pk).order_by("pk")[:STEPS_SHOWN]
        )
    panels["children"] = run_lines(Run.objects.filter(parent=run).order_by("pk"))
    return panels


def _timings(run: Run, now: int) -> list[tuple[str, str]]:
    """How long the run waited for a worker, worked, and waited for people."""
    end = run.finished_at or now
    waited = (run.started_at or end) - run.accepted_at
    found = [
        ("Accepted", to_the_second(run.accepted_at)),
        ("Waited for a worker", duration(waited)),
    ]
    if run.started_at:
        found.append(
            ("Since its start" if not run.finished_at else "Took", duration(end - run.started_at))
        )
        people = _waited_for_people(run, end)
        found.append(("Of that, waited for people", duration(people) if people else NOTHING))
    found.append(("Finished", to_the_second(run.finished_at)))
    found.append(("Steps", str(run.steps or 0)))
    return found


def _waited_for_people(run: Run, end: int) -> int:
    """The time in which at least one request or question was open."""
    spans: list[tuple[int, int]] = []
    for model in (PermissionRequest, QuestionBatch):
        rows = model._default_manager.filter(run_key=run.pk).order_by("asked_at")
        spans += [
            (opened, answered or end)
            for opened, answered in rows.values_list("asked_at", "answered_at")[:STEPS_SHOWN]
        ]
    total = until = 0
    for begin, finish in sorted(spans):
        total += max(0, finish - max(begin, until))
        until = max(until, finish)
    return total


def _lease(run: Run, now: int) -> list[tuple[str, str]]:
    if run.state != RunState.RUNNING:
        holder = f"None now; the last claim has the fence {run.fence}" if run.fence else "None yet"
        return [("Worker", holder)]
    held = [("Worker", run.worker), ("Fence", str(run.fence))]
    process = RegisteredProcess.objects.filter(pk=run.worker).first()
    if process is None:
        return [*held, ("Lease expires", _moment(run.lease_expires_at, now))]
    registered = (
        "others take over what it held" if process.is_lost else "as long as its server runs"
    )
    if not process.is_lost and process.expires_at != NEVER_EXPIRES:
        registered = f"until {_moment(process.expires_at, now)}, if it is not renewed"
    where = f"{process.kind} {process.pid} on {process.host}"
    return [*held, ("Process", where), ("Registered", registered)]


def _moment(at: int, now: int) -> str:
    left = at - now
    when = f"in {duration(left)}" if left > 0 else f"{duration(-left)} ago"
    return f"{to_the_second(at)} ({when})"


def _steps(run: Run, now: int) -> list[dict[str, Any]]:
    """One for each reply of a model, with the tools that it called."""
    replies = Message.objects.filter(session_id=run.session_id, run_key=run.pk, role="assistant")
    found = []
    for number, row in enumerate(replies.order_by("position")[:STEPS_SHOWN], 1):
        calls, outcome = _calls(row.parts)
        end = row.updated_at if row.is_finished else now
        found.append(
            {
                "number": number,
                "row": row,
                "at": to_the_second(row.created_at),
                "took": duration(end - row.created_at),
                "text": excerpt(row.parts),
                "calls": ", ".join(calls) or NOTHING,
                "outcome": outcome if row.is_finished else "streaming",
            }
        )
    return found


def _calls(parts: str) -> tuple[list[str], str]:
    """The names of the called tools, and how the reply ended."""
    calls, outcome = [], ""
    try:
        for part in orjson.loads(parts):
            if part["type"] == "tool_call":
                calls.append(one_line(str(part["data"]["name"])))
            elif part["type"] == "finish":
                outcome = str(part["data"]["reason"]).replace("_", " ")
    except (ValueError, TypeError, KeyError, AttributeError):
        return [], "not readable"
    return calls, outcome


def run_lines(runs: QuerySet[Run]) -> list[dict[str, Any]]:
    """Runs as the tables of session and run pages show them."""
    rows = runs.only(
        "run_id", "state", "outcome", "kind", "accepted_at", "started_at", "finished_at"
    ).annotate(prompt_beginning=Left("prompt", PROMPT_CHARS))
    return [
        {
            "row": run,
            "prompt": one_line(beginning(run, "prompt")) or run.kind,
            "status": run_status(run),
            "at": to_the_second(run.accepted_at),
            "took": duration(run.finished_at - run.started_at)
            if run.finished_at and run.started_at
            else "",
        }
        for run in rows[:ROWS_SHOWN]
    ]


def run_status(run: Run) -> str:
    """Returns the outcome of a finished run, and the state of any other."""
    shown = run.get_outcome_display() if run.outcome else run.get_state_display()
    return str(shown).partition(" (")[0]
