"""The facts in Django's admin: to be read, filtered and searched.

Workspaces and sessions only have their pages here. What can be done with them
ends runs, so ``agents.admin`` registers them.
"""

from __future__ import annotations

from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from typing_extensions import override

from workspaces.admin_pages import (
    ReadOnlyAdmin,
    chosen_from,
    excerpt,
    first_line,
    flag_filter,
    in_words,
    json_text,
    linked,
    long_text,
    moment,
    rows_of,
    time,
)
from workspaces.log.parts import Role
from workspaces.log.types import Kind
from workspaces.models import (
    Attachment,
    ClientClaim,
    Event,
    FileRead,
    FileVersion,
    Message,
    RetiredClient,
    TrustRequest,
)


@admin.display(description="state", ordering="is_busy")
def _session_state(session: Model) -> str:
    if getattr(session, "is_deleting", False):
        return "being deleted"
    return "busy" if getattr(session, "is_busy", False) else "idle"


@admin.display(description="messages", ordering="message_count")
def _messages(session: Model) -> str:
    return f"{getattr(session, 'message_count', 0):,}"


@admin.display(description="cost", ordering="cost")
def _cost(session: Model) -> str:
    return f"{getattr(session, 'cost', 0.0):.4f}"


@admin.display(description="text")
def _text(message: Model) -> str:
    return excerpt(str(getattr(message, "parts", "")))


_STREAMING = in_words("is_streaming", "attached", "away", "state")


class WorkspacePages(ReadOnlyAdmin):
    list_display = [
        "path",
        in_words("is_open", "open", "closed", "state"),
        in_words("skip_permissions", "all allowed", "requested", "permissions"),
        "last_event",
        time("opened_at"),
    ]
    list_filter = [
        flag_filter("is_open", "open", "closed"),
        flag_filter("skip_permissions", "all allowed", "requested", "permissions"),
    ]
    search_fields = ["path", "=id"]
    ordering = ["-opened_at"]
    related = [
        rows_of("workspaces.session", "workspace", "sessions"),
        rows_of("workspaces.clientclaim", "workspace", "clients"),
        rows_of("workspaces.event", "workspace", "events"),
    ]
    # Without ``sealed_env``: an encrypted secret is still one.
    shown = [
        "id",
        "path",
        "data_dir",
        in_words("is_open", "open", "closed", "state"),
        in_words("skip_permissions", "all allowed", "requested", "permissions"),
        in_words("debug", "on", "off"),
        json_text("channels"),
        "last_event",
        moment("created_at"),
        moment("opened_at"),
        moment("closed_at"),
    ]


class SessionPages(ReadOnlyAdmin):
    list_display = [
        "__str__",
        _session_state,
        linked("workspace"),
        _messages,
        _cost,
        time("updated_at"),
    ]
    list_filter = [
        flag_filter("is_busy", "busy", "idle"),
        flag_filter("is_deleting", "being deleted", "kept", "deletion"),
    ]
    list_select_related = ["workspace"]
    search_fields = ["=id", "title", "workspace__path"]
    ordering = ["-updated_at"]
    related = [
        rows_of("workspaces.session", "parent_session_id", "child sessions"),
        rows_of("workspaces.message", "session", "messages"),
        rows_of("workspaces.fileversion", "session", "file versions"),
        rows_of("workspaces.fileread", "session", "files read"),
        rows_of("workspaces.event", "session_id", "events"),
    ]
    shown = [
        "id",
        "title",
        _session_state,
        linked("workspace"),
        linked("parent_session_id", "workspaces.session"),
        "prompt_tokens",
        "completion_tokens",
        "total_prompt_tokens",
        "total_completion_tokens",
        "cost",
        "attached_clients",
        linked("summary_message_id", "workspaces.message"),
        json_text("todos"),
        "last_accept",
        "cancel_mark",
        moment("created_at"),
        moment("updated_at"),
    ]


