"""Sessions with their messages, searched texts, rewinds, files and attachments, read-only.

The pages of sessions are only defined here: their actions end runs, so ``agents.admin`` registers
them.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Model, QuerySet
from typing_extensions import override

from workspaces.admin_pages.columns import (
    author,
    first_line,
    in_words,
    json_text,
    linked,
    long_text,
    moment,
    rows_of,
    state,
    time,
)
from workspaces.admin_pages.filters import (
    ChoiceFilter,
    WorkspaceFilter,
    WorkspaceIdFilter,
    by_author,
    chosen_from,
    flag_filter,
    narrowed,
    time_filter,
)
from workspaces.admin_pages.lists import MOST_FOUND
from workspaces.admin_pages.pages import ReadOnlyAdmin
from workspaces.admin_pages.texts import excerpt
from workspaces.log.parts import Role
from workspaces.models.sessions import (
    Attachment,
    FileRead,
    FileVersion,
    Message,
    RemovedMessage,
    Rewind,
    RewindState,
    SearchFill,
    SearchText,
)
from workspaces.queries.search import find_messages


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


class SessionStateFilter(ChoiceFilter):
    title = "state"
    parameter_name = "is_busy"

    @override
    def known(self, request: Any) -> Any:
        return [("1", "Busy"), ("0", "Idle"), ("deleting", "Being deleted")]

    @override
    def chosen(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        if value == "deleting":
            return rows.filter(is_deleting=True)
        return rows.filter(is_busy=value == "1", is_deleting=False)


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
        narrowed("parent_session_id", "parent session"),
        SessionStateFilter,
        WorkspaceFilter,
        time_filter("updated_at"),
    ]
    list_select_related = ["workspace"]
    search_fields = ["id__exact", "title", "workspace__path"]
    search_help_text = "Words in titles and messages, a part of the path, or the whole id"
    ordering = ["-updated_at"]
    related = [
        rows_of("workspaces.session", "parent_session_id", "child sessions"),
        rows_of("workspaces.message", "session", "messages"),
        rows_of("workspaces.fileversion", "session", "file versions"),
        rows_of("workspaces.fileread", "session", "files read"),
        rows_of("workspaces.rewind", "session", "rewinds"),
        rows_of("workspaces.event", "session_id", "events", is_counted=False),
    ]
    shown = [
        _session_state,
        linked("workspace"),
        linked("parent_session_id", "workspaces.session"),
        linked("forked_from", "workspaces.session"),
        "id",
        "total_prompt_tokens",
        "total_completion_tokens",
        "context_tokens",
        "cost",
        "attached_clients",
        linked("summary_message_id", "workspaces.message"),
        json_text("todos"),
        "last_accept",
        "cancel_mark",
        moment("created_at"),
        moment("updated_at"),
        moment("pinned_at"),
        moment("archived_at"),
    ]

    @override
    def find(self, rows: QuerySet[Any], term: str) -> set[Any]:
        found = find_messages(term, limit=MOST_FOUND)
        return super().find(rows, term) | {session_id for _, session_id in found}


@admin.register(Message)
class MessageAdmin(ReadOnlyAdmin):
    list_display = [
        "role",
        _text,
        in_words("is_finished", "finished", "streaming", "state"),
        linked("session"),
        linked("workspace"),
        time("created_at"),
    ]
    list_display_links = ["role", _text]
    list_filter = [
        narrowed("session"),
        narrowed("run_key", "run"),
        chosen_from("role", Role),
        flag_filter("is_finished", "finished", "streaming"),
        flag_filter("is_summary", "summary", "message", "kind"),
        WorkspaceFilter,
        by_author(),
        time_filter("created_at"),
    ]
    list_select_related = ["session", "workspace"]
    searched_rows = 1_000  # their tools' results may have megabytes
    search_fields = ["id__exact", "session_id__exact", "parts"]
    search_help_text = (
        "Words in texts, also in tool calls and results of the 1,000 newest, or a whole id"
    )
    ordering = ["-created_at"]
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
        author(),
        moment("created_at"),
        moment("updated_at"),
        json_text("parts"),
    ]

    @override
    def find(self, rows: QuerySet[Any], term: str) -> set[Any]:
        found = find_messages(term, limit=MOST_FOUND)
        return super().find(rows, term) | {message_id for message_id, _ in found}


@admin.register(Rewind)
class RewindAdmin(ReadOnlyAdmin):
    list_display = ["message_id", state(), linked("session"), time("created_at")]
    list_display_links = ["message_id"]
    list_select_related = ["session"]
    list_filter = [
        narrowed("session"),
        chosen_from("state", RewindState.choices),
        flag_filter("with_files", "with files", "messages only", "scope"),
        WorkspaceFilter,
        by_author(),
        time_filter("created_at"),
    ]
    search_fields = ["id__exact", "session_id__exact"]
    search_help_text = "The whole id of a rewind or a session"
    ordering = ["-created_at"]
    shown = [
        "id",
        linked("session"),
        state(),
        linked("message_id", "workspaces.message"),
        author(),
        author("undone_by"),
        in_words("with_files", "with files", "messages only", "scope"),
        json_text("files"),
        json_text("undone_files"),
        moment("created_at"),
        moment("finished_at"),
    ]


@admin.register(RemovedMessage)
class RemovedMessageAdmin(ReadOnlyAdmin):
    list_display = ["role", _text, linked("session"), linked("rewind"), time("created_at")]
    list_display_links = ["role", _text]
    list_select_related = ["session", "rewind"]
    list_filter = [
        narrowed("session"),
        chosen_from("role", Role),
        WorkspaceFilter,
        time_filter("created_at"),
    ]
    search_fields = ["id__exact", "session_id__exact"]
    search_help_text = "The whole id of a message or a session"
    ordering = ["-created_at"]
    shown = ["id", linked("session"), linked("rewind"), "role", "position", json_text("parts")]


@admin.register(SearchText)
class SearchTextAdmin(ReadOnlyAdmin):
    list_display = [
        first_line("text"),
        linked("message_id", "workspaces.message"),
        linked("session_id", "workspaces.session"),
    ]
    list_filter = [narrowed("session_id"), WorkspaceIdFilter]
    long_fields = ("text",)
    search_fields = ["message_id__exact", "session_id__exact"]
    search_help_text = "Words in texts, or the whole id of a message or a session"
    ordering = ["-id"]
    shown = [
        "id",
        linked("message_id", "workspaces.message"),
        linked("session_id", "workspaces.session"),
        long_text("text"),
    ]

    @override
    def find(self, rows: QuerySet[Any], term: str) -> set[Any]:
        messages = [message_id for message_id, _ in find_messages(term, limit=MOST_FOUND)]
        texts = SearchText.objects.filter(message_id__in=messages)
        return super().find(rows, term) | set(texts.values_list("pk", flat=True))


@admin.register(SearchFill)
class SearchFillAdmin(ReadOnlyAdmin):
    list_display = ["__str__", "next_id"]
    ordering = ["id"]
    shown = ["session_id", "position", "next_id", in_words("is_done", "done", "under way", "state")]


@admin.register(FileVersion)
class FileVersionAdmin(ReadOnlyAdmin):
    list_display = [
        "path",
        "version",
        in_words("is_absent", "no file", "a file", "content"),
        linked("session"),
        time("created_at"),
    ]
    list_filter = [narrowed("session"), time_filter("created_at")]
    list_select_related = ["session"]
    long_fields = ("content",)
    searched_rows = 1_000  # each may have megabytes
    search_fields = ["id__exact", "session_id__exact", "path", "content"]
    search_help_text = "Words in the paths and contents of the 1,000 newest, or a whole id"
    ordering = ["-created_at"]
    shown = [
        "id",
        linked("session"),
        "path",
        "version",
        "position",
        in_words("is_absent", "no file", "a file", "content"),
        moment("created_at"),
        long_text("content"),
    ]


@admin.register(FileRead)
class FileReadAdmin(ReadOnlyAdmin):
    list_display = ["path", linked("session"), "size", time("read_at")]
    list_filter = [narrowed("session"), time_filter("read_at")]
    list_select_related = ["session"]
    search_fields = ["session_id__exact", "path"]
    search_help_text = "A part of the path, or the whole id of a session"
    ordering = ["-id"]
    shown = [linked("session"), "path", "size", "mtime_ns", moment("read_at")]


@admin.register(Attachment)
class AttachmentAdmin(ReadOnlyAdmin):
    list_display = ["__str__", linked("workspace"), time("created_at")]
    list_filter = [WorkspaceFilter, time_filter("created_at")]
    list_select_related = ["workspace"]
    search_fields = ["id__exact"]
    search_help_text = "The whole id"
    ordering = ["-created_at"]
    # Without the content: megabytes of base64.
    shown = ["id", linked("workspace"), moment("created_at")]

    @override
    def get_queryset(self, request: Any) -> QuerySet[Model]:
        return super().get_queryset(request).defer("content")
