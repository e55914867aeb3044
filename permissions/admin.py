"""Questions and standing permissions in Django's admin; a standing one can be revoked."""

from __future__ import annotations

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from permissions.models import Grant, PermissionRequest, QuestionBatch
from workspaces.admin_pages import ReadOnlyAdmin, json_text, linked, moment, time
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer


@admin.register(PermissionRequest)
class PermissionRequestAdmin(ReadOnlyAdmin):
    list_display = [
        "tool_name",
        "state",
        "description",
        linked("session"),
        linked("workspace"),
        time("asked_at"),
    ]
    list_filter = ["state", "action"]
    list_select_related = ["session", "workspace"]
    search_fields = ["=id", "tool_name", "path", "description", "=session__id", "workspace__path"]
    ordering = ["-asked_at"]
    shown = [
        "id",
        linked("workspace"),
        linked("session"),
        linked("run_key", "agents.run", "run"),
        "tool_call_id",
        "tool_name",
        "action",
        "path",
        "description",
        json_text("params"),
        json_text("files"),
        "state",
        moment("asked_at"),
        moment("answered_at"),
    ]


@admin.register(QuestionBatch)
class QuestionBatchAdmin(ReadOnlyAdmin):
    list_display = ["__str__", "state", linked("session"), linked("workspace"), time("asked_at")]
    list_filter = ["state"]
    list_select_related = ["session", "workspace"]
    search_fields = ["=id", "=session__id", "workspace__path", "questions", "responses"]
    ordering = ["-asked_at"]
    shown = [
        "id",
        linked("workspace"),
        linked("session"),
        linked("run_key", "agents.run", "run"),
        "tool_call_id",
        json_text("questions"),
        "confirm_title",
        "confirm_description",
        "state",
        json_text("responses"),
        moment("asked_at"),
        moment("answered_at"),
    ]


@admin.register(Grant)
class GrantAdmin(ReadOnlyAdmin):
    list_display = ["tool_name", "action", "path", linked("session"), time("granted_at")]
    list_filter = ["action"]
    list_select_related = ["session"]
    search_fields = ["tool_name", "path", "=session__id", "session__title"]
    ordering = ["-granted_at"]
    shown = [linked("session"), "tool_name", "action", "path", "reach", moment("granted_at")]
    actions = ["revoke"]

    @admin.display(description="Covers")
    def reach(self, grant: Grant) -> str:
        return "the folder with everything in it" if grant.is_folder else "this path only"

    @admin.action(description="Revoke: ask again", permissions=["act"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[Grant]) -> None:
        keys = list(queryset.values_list("pk", flat=True))

        def job(_: Transaction) -> int:
            return Grant.objects.filter(pk__in=keys).delete()[0]

        count = writer.write_and_wait("", job)
        self.message_user(request, f"{count} revoked.", messages.SUCCESS)
