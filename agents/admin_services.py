"""What runs beside a workspace's runs, in Django's admin: jobs, MCP and language servers."""

from __future__ import annotations

from django.contrib import admin

from agents.models import Job, LanguageServer, McpSecret, McpServer
from workspaces.admin_pages import ReadOnlyAdmin, first_line, long_text, moment


@admin.register(Job)
class JobAdmin(ReadOnlyAdmin):
    list_display = [
        first_line("command"),
        "state",
        "exit_code",
        "workspace",
        "pid",
        moment("started_at"),
        moment("ended_at"),
    ]
    list_filter = ["state"]
    list_select_related = ["workspace"]
    search_fields = ["=id", "command", "=session_id", "workspace__path"]
    ordering = ["-started_at"]
    shown = [
        "id",
        "workspace",
        "session_id",
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
        "workspace",
        "tool_count",
        "prompt_count",
        "resource_count",
        moment("connected_at"),
    ]
    shown = [
        "workspace",
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

    list_display = ["url", moment("changed_at")]
    search_fields = ["url"]
    ordering = ["url"]
    shown = ["url", moment("changed_at")]


@admin.register(LanguageServer)
class LanguageServerAdmin(_ServerAdmin):
    list_display = [
        "name",
        "state",
        "workspace",
        "diagnostic_count",
        "pid",
        moment("connected_at"),
    ]
    shown = [
        "workspace",
        "name",
        "state",
        long_text("error"),
        "diagnostic_count",
        "pid",
        moment("connected_at"),
    ]
