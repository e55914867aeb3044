"""The columns of lists, and the fields of a row's page. Independent of models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.apps import apps
from django.contrib import admin
from django.contrib.admin.utils import quote
from django.db.models import Model
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString

from workspaces.admin_pages.texts import (
    NOTHING,
    one_line,
    preformatted,
    readable_json,
    shown_moment,
    to_the_second,
)

SHORT_ID = 8  # characters of an id that a list shows
MOST_COUNTED = 1_000  # related rows: counting more costs more than the page

Column = Callable[[Any], Any]


def moment(field: str, label: str = "") -> Column:
    """A field of milliseconds, to the millisecond: for a row's page."""

    @admin.display(description=label or field.replace("_", " "), ordering=field)
    def column(row: Model) -> str:
        return shown_moment(getattr(row, field))

    return _named(column, field)


def time(field: str, label: str = "") -> Column:
    """A field of milliseconds, to the second and on one line: for a list."""

    @admin.display(description=label or field.removesuffix("_at"), ordering=field)
    def column(row: Model) -> SafeString:
        return format_html('<span class="time">{}</span>', to_the_second(getattr(row, field)))

    return _named(column, field)


def in_words(field: str, yes: str, no: str, label: str = "") -> Column:
    """A flag in words for its two values. Icons would show a healthy state as a red cross."""

    @admin.display(description=label or field.removeprefix("is_"), ordering=field)
    def column(row: Model) -> str:
        return yes if getattr(row, field) else no

    return _named(column, field)


def linked(field: str, model: str = "", label: str = "") -> Column:
    """The row that a field refers to, as a link to its page.

    Without ``model`` the field is a foreign key; otherwise it holds a primary key of that model
    ("app.model") as plain text.
    """

    @admin.display(description=label or field.removesuffix("_id").replace("_", " "), ordering=field)
    def column(row: Model) -> str | SafeString:
        value = getattr(row, field)
        if not value:
            return NOTHING
        if isinstance(value, Model):
            return link_to(value._meta.label_lower, value.pk, one_line(str(value)))
        return link_to(model, value, short_id(str(value)))

    return _named(column, field)


def author(field: str = "author") -> Column:
    """Who did something, by name: a user, or the way in which a program was identified."""

    @admin.display(description=field.replace("_", " "))
    def column(row: Model) -> str:
        who = getattr(row, field) or {}
        return str(who.get("name") or who.get("kind") or NOTHING)

    return _named(column, field)


def rows_of(model: str, by: str, label: str, *, is_counted: bool = True) -> Column:
    """The number of related rows of another model, as a link to their list.

    Without an index on ``by`` the rows are not counted.
    """

    @admin.display(description=label)
    def column(row: Model) -> str | SafeString:
        value = row.pk
        shown = "show"
        if is_counted:
            found = apps.get_model(model)._default_manager.filter(**{by: value})
            count = found.order_by().values("pk")[: MOST_COUNTED + 1].count()
            if not count:
                return NOTHING
            shown = f"{count:,}" if count <= MOST_COUNTED else f"more than {MOST_COUNTED:,}"
        return link_to_list(model, shown, **{by: value})

    return _named(column, label)


def _named(column: Column, name: str) -> Column:
    """Renames a column's function, because Django uses the name as the cell's CSS class."""
    column.__name__ = name.replace(" ", "_")
    return column


def link_to_list(model: str, text: str, /, **lookup: str | int) -> SafeString:
    """A link to the list of a model's rows with these values."""
    address = reverse(f"admin:{model.replace('.', '_')}_changelist")
    return format_html('<a href="{}?{}">{}</a>', address, urlencode(lookup), text)


def link_to(model: str, key: str | int, text: str) -> SafeString:
    """A link to a row's page in the admin; ``model`` is "app.model"."""
    address = reverse(f"admin:{model.replace('.', '_')}_change", args=[quote(key)])
    return format_html('<a href="{}">{}</a>', address, text)


def beginning(row: Model, field: str) -> str:
    """The beginning of a long text, as lists read it (``ListAdmin.long_fields``)."""
    name = beginning_name(field)
    return str(getattr(row, name) if hasattr(row, name) else getattr(row, field))


def beginning_name(field: str) -> str:
    return f"{field}_beginning"


def short_id(key: str) -> str:
    """Shortens long ids: a child session's id contains two ids, and its prefix identifies it."""
    return key if len(key) <= SHORT_ID * 2 else f"{key[:SHORT_ID]}…"


def json_text(field: str, label: str = "") -> Column:
    """A field that holds JSON, as text or decoded, indented for reading."""

    @admin.display(description=label or field.replace("_", " "))
    def column(row: Model) -> SafeString:
        return preformatted(readable_json(getattr(row, field)))

    return _named(column, field)


def long_text(field: str, label: str = "") -> Column:
    """A field of many lines, as it is."""

    @admin.display(description=label or field.replace("_", " "))
    def column(row: Model) -> SafeString:
        return preformatted(getattr(row, field))

    return _named(column, field)


def state(field: str = "state", label: str = "") -> Column:
    """A field with choices in one or two words, without the explanation in brackets."""

    @admin.display(description=label or field.replace("_", " "), ordering=field)
    def column(row: Model) -> str:
        shown = getattr(row, f"get_{field}_display")()
        return str(shown).partition(" (")[0] or NOTHING

    return _named(column, field)


def first_line(field: str, label: str = "") -> Column:
    """A text's first line, for a list."""

    @admin.display(description=label or field.replace("_", " "), ordering=field)
    def column(row: Model) -> str:
        return one_line(beginning(row, field))

    return _named(column, field)
