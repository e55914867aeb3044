"""Workspaces, their clients, their log, requests about them, and the processes, read-only.

The pages of workspaces and clients are only defined here: their actions end runs, so
``agents.admin`` registers them.
"""

from __future__ import annotations

from typing import ClassVar

from django.contrib import admin

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
    WorkspaceFilter,
    by_user_column,
    chosen_from,
    flag_filter,
    narrowed,
    time_filter,
)
from workspaces.admin_pages.pages import ReadOnlyAdmin
from workspaces.log.types import Kind
from workspaces.models.processes import RegisteredProcess, WorkRoot, WorkspaceHome
from workspaces.models.workspaces import (
    DailyJob,
    Event,
    KnownKey,
    PermissionMode,
    RetiredClient,
    TrustRequest,
    TrustRequestState,
)

_STREAMING = in_words("is_streaming", "attached", "away", "state")


class WorkspacePages(ReadOnlyAdmin):
    list_display = [
        "path",
        in_words("is_open", "open", "closed", "state"),
        state("permission_mode", "permissions"),
        "last_event",
        time("opened_at"),
    ]
    list_filter = [
        flag_filter("is_open", "open", "closed"),
        chosen_from("permission_mode", PermissionMode.choices, "permissions"),
        time_filter("opened_at"),
    ]
    search_fields = ["id__exact", "path"]
    search_help_text = "A part of the path, or the whole id"
    ordering = ["-opened_at"]
    related = [
        rows_of("workspaces.session", "workspace", "sessions"),
        rows_of("workspaces.clientclaim", "workspace", "clients"),
        rows_of("workspaces.event", "workspace", "events"),
    ]
    # Without ``sealed_env``: an encrypted secret is still a secret.
    shown = [
        "id",
        "path",
        "data_dir",
        in_words("is_open", "open", "closed", "state"),
        state("permission_mode", "permissions"),
        in_words("debug", "on", "off"),
        json_text("channels"),
        "labels",
        "last_event",
        moment("created_at"),
        moment("opened_at"),
        moment("closed_at"),
    ]


class ClientClaimPages(ReadOnlyAdmin):
    list_display = [
        "client_id",
        _STREAMING,
        linked("workspace"),
        linked("current_session_id", "workspaces.session", "looks at"),
        time("expires_at", "expires"),
    ]
    list_filter = [
        flag_filter("is_streaming", "attached", "away"),
        WorkspaceFilter,
        by_user_column(),
        time_filter("created_at"),
    ]
    list_select_related = ["workspace"]
    search_fields = ["client_id__exact", "current_session_id__exact"]
    search_help_text = "The whole id of a client or a session"
    ordering = ["-id"]
    shown = [
        "client_id",
        linked("workspace"),
        _STREAMING,
        "holder",
        "user_id",
        linked("current_session_id", "workspaces.session"),
        moment("created_at"),
        moment("expires_at"),
    ]


@admin.register(RetiredClient)
class RetiredClientAdmin(ReadOnlyAdmin):
    list_display = ["client_id", time("retired_at")]
    list_filter = [time_filter("retired_at")]
    search_fields = ["client_id__exact"]
    search_help_text = "The whole id of a client"
    ordering = ["-retired_at"]
    shown = ["client_id", moment("retired_at")]


@admin.register(RegisteredProcess)
class RegisteredProcessAdmin(ReadOnlyAdmin):
    list_display = [
        "__str__",
        "version",
        "runs",
        in_words("is_draining", "draining", "no"),
        in_words("is_lost", "lost", "registered", "state"),
        time("started_at"),
    ]
    list_filter = [chosen_from("kind", ["serve", "web", "worker"])]
    search_fields = ["id", "host"]
    search_help_text = "A part of the host's name or of the id"
    ordering = ["host", "kind", "pid"]
    shown = [
        "id",
        "kind",
        "host",
        "pid",
        "version",
        "runs",
        "most_runs",
        json_text("roots"),
        json_text("labels"),
        in_words("is_draining", "draining", "no"),
        in_words("is_lost", "lost", "registered", "state"),
        moment("started_at"),
        moment("registered_at"),
        moment("expires_at", "renewed until"),
    ]


@admin.register(WorkspaceHome)
class WorkspaceHomeAdmin(ReadOnlyAdmin):
    list_display = [
        linked("workspace"),
        linked("process_id", "workspaces.registeredprocess"),
        time("since"),
    ]
    list_select_related = ["workspace"]
    search_fields = ["process_id__exact"]
    search_help_text = "The whole id of a process"
    ordering = ["-since"]
    shown = [
        linked("workspace"),
        linked("process_id", "workspaces.registeredprocess"),
        moment("since"),
    ]


@admin.register(WorkRoot)
class WorkRootAdmin(ReadOnlyAdmin):
    list_display = ["name", "path", time("created_at")]
    search_fields = ["name", "path"]
    search_help_text = "A part of the name or of the path"
    ordering = ["name"]
    shown = ["name", "path", moment("created_at")]


@admin.register(DailyJob)
class DailyJobAdmin(ReadOnlyAdmin):
    list_display = ["name", time("due_at"), time("finished_at"), "holder"]
    ordering = ["name"]
    shown = [
        "name",
        moment("due_at"),
        moment("finished_at"),
        "holder",
        moment("held_until"),
        json_text("result"),
    ]


@admin.register(KnownKey)
class KnownKeyAdmin(ReadOnlyAdmin):
    list_display = ["name", time("noted_at")]
    ordering = ["name"]
    shown = ["name", "fingerprint", moment("noted_at")]


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    list_display = [
        "number",
        "kind",
        first_line("payload"),
        linked("session_id", "workspaces.session"),
        linked("workspace"),
        time("created_at"),
    ]
    list_display_links = ["number", "kind"]
    list_filter = [
        narrowed("session_id"),
        chosen_from("kind", Kind),
        WorkspaceFilter,
        time_filter("created_at"),
    ]
    list_select_related = ["workspace"]
    long_fields = ("payload",)
    search_fields = ["session_id__exact", "number__exact", "payload"]
    search_help_text = (
        "The whole id of a session, the number of an event, or words in the 10,000 newest events"
    )
    ordering = ["-id"]
    shown = [
        linked("workspace"),
        "number",
        "kind",
        linked("session_id", "workspaces.session"),
        moment("created_at", "at"),
        json_text("payload"),
    ]


@admin.register(TrustRequest)
class TrustRequestAdmin(ReadOnlyAdmin):
    list_display = ["path", state(), time("asked_at"), time("answered_at")]
    list_filter = [chosen_from("state", TrustRequestState.choices), time_filter("asked_at")]
    search_fields = ["id__exact", "path"]
    search_help_text = "A part of the path, or the whole id"
    ordering = ["-asked_at"]
    long_fields: ClassVar = ("description",)
    shown = [
        "id",
        "path",
        state(),
        long_text("description"),
        json_text("params"),
        "digest",
        moment("asked_at"),
        moment("answered_at"),
        author(),
    ]
