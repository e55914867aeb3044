"""Permission requests, questions, grants and policies in Django's admin; revokes grants.

The pages of requests and questions are only defined here: answers resume runs, so ``agents.admin``
registers them.
"""

from __future__ import annotations

from functools import partial

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from people.pages.sender import actor_of
from permissions.actions.grants import revoke_grant
from permissions.models import (
    ApprovalPolicy,
    BatchState,
    Grant,
    GrantScope,
    RequestState,
)
from workspaces.access import Right
from workspaces.admin_pages.columns import (
    author,
    first_line,
    json_text,
    linked,
    long_text,
    moment,
    state,
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
from workspaces.admin_pages.pages import ReadOnlyAdmin, act
from workspaces.log.writer import writer


class PermissionRequestPages(ReadOnlyAdmin):
    list_display = [
        "tool_name",
        state(),
        first_line("description"),
        linked("session"),
        linked("workspace"),
        time("asked_at"),
    ]
    list_filter = [
        narrowed("session"),
        narrowed("run_key", "run"),
        chosen_from("state", RequestState.choices),
        recent_values("tool_name", "tool"),
        WorkspaceFilter,
        by_author(),
        time_filter("asked_at"),
    ]
    list_select_related = ["session", "workspace"]
    long_fields = ("description",)
    search_fields = ["id__exact", "session_id__exact", "tool_name", "path", "description"]
    search_help_text = "Words in the 10,000 newest, or a whole id"
    ordering = ["-asked_at"]
    shown = [
        state(),
        "tool_name",
        "action",
        "path",
        long_text("description"),
        json_text("params"),
        json_text("files"),
        author(),
        long_text("reason"),
        "scope",
        moment("until"),
        json_text("arguments"),
        linked("workspace"),
        linked("session"),
        linked("run_key", "agents.run", "run"),
        "id",
        "tool_call_id",
        moment("asked_at"),
        moment("answered_at"),
        moment("notify_at"),
        moment("notified_at"),
        moment("deny_at"),
    ]


class QuestionBatchPages(ReadOnlyAdmin):
    list_display = ["__str__", state(), linked("session"), linked("workspace"), time("asked_at")]
    list_filter = [
        narrowed("session"),
        narrowed("run_key", "run"),
        chosen_from("state", BatchState.choices),
        WorkspaceFilter,
        by_author(),
        time_filter("asked_at"),
    ]
    list_select_related = ["session", "workspace"]
    search_fields = ["id__exact", "session_id__exact", "questions", "responses"]
    search_help_text = "Words in the 10,000 newest questions and answers, or a whole id"
    ordering = ["-asked_at"]
    shown = [
        state(),
        "confirm_title",
        long_text("confirm_description"),
        json_text("questions"),
        json_text("responses"),
        author(),
        linked("workspace"),
        linked("session"),
        linked("run_key", "agents.run", "run"),
        "id",
        "tool_call_id",
        moment("asked_at"),
        moment("answered_at"),
        moment("notify_at"),
        moment("notified_at"),
        moment("deny_at"),
    ]


@admin.register(Grant)
class GrantAdmin(ReadOnlyAdmin):
    list_display = [
        "tool_name",
        "action",
        "path",
        state("scope"),
        linked("session"),
        time("granted_at"),
    ]
    list_filter = [
        narrowed("session"),
        chosen_from("scope", [each for each in GrantScope.choices if each[0] != GrantScope.ONCE]),
        recent_values("tool_name", "tool"),
        WorkspaceFilter,
        by_user_column(),
        time_filter("granted_at"),
    ]
    list_select_related = ["session", "workspace"]
    search_fields = ["session_id__exact", "tool_name", "path"]
    search_help_text = "A tool, a part of the path, or the whole id of a session"
    ordering = ["-id"]
    shown = [
        linked("workspace"),
        linked("session"),
        linked("run_key", "agents.run", "run"),
        "tool_name",
        "action",
        "path",
        "reach",
        "scope",
        author(),
        moment("granted_at"),
        moment("expires_at"),
    ]
    actions = ["revoke"]

    @admin.display(description="Covers")
    def reach(self, grant: Grant) -> str:
        return "the folder with everything in it" if grant.is_folder else "this path only"

    @act("Revoke: request permission again", Right.ANSWER)
    def revoke(self, request: HttpRequest, queryset: QuerySet[Grant]) -> None:
        actor = actor_of(request, via="admin")
        count = 0
        for key, workspace_id in queryset.values_list("pk", "workspace_id"):
            job = partial(revoke_grant, grant_id=key, actor=actor)
            count += writer.write_and_wait(workspace_id, job)
        self.message_user(request, f"{count} revoked.", messages.SUCCESS)


@admin.register(ApprovalPolicy)
class ApprovalPolicyAdmin(ReadOnlyAdmin):
    list_display = [linked("workspace"), "__str__", author(), time("changed_at")]
    list_display_links = ["__str__"]
    list_filter = [WorkspaceFilter, by_author(), time_filter("changed_at")]
    list_select_related = ["workspace"]
    search_fields = ["workspace__path"]
    search_help_text = "A part of the workspace's path"
    ordering = ["-changed_at"]
    shown = [
        linked("workspace"),
        "notify_after_seconds",
        "deny_after_seconds",
        author(),
        moment("changed_at"),
    ]
