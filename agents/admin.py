"""Work in Django's admin, and what can be done there: cancel it, release a workspace.

The actions are the API's own.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from asgiref.sync import async_to_sync
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from agents import admin_services
from agents.models import Run, SubAgent
from agents.runs.teardown import cancel_and_wait, release_all_and_wait
from workspaces.admin import SessionPages, WorkspacePages
from workspaces.admin_pages import (
    NOTHING,
    ReadOnlyAdmin,
    first_line,
    in_words,
    json_text,
    link_to,
    linked,
    long_text,
    moment,
    rows_of,
    time,
)
from workspaces.delivery.attachments import close_streams
from workspaces.log.errors import Refusal
from workspaces.log.timestamps import now_ms
from workspaces.models import Session, Workspace

__all__ = ["RunAdmin", "SessionAdmin", "SubAgentAdmin", "WorkspaceAdmin", "admin_services"]


@admin.register(Workspace)
class WorkspaceAdmin(WorkspacePages):
    actions = ["release"]
    related = [
        *WorkspacePages.related,
        rows_of("agents.run", "workspace", "runs"),
        rows_of("agents.job", "workspace", "jobs"),
        rows_of("agents.subagent", "workspace", "sub-agents"),
        rows_of("agents.mcpserver", "workspace", "MCP servers"),
        rows_of("agents.languageserver", "workspace", "language servers"),
        rows_of("permissions.permissionrequest", "workspace", "permission requests"),
        rows_of("permissions.questionbatch", "workspace", "question batches"),
    ]

    @admin.action(description="Release from all clients", permissions=["act"])
    def release(self, request: HttpRequest, queryset: QuerySet[Workspace]) -> None:
        for workspace in queryset:
            try:
                clients, is_closed = release_all_and_wait(workspace.pk)
            except Refusal as refusal:
                self.message_user(request, f"{workspace}: {refusal.sentence}", messages.WARNING)
                continue
            # Streams belong to the event loop, and the admin works in a thread.
            async_to_sync(_close_streams)(workspace.pk, clients)
            now = "closed" if is_closed else "open until its work has ended"
            said = f"{workspace}: released from {_counted(len(clients), 'client')}, {now}."
            self.message_user(request, said, messages.SUCCESS)


async def _close_streams(workspace_id: str, client_ids: Iterable[str]) -> None:
    for client_id in client_ids:
        close_streams(client_id, workspace_id)


@admin.register(Session)
class SessionAdmin(SessionPages):
    actions = ["cancel"]
    related = [
        *SessionPages.related,
        rows_of("agents.run", "session", "runs"),
        rows_of("agents.job", "session_id", "jobs"),
        rows_of("permissions.permissionrequest", "session", "permission requests"),
        rows_of("permissions.questionbatch", "session", "question batches"),
        rows_of("permissions.grant", "session", "grants"),
    ]

    @admin.action(description="Cancel what runs and waits", permissions=["act"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Session]) -> None:
        pairs = queryset.values_list("workspace_id", "pk")
        _cancel(self, request, list(pairs))


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    list_display = [
        first_line("prompt"),
        "status",
        linked("session"),
        linked("workspace"),
        time("accepted_at"),
    ]
    list_filter = ["state", "outcome", "kind"]
    list_select_related = ["session", "workspace"]
    search_fields = ["=id", "=run_id", "prompt", "=session__id", "session__title"]
    ordering = ["-id"]
    actions = ["cancel"]
    related = [
        rows_of("workspaces.message", "run_key", "messages"),
        rows_of("permissions.permissionrequest", "run_key", "permission requests"),
        rows_of("permissions.questionbatch", "run_key", "question batches"),
        rows_of("agents.run", "parent", "child runs"),
        rows_of("agents.subagent", "run", "sub-agents"),
    ]
    shown = [
        "id",
        "run_id",
        linked("workspace"),
        linked("session"),
        "kind",
        "state",
        "outcome",
        linked("message_id", "workspaces.message"),
        linked("parent", label="parent run"),
        linked("folded_into"),
        "accept_number",
        in_words("was_queued", "behind other prompts", "at once", "accepted"),
        long_text("error"),
        long_text("prompt"),
        json_text("attachments"),
        "worker",
        "fence",
        moment("lease_expires_at"),
        json_text("open_calls"),
        moment("accepted_at"),
        moment("started_at"),
        moment("finished_at"),
    ]

    @admin.display(description="status", ordering="state")
    def status(self, run: Run) -> str:
        """Its outcome once it has one: "finished" alone says little."""
        shown = run.get_outcome_display() if run.outcome else run.get_state_display()
        return str(shown).partition(" (")[0]

    @admin.action(description="Cancel all that was accepted in their sessions", permissions=["act"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Run]) -> None:
        # A cancel takes a session's work as a whole: what is queued behind a cancelled
        # prompt was written with it in mind.
        pairs = queryset.order_by().values_list("workspace_id", "session_id").distinct()
        _cancel(self, request, list(pairs))


@admin.register(SubAgent)
class SubAgentAdmin(ReadOnlyAdmin):
    list_display = ["__str__", "status", "parent", "age", "last_event", time("started_at")]
    list_filter = ["state", "ending", "role"]
    list_select_related = ["workspace", "run__session"]
    search_fields = ["=child_id", "role", "=run__session__id", "=run__session__parent_session_id"]
    ordering = ["-started_at"]
    actions = ["stop"]
    shown = [
        linked("run"),
        "parent",
        linked("workspace"),
        "role",
        "child_id",
        "endpoint",
        "pid",
        "state",
        "ending",
        "events",
        "last_event",
        moment("last_event_at"),
        moment("started_at"),
        moment("ended_at"),
    ]

    @admin.display(description="status", ordering="state")
    def status(self, sub_agent: SubAgent) -> str:
        return sub_agent.ending or str(sub_agent.get_state_display())

    @admin.display(description="parent session")
    def parent(self, sub_agent: SubAgent) -> str:
        parent_id = sub_agent.run.session.parent_session_id
        return link_to("workspaces.session", parent_id, parent_id) if parent_id else NOTHING

    @admin.display(ordering="-started_at")
    def age(self, sub_agent: SubAgent) -> timedelta:
        end = sub_agent.ended_at or now_ms()
        return timedelta(seconds=max(0, end - sub_agent.started_at) // 1000)

    @admin.action(description="Stop", permissions=["act"])
    def stop(self, request: HttpRequest, queryset: QuerySet[SubAgent]) -> None:
        _cancel(self, request, list(queryset.values_list("workspace_id", "run__session_id")))


def _cancel(
    page: ReadOnlyAdmin,
    request: HttpRequest,
    sessions: Iterable[tuple[str, str]],
) -> None:
    count = 0
    for workspace_id, session_id in sessions:
        try:
            count += cancel_and_wait(workspace_id, session_id)
        except Refusal as refusal:
            page.message_user(request, f"{session_id}: {refusal.sentence}", messages.WARNING)
    said = f"{_counted(count, 'prompt')} cancelled." if count else "Nothing was running or waiting."
    page.message_user(request, said, messages.SUCCESS)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
