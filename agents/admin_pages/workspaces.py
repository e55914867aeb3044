"""Workspaces, and what works in them: clients, sub-agents, jobs and the servers of tools.

Releases a workspace from all clients, retires a client, stops a sub-agent.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from asgiref.sync import async_to_sync
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from agents.models import Job, LanguageServer, McpSecret, McpServer, RemoteWorker, SubAgent
from agents.runs.teardown import cancel_and_wait, release_all_and_wait, retire
from agents.states import JobState, LanguageServerState, SubAgentState
from people.pages.sender import actor_of
from workspaces.access import Right
from workspaces.admin.workspaces import ClientClaimPages, WorkspacePages
from workspaces.admin_pages.columns import (
    first_line,
    json_text,
    link_to,
    linked,
    long_text,
    moment,
    rows_of,
    state,
    time,
)
from workspaces.admin_pages.filters import (
    WorkspaceFilter,
    chosen_from,
    narrowed,
    recent_values,
    time_filter,
)
from workspaces.admin_pages.pages import ReadOnlyAdmin, act, perform
from workspaces.admin_pages.texts import NOTHING
from workspaces.delivery.attachments import close_streams
from workspaces.log.errors import Refusal
from workspaces.log.timestamps import now_ms
from workspaces.models import ClientClaim, Workspace


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def cancel_sessions(
    page: ReadOnlyAdmin, request: HttpRequest, sessions: Iterable[tuple[str, str]]
) -> None:
    """Cancels all accepted work of each session, as (workspace, session)."""
    count = 0
    actor = actor_of(request, via="admin")
    for workspace_id, session_id in sessions:
        try:
            count += cancel_and_wait(workspace_id, session_id, actor=actor)
        except Refusal as refusal:
            page.message_user(request, f"{session_id}: {refusal.sentence}", messages.WARNING)
    text = f"{counted(count, 'prompt')} cancelled." if count else "Nothing was running or waiting."
    page.message_user(request, text, messages.SUCCESS)


@admin.register(Workspace)
class WorkspaceAdmin(WorkspacePages):
    actions = ["release"]
    related = [
        *WorkspacePages.related,
        rows_of("agents.run", "workspace", "runs"),
        rows_of("agents.job", "workspace", "jobs"),
        rows_of("agents.subagent", "workspace", "sub-agents"),
        rows_of("agents.usageentry", "workspace", "usage entries"),
        rows_of("agents.mcpserver", "workspace", "MCP servers"),
        rows_of("agents.languageserver", "workspace", "language servers"),
        rows_of("permissions.permissionrequest", "workspace", "permission requests"),
        rows_of("permissions.questionbatch", "workspace", "question batches"),
        rows_of("permissions.grant", "workspace", "grants"),
        rows_of("people.member", "workspace", "members"),
        rows_of("people.auditentry", "workspace_id", "audit entries"),
    ]

    @act("Release from all clients", Right.ADMINISTER)
    def release(self, request: HttpRequest, queryset: QuerySet[Workspace]) -> None:
        for workspace in queryset:
            try:
                clients, is_closed = release_all_and_wait(workspace.pk)
            except Refusal as refusal:
                self.message_user(request, f"{workspace}: {refusal.sentence}", messages.WARNING)
                continue
            # Streams belong to the event loop, and the admin runs in a thread.
            async_to_sync(_close_streams)(clients, workspace.pk)
            now = "closed" if is_closed else "open until its work has ended"
            text = f"{workspace}: released from {counted(len(clients), 'client')}, {now}."
            self.message_user(request, text, messages.SUCCESS)


@admin.register(ClientClaim)
class ClientClaimAdmin(ClientClaimPages):
    actions = ["retire"]

    @act("Retire: end their streams and cancel their runs", Right.ADMINISTER)
    def retire(self, request: HttpRequest, queryset: QuerySet[ClientClaim]) -> None:
        clients = sorted(set(queryset.order_by().values_list("client_id", flat=True)))
        actor = actor_of(request, via="admin")
        for client_id in clients:
            perform(retire, client_id, actor=actor)
        async_to_sync(_close_streams)(clients)
        self.message_user(request, f"{counted(len(clients), 'client')} retired.", messages.SUCCESS)


async def _close_streams(client_ids: Iterable[str], *workspace_id: str) -> None:
    for client_id in client_ids:
        close_streams(client_id, *workspace_id)


@admin.register(SubAgent)
class SubAgentAdmin(ReadOnlyAdmin):
    list_display = ["__str__", "status", "parent", "age", "last_event", time("started_at")]
    list_filter = [
        narrowed("run"),
        chosen_from("state", [(each.value, each.name) for each in SubAgentState]),
        recent_values("ending"),
        recent_values("role"),
        WorkspaceFilter,
        time_filter("started_at"),
    ]
    list_select_related = ["workspace", "run__session"]
    search_fields = ["run_id__exact", "child_id__exact", "role"]
    search_help_text = "A role, the id of a child, or the number of a run"
    ordering = ["-run_id"]
    actions = ["stop"]
    shown = [
        linked("run"),
        "parent",
        linked("workspace"),
        "role",
        "child_id",
        "endpoint",
        "pid",
        state(),
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

    @act("Stop", Right.CANCEL)
    def stop(self, request: HttpRequest, queryset: QuerySet[SubAgent]) -> None:
        cancel_sessions(
            self, request, list(queryset.values_list("workspace_id", "run__session_id"))
        )


@admin.register(RemoteWorker)
class RemoteWorkerAdmin(ReadOnlyAdmin):
    list_display = ["name", "capacity", time("seen_at")]
    search_fields = ["name"]
    search_help_text = "A part of the name"
    ordering = ["name"]
    shown = [
        "name",
        "instance",
        json_text("servers"),
        json_text("roots"),
        "capacity",
        moment("seen_at"),
    ]


@admin.register(Job)
class JobAdmin(ReadOnlyAdmin):
    list_display = [
        first_line("command"),
        state(),
        "exit_code",
        linked("session_id", "workspaces.session"),
        linked("workspace"),
        time("started_at"),
    ]
    list_filter = [
        narrowed("session_id"),
        chosen_from("state", [(each.value, each.name) for each in JobState]),
        WorkspaceFilter,
        time_filter("started_at"),
    ]
    list_select_related = ["workspace"]
    long_fields = ("command", "description")
    search_fields = ["id__exact", "session_id__exact", "command"]
    search_help_text = "Words in the 10,000 newest commands, or a whole id"
    ordering = ["-started_at"]
    shown = [
        "id",
        linked("workspace"),
        linked("session_id", "workspaces.session"),
        long_text("command"),
        "description",
        "working_dir",
        state(),
        "exit_code",
        "host",
        "instance",
        "pid",
        "pid_started",
        "output_path",
        moment("started_at"),
        moment("ended_at"),
    ]


class _ServerAdmin(ReadOnlyAdmin):
    list_select_related = ["workspace"]
    search_fields = ["name", "workspace__path"]
    search_help_text = "A part of the name, or of the workspace's path"
    ordering = ["-id"]


@admin.register(McpServer)
class McpServerAdmin(_ServerAdmin):
    list_display = ["name", "state", linked("workspace"), "tool_count", time("connected_at")]
    list_filter = [recent_values("state"), WorkspaceFilter, time_filter("connected_at")]
    shown = [
        linked("workspace"),
        "name",
        "state",
        long_text("error"),
        "tool_count",
        "prompt_count",
        "resource_count",
        "pid",
        moment("connected_at"),
    ]


@admin.register(McpSecret)
class McpSecretAdmin(ReadOnlyAdmin):
    """Shows that a login exists, never its tokens."""

    list_display = ["url", time("changed_at")]
    list_filter = [time_filter("changed_at")]
    search_fields = ["url"]
    search_help_text = "A part of the address"
    ordering = ["url"]
    shown = ["url", moment("changed_at")]


@admin.register(LanguageServer)
class LanguageServerAdmin(_ServerAdmin):
    list_display = ["name", state(), linked("workspace"), "diagnostic_count", time("connected_at")]
    list_filter = [
        chosen_from("state", [(each.value, each.name) for each in LanguageServerState]),
        WorkspaceFilter,
        time_filter("connected_at"),
    ]
    shown = [
        linked("workspace"),
        "name",
        state(),
        long_text("error"),
        "diagnostic_count",
        "pid",
        moment("connected_at"),
    ]
