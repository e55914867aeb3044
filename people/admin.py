"""People in Django's admin: users, members, roles of groups, tokens, browsers and the audit."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

from django.contrib import admin, messages
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from typing_extensions import override

from people.actions.audit import Act
from people.actions.browser_sessions import end_browser_session
from people.actions.groups import delete_group_role, set_group_role
from people.actions.members import set_role
from people.actions.shares import delete_share, set_share
from people.actions.tokens import revoke_token
from people.identities import IDENTITIES
from people.models import ROLES, AuditEntry, BrowserSession, GroupRole, Member, Share, Token
from people.pages.sender import actor_of
from workspaces.access import MemberRole, Right
from workspaces.admin_pages.columns import in_words, json_text, linked, moment, time
from workspaces.admin_pages.filters import (
    ChoiceFilter,
    WorkspaceFilter,
    WorkspaceIdFilter,
    by_user_column,
    chosen_from,
    flag_filter,
    narrowed,
    recent_values,
    time_filter,
)
from workspaces.admin_pages.lists import ListAdmin
from workspaces.admin_pages.pages import ReadOnlyAdmin, act
from workspaces.log.errors import BrowserSessionUnknown
from workspaces.log.timestamps import now_ms
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer

admin.site.unregister((User, Group))


@admin.register(User)
class UserAccountAdmin(ListAdmin, UserAdmin):  # type: ignore[type-arg]  # Django's class takes none
    """Django's own, with lists that are not counted."""

    list_display = [
        "username",
        "email",
        in_words("is_active", "active", "disabled", "state"),
        in_words("is_staff", "staff", "user", "kind"),
        "last_login",
    ]
    list_filter = [
        flag_filter("is_active", "active", "disabled"),
        flag_filter("is_staff", "staff", "user", "kind"),
        flag_filter("is_superuser", "superuser", "with permissions", "rights"),
    ]
    ordering = ["username"]


@admin.register(Group)
class UserGroupAdmin(ListAdmin, GroupAdmin):
    """The same for groups."""

    ordering = ["name"]


@admin.register(Member)
class MemberAdmin(ListAdmin):
    list_display = ["user", "workspace", "role"]
    list_filter = [chosen_from("role", ROLES), WorkspaceFilter, by_user_column()]
    ordering = ["-id"]
    list_select_related = ["user", "workspace"]
    search_fields = ["user__username", "workspace__path"]
    fields = ["user", "workspace", "role"]
    autocomplete_fields = ["user", "workspace"]

    @override
    def save_model(self, request: HttpRequest, obj: Member, form: Any, change: bool) -> None:
        give = partial(
            set_role, user=obj.user, workspace=obj.workspace, actor=actor_of(request, via="admin")
        )
        writer.write_and_wait("", partial(give, role=MemberRole(obj.role)))
        obj.pk = Member.objects.get(user=obj.user, workspace=obj.workspace).pk
        IDENTITIES.forget()

    @override
    def delete_model(self, request: HttpRequest, obj: Member) -> None:
        take = partial(set_role, user=obj.user, workspace=obj.workspace, role=None)
        writer.write_and_wait("", partial(take, actor=actor_of(request, via="admin")))
        IDENTITIES.forget()

    @override
    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Member]) -> None:
        for member in queryset.select_related("user", "workspace"):
            self.delete_model(request, member)


@admin.register(GroupRole)
class GroupRoleAdmin(ListAdmin):
    list_display = ["group", "workspace", "role"]
    list_filter = [chosen_from("role", ROLES), WorkspaceFilter]
    ordering = ["-id"]
    list_select_related = ["group", "workspace"]
    search_fields = ["group__name", "workspace__path"]
    fields = ["group", "workspace", "role"]
    autocomplete_fields = ["group", "workspace"]

    @override
    def save_model(self, request: HttpRequest, obj: GroupRole, form: Any, change: bool) -> None:
        actor, former = actor_of(request, via="admin"), obj.pk

        def store(tx: Transaction) -> GroupRole:
            if former is not None:  # its group or workspace may be another now
                delete_group_role(tx, former, actor=actor)
            role = MemberRole(obj.role)
            return set_group_role(tx, obj.group.name, obj.workspace, role, actor=actor)

        obj.pk = writer.write_and_wait("", store).pk
        IDENTITIES.forget()

    @override
    def delete_model(self, request: HttpRequest, obj: GroupRole) -> None:
        take = partial(delete_group_role, row_id=obj.pk, actor=actor_of(request, via="admin"))
        writer.write_and_wait("", take)
        IDENTITIES.forget()

    @override
    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[GroupRole]) -> None:
        for row in queryset:
            self.delete_model(request, row)


