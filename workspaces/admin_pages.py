"""What all our admin pages share: they show and never write.

Rows are written by actions alone, which tell of what they change; a form that
saved a row would go past the event log. Knows no model. Texts are shown
bounded: a message may hold megabytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias
from urllib.parse import urlencode

import orjson
from django.apps import apps
from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from typing_extensions import override

if TYPE_CHECKING:
    Pages: TypeAlias = admin.ModelAdmin[Any]
else:
    Pages = admin.ModelAdmin

SHORT_ID = 8  # characters of an id that a list shows
STRING_LIMIT = 4_000  # of one text inside JSON: an attachment is not worth reading
TEXT_LIMIT = 200_000  # of a whole field
LINE_LIMIT = 80  # in a list
NOTHING = "–"

Column = Callable[[Any], Any]


class ReadOnlyAdmin(Pages):
    """Nothing is added, changed or deleted here; actions of the subclass do what may be done."""

    shown: ClassVar[Sequence[str | Column]] = ()  # a row's page: fields, and what is made of them
    related: ClassVar[Sequence[Column]] = ()  # links to what belongs to the row
    list_per_page = 50
    # Counting a long log for a page's heading costs more than the page.
    show_full_result_count = False
    actions_on_bottom = True

    class Media:
        css: ClassVar[dict[str, tuple[str, ...]]] = {"all": ("workspaces/admin.css",)}

    @override
    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    @override
    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    @override
    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    @override
    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        own = (None, {"fields": self.shown})
        return [own, ("Related", {"fields": self.related})] if self.related else [own]

    @override
    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return [*self.shown, *self.related]

    def has_act_permission(self, request: HttpRequest) -> bool:
        """Who may use the actions: whoever may change such rows, were they forms."""
        model = self.opts
        return request.user.has_perm(f"{model.app_label}.change_{model.model_name}")


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
        shown = shown_moment(getattr(row, field))
        return format_html('<span class="time">{}</span>', shown.partition(".")[0])

    return _named(column, field)


def in_words(field: str, yes: str, no: str, label: str = "") -> Column:
    """A flag by the words for its two values. Icons would show a healthy state as a red cross."""

    @admin.display(description=label or field.removeprefix("is_"), ordering=field)
    def column(row: Model) -> str:
        return yes if getattr(row, field) else no

    return _named(column, field)


def linked(field: str, model: str = "", label: str = "") -> Column:
    """The row that a field names, as a link to its page.

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


def rows_of(model: str, by: str, label: str) -> Column:
    """How many rows of another model belong to this one, as a link to their list."""

    @admin.display(description=label)
    def column(row: Model) -> str | SafeString:
        value = row.pk
        count = apps.get_model(model)._default_manager.filter(**{by: value}).count()
        if not count:
            return NOTHING
        address = reverse(f"admin:{model.replace('.', '_')}_changelist")
        return format_html('<a href="{}?{}">{}</a>', address, urlencode({by: value}), f"{count:,}")

    return _named(column, label)


def _named(column: Column, name: str) -> Column:
    """Django names a cell's CSS class after the function."""
    column.__name__ = name.replace(" ", "_")
    return column


def link_to(model: str, key: object, text: str) -> SafeString:
    """A link to a row's page in the admin; ``model`` is "app.model"."""
    address = reverse(f"admin:{model.replace('.', '_')}_change", args=[key])
    return format_html('<a href="{}">{}</a>', address, text)


def short_id(key: str) -> str:
    """A child session's id holds two ids: its beginning names it as well."""
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


def first_line(field: str, label: str = "") -> Column:
    """A text's first line, for a list."""

    @admin.display(description=label or field.replace("_", " "), ordering=field)
    def column(row: Model) -> str:
        return one_line(getattr(row, field))

    return _named(column, field)


def chosen_from(field: str, choices: Iterable[StrEnum], label: str = "") -> type[Any]:
    """A filter by a field's known values; the database is not asked which there are."""
    known = [(str(choice), str(choice)) for choice in choices]

    class Chosen(admin.SimpleListFilter):
        title = label or field
        parameter_name = field

        @override
        def lookups(self, request: HttpRequest, model_admin: Any) -> Any:
            return known

        @override
        def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
            value = self.value()
            return queryset.filter(**{field: value}) if value else queryset

    return Chosen


def flag_filter(field: str, yes: str, no: str, label: str = "state") -> type[Any]:
    """A filter by a flag, in the words for its two values."""
    known = [("1", yes), ("0", no)]

    class StateFlag(admin.SimpleListFilter):
        title = label
        parameter_name = field

        @override
        def lookups(self, request: HttpRequest, model_admin: Any) -> Any:
            return known

        @override
        def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
            value = self.value()
            return queryset.filter(**{field: value == "1"}) if value else queryset

    return StateFlag


def shown_moment(moment: int | None) -> str:
    if not moment:
        return NOTHING
    try:
        at = datetime.fromtimestamp(moment / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(moment)
    return f"{at:%Y-%m-%d %H:%M:%S}.{moment % 1000:03} UTC"


def one_line(text: str) -> str:
    line = " ".join(text[: LINE_LIMIT * 4].split())
    return line if len(line) <= LINE_LIMIT else line[: LINE_LIMIT - 1] + "…"


def excerpt(parts: str) -> str:
    """What a message says, on one line. Never raises: what is no list of parts is shown as it is."""
    try:
        texts = [_part_text(part["type"], part["data"]) for part in orjson.loads(parts)]
    except (ValueError, TypeError, KeyError, AttributeError):
        return one_line(parts)
    return one_line(" ".join(text for text in texts if text))


def _part_text(kind: str, data: Any) -> str:
    match kind:
        case "text":
            return str(data["text"])
        case "tool_call":
            return f"→ {data['name']} {data['input']}"
        case "tool_result":
            return f"← {data['name']} {data['content']}"
        case "shell_command":
            return f"$ {data['command']}"
        case "finish" if data.get("message"):
            return f"({data['reason']}: {data['message']})"
        case "binary" | "image_url":
            return "(attachment)"
        case _:
            return ""


def readable_json(value: Any) -> str:
    """Never raises: what is no JSON is shown as it is."""
    if isinstance(value, str):
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            return str(value)
    return orjson.dumps(_shortened(value), option=orjson.OPT_INDENT_2).decode()


def _shortened(value: Any) -> Any:
    if isinstance(value, str) and len(value) > STRING_LIMIT:
        return f"{value[:STRING_LIMIT]}… ({len(value)} characters)"
    if isinstance(value, list):
        return [_shortened(item) for item in value]
    if isinstance(value, dict):
        return {key: _shortened(item) for key, item in value.items()}
    return value


def preformatted(text: str) -> SafeString:
    if not text:
        return format_html("{}", NOTHING)
    if len(text) > TEXT_LIMIT:
        text = f"{text[:TEXT_LIMIT]}… ({len(text)} characters)"
    return format_html('<pre class="text">{}</pre>', text)
