"""The facts in Django's admin: to be read, filtered and searched.

Workspaces and sessions only have their pages here. What can be done with them
ends runs, so ``agents.admin`` registers them.
"""

from __future__ import annotations

from django.contrib import admin

from workspaces.admin_pages import (
    ReadOnlyAdmin,
    chosen_from,
    first_line,
    json_text,
    long_text,
    moment,
)
from workspaces.events.parts import Role
from workspaces.events.types import Kind
from workspaces.models import (
    ClientClaim,
    Event,
    FileRead,
    FileVersion,
    Message,
    RetiredClient,
)


class WorkspacePages(ReadOnlyAdmin):
    list_display = ["path", "is_open", "skip_permissions", "last_event", moment("opened_at")]
    list_filter = ["is_open", "skip_permissions"]
    search_fields = ["path", "=id"]
    ordering = ["-opened_at"]
    # Without ``sealed_env``: an encrypted secret is still one.
    shown = [
        "id",
        "path",
        "data_dir",
        "is_open",
        "skip_permissions",
        "debug",
        json_text("channels"),
        "last_event",
        moment("created_at"),
        moment("opened_at"),
        moment("closed_at"),
    ]


class SessionPages(ReadOnlyAdmin):
    list_display = [
        "__str__",
        "workspace",
        "is_busy",
        "message_count",
        "total_prompt_tokens",
        "total_completion_tokens",
        "cost",
        moment("updated_at"),
    ]
    list_filter = ["is_busy", "is_deleting"]
    list_select_related = ["workspace"]
    search_fields = ["=id", "title", "workspace__path"]
    ordering = ["-updated_at"]
    shown = [
        "id",
        "title",
        "workspace",
        "parent_session_id",
        "is_busy",
        "is_deleting",
        "message_count",
        "prompt_tokens",
        "completion_tokens",
        "total_prompt_tokens",
        "total_completion_tokens",
        "cost",
        "attached_clients",
        "summary_message_id",
        json_text("todos"),
        "last_accept",
        "cancel_mark",
        moment("created_at"),
        moment("updated_at"),
    ]


@admin.register(ClientClaim)
class ClientClaimAdmin(ReadOnlyAdmin):
    list_display = ["client_id", "workspace", "is_streaming", moment("expires_at", "lapses at")]
    list_filter = ["is_streaming"]
    list_select_related = ["workspace"]
    search_fields = ["=client_id", "workspace__path", "=current_session_id"]
    ordering = ["-expires_at"]
    shown = [
        "client_id",
        "workspace",
        "is_streaming",
        "holder",
        "current_session_id",
        moment("created_at"),
        moment("expires_at", "lapses at"),
    ]


@admin.register(RetiredClient)
class RetiredClientAdmin(ReadOnlyAdmin):
    list_display = ["client_id", moment("retired_at")]
    search_fields = ["=client_id"]
    ordering = ["-retired_at"]
    shown = ["client_id", moment("retired_at")]


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    list_display = [
        "number",
        "kind",
        "workspace",
        "session_id",
        first_line("payload"),
        moment("created_at", "at"),
    ]
    list_display_links = ["number", "kind"]
    list_filter = [chosen_from("kind", Kind)]
    list_select_related = ["workspace"]
    search_fields = ["=session_id", "workspace__path", "=workspace__id", "=number"]
    ordering = ["-id"]
    shown = [
        "workspace",
        "number",
        "kind",
        "session_id",
        moment("created_at", "at"),
        json_text("payload"),
    ]


@admin.register(Message)
class MessageAdmin(ReadOnlyAdmin):
    list_display = [
        "id",
        "role",
        "session",
        "workspace",
        first_line("parts"),
        "is_finished",
        moment("created_at"),
    ]
    list_filter = [chosen_from("role", Role), "is_finished", "is_summary"]
    list_select_related = ["session", "workspace"]
    search_fields = ["=id", "=session__id", "session__title", "workspace__path"]
    ordering = ["-created_at", "-position"]
    shown = [
        "id",
        "workspace",
        "session",
        "position",
        "stream_number",
        "role",
        "model",
        "provider",
        "is_finished",
        "is_summary",
        "run_key",
        moment("created_at"),
        moment("updated_at"),
        json_text("parts"),
    ]


@admin.register(FileVersion)
class FileVersionAdmin(ReadOnlyAdmin):
    list_display = ["path", "version", "session", moment("created_at")]
    list_select_related = ["session"]
    search_fields = ["path", "=session__id", "session__title"]
    ordering = ["-created_at"]
    shown = [
        "id",
        "session",
        "path",
        "version",
        "position",
        moment("created_at"),
        long_text("content"),
    ]


@admin.register(FileRead)
class FileReadAdmin(ReadOnlyAdmin):
    list_display = ["path", "session", "size", moment("read_at")]
    list_select_related = ["session"]
    search_fields = ["path", "=session__id", "session__title"]
    ordering = ["-read_at"]
    shown = ["session", "path", "size", "mtime_ns", moment("read_at")]