@admin.register(Share)
class ShareAdmin(ListAdmin):
    list_display = ["__str__", "weight", "max_running"]
    ordering = ["-id"]
    list_select_related = ["user", "workspace"]
    search_fields = ["user__username", "workspace__path"]
    fields = ["user", "workspace", "weight", "max_running"]
    autocomplete_fields = ["user", "workspace"]

    @override
    def save_model(self, request: HttpRequest, obj: Share, form: Any, change: bool) -> None:
        store = partial(set_share, share=obj, actor=actor_of(request, via="admin"))
        writer.write_and_wait("", store)

    @override
    def delete_model(self, request: HttpRequest, obj: Share) -> None:
        delete = partial(delete_share, share=obj, actor=actor_of(request, via="admin"))
        writer.write_and_wait("", delete)

    @override
    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Share]) -> None:
        for share in queryset.select_related("user", "workspace"):
            self.delete_model(request, share)


class StateOfToken(ChoiceFilter):
    title = parameter_name = "state"

    @override
    def known(self, request: HttpRequest) -> Any:
        return [("valid", "Valid"), ("expired", "Expired"), ("revoked", "Revoked")]

    @override
    def chosen(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        if value == "revoked":
            return rows.filter(revoked_at__isnull=False)
        is_over, now = Q(expires_at__lte=now_ms()), rows.filter(revoked_at__isnull=True)
        return now.filter(is_over) if value == "expired" else now.exclude(is_over)


@admin.register(Token)
class TokenAdmin(ReadOnlyAdmin):
    list_display = ["name", "prefix", "state", "user", time("last_used_at"), time("expires_at")]
    list_filter = [
        StateOfToken,
        flag_filter("has_all_workspaces", "all", "chosen", "workspaces"),
        by_user_column(),
        time_filter("last_used_at"),
    ]
    list_select_related = ["user"]
    search_fields = ["name", "prefix", "user__username"]
    search_help_text = "A part of the name, of the user's name, or of the beginning of the token"
    ordering = ["-created_at"]
    shown = [
        "name",
        "prefix",
        "state",
        "user",
        json_text("scopes"),
        in_words("has_all_workspaces", "all", "chosen", "workspaces"),
        "created_by",
        moment("created_at"),
        moment("expires_at"),
        moment("last_used_at"),
        moment("revoked_at"),
    ]
    actions = ["revoke"]

    @admin.display(description="state")
    def state(self, token: Token) -> str:
        if token.revoked_at is not None:
            return "revoked"
        is_over = token.expires_at is not None and token.expires_at <= now_ms()
        return "expired" if is_over else "valid"

    @act("Revoke selected tokens", Right.ADMINISTER)
    def revoke(self, request: HttpRequest, tokens: QuerySet[Token]) -> None:
        actor = actor_of(request, via="admin")
        chosen = list(tokens.values_list("pk", flat=True))
        for token_id in chosen:
            writer.write_and_wait("", partial(revoke_token, token_id=token_id, actor=actor))
        IDENTITIES.forget()
        self.message_user(request, f"{len(chosen)} revoked.", messages.SUCCESS)


@admin.register(BrowserSession)
class BrowserSessionAdmin(ReadOnlyAdmin):
    list_display = ["user", "browser", "address", time("created_at")]
    list_select_related = ["user"]
    list_filter = [by_user_column(), time_filter("created_at")]
    search_fields = ["user__username", "address"]
    search_help_text = "A part of the user's name, or of the address"
    ordering = ["-id"]
    shown = ["user", "browser", "address", moment("created_at")]
    actions = ["sign_out"]

    @act("Sign out", Right.ADMINISTER)
    def sign_out(self, request: HttpRequest, browsers: QuerySet[BrowserSession]) -> None:
        actor, count = actor_of(request, via="admin"), 0
        for row in browsers.select_related("user"):
            end = partial(end_browser_session, user=row.user, browser_session_id=row.pk)
            with suppress(BrowserSessionUnknown):  # somebody else was faster
                writer.write_and_wait("", partial(end, actor=actor))
                count += 1
        IDENTITIES.forget()
        self.message_user(request, f"{count} signed out.", messages.SUCCESS)


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin):
    list_display = [
        "actor",
        "act",
        "target",
        "outcome",
        linked("session_id", "workspaces.session"),
        time("at"),
    ]
    list_filter = [
        narrowed("session_id"),
        chosen_from("act", Act),
        recent_values("outcome"),
        recent_values("kind", "identified as"),
        WorkspaceIdFilter,
        by_user_column(),
        time_filter("at", "time"),
    ]
    search_fields = ["session_id__exact", "client_id__exact", "actor", "target", "address"]
    search_help_text = "Words in the 10,000 newest entries, or the whole id of a session or client"
    ordering = ["-id"]
    shown = [
        moment("at"),
        "kind",
        "actor",
        "token_id",
        "client_id",
        "address",
        "act",
        linked("workspace_id", "workspaces.workspace"),
        linked("session_id", "workspaces.session"),
        "target",
        "outcome",
        json_text("details"),
    ]