@admin.register(ClientClaim)
class ClientClaimAdmin(ReadOnlyAdmin):
    list_display = ["client_id", linked("workspace"), _STREAMING, time("expires_at", "expires")]
    list_filter = [flag_filter("is_streaming", "attached", "away")]
    list_select_related = ["workspace"]
    search_fields = ["=client_id", "workspace__path", "=current_session_id"]
    ordering = ["-expires_at"]
    shown = [
        "client_id",
        linked("workspace"),
        _STREAMING,
        "holder",
        linked("current_session_id", "workspaces.session"),
        moment("created_at"),
        moment("expires_at"),
    ]


@admin.register(RetiredClient)
class RetiredClientAdmin(ReadOnlyAdmin):
    list_display = ["client_id", time("retired_at")]
    search_fields = ["=client_id"]
    ordering = ["-retired_at"]
    shown = ["client_id", moment("retired_at")]


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    list_display = [
        "number",
        "kind",
        linked("workspace"),
        linked("session_id", "workspaces.session"),
        first_line("payload"),
        time("created_at"),
    ]
    list_display_links = ["number", "kind"]
    list_filter = [chosen_from("kind", Kind)]
    list_select_related = ["workspace"]
    search_fields = ["=session_id", "workspace__path", "=workspace__id", "=number", "payload"]
    ordering = ["-id"]
    shown = [
        linked("workspace"),
        "number",
        "kind",
        linked("session_id", "workspaces.session"),
        moment("created_at", "at"),
        json_text("payload"),
    ]


@admin.register(Message)
class MessageAdmin(ReadOnlyAdmin):
    list_display = [
        "role",
        _text,
        linked("session"),
        linked("workspace"),
        in_words("is_finished", "finished", "streaming", "state"),
        time("created_at"),
    ]
    list_display_links = ["role", _text]
    list_filter = [
        chosen_from("role", Role),
        flag_filter("is_finished", "finished", "streaming"),
        flag_filter("is_summary", "summary", "message", "kind"),
    ]
    list_select_related = ["session", "workspace"]
    search_fields = ["=id", "=session__id", "session__title", "workspace__path", "parts"]
    ordering = ["-created_at", "-position"]
    shown = [
        "id",
        linked("workspace"),
        linked("session"),
        linked("run_key", "agents.run", "run"),
        "position",
        "stream_number",
        "role",
        "model",
        "provider",
        in_words("is_finished", "finished", "streaming", "state"),
        in_words("is_summary", "summary", "message", "kind"),
        moment("created_at"),
        moment("updated_at"),
        json_text("parts"),
    ]


@admin.register(FileVersion)
class FileVersionAdmin(ReadOnlyAdmin):
    list_display = ["path", "version", linked("session"), time("created_at")]
    list_select_related = ["session"]
    search_fields = ["path", "=session__id", "session__title", "content"]
    ordering = ["-created_at"]
    shown = [
        "id",
        linked("session"),
        "path",
        "version",
        "position",
        moment("created_at"),
        long_text("content"),
    ]


@admin.register(FileRead)
class FileReadAdmin(ReadOnlyAdmin):
    list_display = ["path", linked("session"), "size", time("read_at")]
    list_select_related = ["session"]
    search_fields = ["path", "=session__id", "session__title"]
    ordering = ["-read_at"]
    shown = [linked("session"), "path", "size", "mtime_ns", moment("read_at")]


@admin.register(TrustRequest)
class TrustRequestAdmin(ReadOnlyAdmin):
    list_display = ["path", "state", moment("asked_at"), moment("answered_at")]
    list_filter = ["state"]
    search_fields = ["path", "=id"]
    ordering = ["-asked_at"]
    shown = [
        "id",
        "path",
        "state",
        long_text("description"),
        json_text("params"),
        "digest",
        moment("asked_at"),
        moment("answered_at"),
    ]


@admin.register(Attachment)
class AttachmentAdmin(ReadOnlyAdmin):
    list_display = ["__str__", linked("workspace"), time("created_at")]
    list_select_related = ["workspace"]
    search_fields = ["=id", "workspace__path"]
    ordering = ["-created_at"]
    # Its content is megabytes of base64, which nobody reads.
    shown = ["id", linked("workspace"), moment("created_at")]

    @override
    def get_queryset(self, request: HttpRequest) -> QuerySet[Model]:
        return super().get_queryset(request).defer("content")
