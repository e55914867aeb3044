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

import orjson
from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from typing_extensions import override

if TYPE_CHECKING:
    Pages: TypeAlias = admin.ModelAdmin[Any]
else:
    Pages = admin.ModelAdmin

STRING_LIMIT = 4_000  # of one text inside JSON: an attachment is not worth reading
TEXT_LIMIT = 200_000  # of a whole field
LINE_LIMIT = 120  # in a list
NOTHING = "–"

Column = Callable[[Any], Any]


class ReadOnlyAdmin(Pages):
    """Nothing is added, changed or deleted here; actions of the subclass do what may be done."""

    shown: ClassVar[Sequence[str | Column]] = ()  # a row's page: fields, and what is made of them
    list_per_page = 50
    # Counting a long log for a page's heading costs more than the page.
    show_full_result_count = False
    actions_on_bottom = True

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
    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return self.shown

    @override
    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return self.shown

    def has_act_permission(self, request: HttpRequest) -> bool:
        """Who may use the actions: whoever may change such rows, were they forms."""
        model = self.opts
        return request.user.has_perm(f"{model.app_label}.change_{model.model_name}")


def moment(field: str, label: str = "") -> Column:
    """A column for a field of milliseconds."""

    @admin.display(description=label or field.replace("_", " "), ordering=field)
    def column(row: Model) -> str:
        return shown_moment(getattr(row, field))

    return column


def json_text(field: str, label: str = "") -> Column:
    """A field that holds JSON, as text or decoded, indented for reading."""

    @admin.display(description=label or field.replace("_", " "))
    def column(row: Model) -> SafeString:
        return preformatted(readable_json(getattr(row, field)))

    return column


def long_text(field: str, label: str = "") -> Column:
    """A field of many lines, as it is."""

    @admin.display(description=label or field.replace("_", " "))
    def column(row: Model) -> SafeString:
        return preformatted(getattr(row, field))

    return column


def first_line(field: str, label: str = "") -> Column:
    """A text's first line, for a list."""

    @admin.display(description=label or field.replace("_", " "), ordering=field)
    def column(row: Model) -> str:
        return one_line(getattr(row, field))

    return column


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
    style = "white-space: pre-wrap; overflow-wrap: anywhere; max-width: 100ch; margin: 0"
    return format_html('<pre style="{}">{}</pre>', style, text)
