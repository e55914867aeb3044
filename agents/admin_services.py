"""What runs beside a workspace's runs, in Django's admin: jobs, MCP and language servers."""

from __future__ import annotations

from django.contrib import admin

from agents.models import Job, LanguageServer, McpSecret, McpServer
from workspaces.admin_pages import ReadOnlyAdmin, first_line, linked, long_text, moment, time


@admin.register(Job)
class JobAdmin(ReadOnlyAdmin):
    list_display = [
        first_line("command"),
        "state",
        "exit_code",
        linked("workspace"),
        linked("session_id", "workspaces.session"),
        time("started_at"),
    ]
    list_filter = ["state"]
    list_select_related = ["workspace"]
    search_fields = ["=id", "command", "=session_id", "workspace__path"]
    ordering = ["-started_at"]
    shown = [
        "id",
        linked("workspace"),
        linked("session_id", "workspaces.session"),
        long_text("command"),
        "description",
        "working_dir",
        "state",
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
    list_filter = ["state"]
    list_select_related = ["workspace"]
    search_fields = ["name", "workspace__path"]
    ordering = ["name"]


@admin.register(McpServer)
class McpServerAdmin(_ServerAdmin):
    list_display = [
        "name",
        "state",
        linked("workspace"),
        "tool_count",
        time("connected_at"),
    ]
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
    """That there is a login, never the login."""

    list_display = ["url", time("changed_at")]
    search_fields = ["url"]
    ordering = ["url"]
    shown = ["url", moment("changed_at")]


@admin.register(LanguageServer)
class LanguageServerAdmin(_ServerAdmin):
    list_display = [
        "name",
        "state",
        linked("workspace"),
        "diagnostic_count",
        time("connected_at"),
    ]
    shown = [
        linked("workspace"),
        "name",
        "state",
        long_text("error"),
        "diagnostic_count",
        "pid",
        moment("connected_at"),
    ]
