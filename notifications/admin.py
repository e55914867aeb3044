"""Channels and deliveries in Django's admin, read-only."""

from __future__ import annotations

from typing import ClassVar

from django.contrib import admin

from notifications.models import ChannelKind, Delivery, DeliveryState, NotificationChannel
from workspaces.admin_pages.columns import in_words, moment, state, time
from workspaces.admin_pages.filters import (
    WorkspaceFilter,
    by_user_column,
    chosen_from,
    flag_filter,
    time_filter,
)
from workspaces.admin_pages.pages import ReadOnlyAdmin


@admin.register(NotificationChannel)
class ChannelAdmin(ReadOnlyAdmin):
    list_display = [
        "name",
        state("kind"),
        in_words("is_enabled", "on", "off", "state"),
        "user",
        "failures",
        "last_error",
    ]
    list_filter = [
        chosen_from("kind", ChannelKind.choices),
        flag_filter("is_enabled", "on", "off"),
        WorkspaceFilter,
        by_user_column(),
        time_filter("created_at"),
    ]
    list_select_related = ["user"]
    search_fields = ["id__exact", "name", "user__username"]
    search_help_text = "A part of the name, or of the user's name"
    ordering = ["-created_at"]
    shown: ClassVar = [
        "id",
        "user",
        state("kind"),
        "name",
        "workspace",
        in_words("is_enabled", "on", "off", "state"),
        "failures",
        "last_error",
        moment("last_sent_at"),
        moment("created_at"),
    ]


@admin.register(Delivery)
class DeliveryAdmin(ReadOnlyAdmin):
    list_display = ["notice", state(), "channel", "attempts", "status_code", time("created_at")]
    list_display_links = ["notice"]
    list_filter = [chosen_from("state", DeliveryState.choices), time_filter("created_at")]
    list_select_related = ["notice", "channel"]
    search_fields = ["notice__subject_id", "error"]
    search_help_text = "Words in errors, or the id of what it is about"
    ordering = ["-created_at"]
    shown: ClassVar = [
        "id",
        "notice",
        "channel",
        state(),
        "attempts",
        "status_code",
        "error",
        moment("created_at"),
        moment("due_at"),
        moment("finished_at"),
        moment("link_used_at"),
    ]
