"""The filters of lists. None of them reads a whole table to find its choices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from django.apps import apps
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from typing_extensions import override

from workspaces.admin_pages.columns import short_id
from workspaces.admin_pages.texts import one_line
from workspaces.log.timestamps import now_ms

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
LISTED = 12  # workspaces and users to choose from; others come by a link
NEWEST = 1_000  # rows whose values are offered
TIMES = {
    "hour": ("In the last hour", HOUR_MS),
    "day": ("In the last 24 hours", DAY_MS),
    "week": ("In the last 7 days", 7 * DAY_MS),
    "month": ("In the last 30 days", 30 * DAY_MS),
}
EARLIER = ("earlier", "Earlier")

Choices = Sequence[tuple[str, str]]
Rows = QuerySet[Any]


class ChoiceFilter(admin.SimpleListFilter):
    """A filter by some known values. Other values are ignored."""

    def known(self, request: HttpRequest) -> Choices:
        raise NotImplementedError

    def chosen(self, rows: Rows, value: str) -> Rows:
        raise NotImplementedError

    @override
    def lookups(self, request: HttpRequest, model_admin: Any) -> Any:
        return self.known(request)

    @override
    def queryset(self, request: HttpRequest, queryset: Rows) -> Rows:
        value = self.value()
        if not value or value not in {str(key) for key, _ in self.lookup_choices}:
            return queryset
        return self.chosen(queryset, value)


def chosen_from(field: str, choices: Iterable[Any], label: str = "") -> type[ChoiceFilter]:
    """A filter by a field's known values: of an enumeration, or pairs as of a field's choices."""
    found = [each if isinstance(each, tuple) else (each, each) for each in choices]
    pairs = [(str(value), str(shown).partition(" (")[0].capitalize()) for value, shown in found]

    class Chosen(ChoiceFilter):
        title = label or field.replace("_", " ")
        parameter_name = field

        @override
        def known(self, request: HttpRequest) -> Choices:
            return pairs

        @override
        def chosen(self, rows: Rows, value: str) -> Rows:
            return rows.filter(**{field: value})

    return Chosen


def flag_filter(field: str, yes: str, no: str, label: str = "state") -> type[ChoiceFilter]:
    """A filter by a flag, in the words for its two values."""

    class StateFlag(ChoiceFilter):
        title = label
        parameter_name = field

        @override
        def known(self, request: HttpRequest) -> Choices:
            return [("1", yes.capitalize()), ("0", no.capitalize())]

        @override
        def chosen(self, rows: Rows, value: str) -> Rows:
            return rows.filter(**{field: value == "1"})

    return StateFlag


def time_filter(field: str, label: str = "") -> type[ChoiceFilter]:
    """A filter by a moment in milliseconds: of late, or earlier."""

    class TimeFilter(ChoiceFilter):
        title = label or field.removesuffix("_at")
        parameter_name = f"{field}_within"

        @override
        def known(self, request: HttpRequest) -> Choices:
            return [*((key, shown) for key, (shown, _) in TIMES.items()), EARLIER]

        @override
        def chosen(self, rows: Rows, value: str) -> Rows:
            if value == EARLIER[0]:
                return rows.filter(**{f"{field}__lt": now_ms() - TIMES["month"][1]})
            return rows.filter(**{f"{field}__gte": now_ms() - TIMES[value][1]})

    return TimeFilter


def recent_values(field: str, label: str = "") -> type[ChoiceFilter]:
    """A filter by the values that the newest rows have."""

    class RecentValues(ChoiceFilter):
        title = label or field.replace("_", " ")
        parameter_name = field

        def __init__(self, request: HttpRequest, params: Any, model: Any, page: Any) -> None:
            newest = model._default_manager.order_by("-pk").values_list(field, flat=True)[:NEWEST]
            self._values = sorted({str(value) for value in newest if value})[: LISTED * 2]
            if given := params.get(field):
                self._values = sorted({*self._values, _clean(given[-1])})
            super().__init__(request, params, model, page)

        @override
        def known(self, request: HttpRequest) -> Choices:
            return [(value, one_line(value)) for value in self._values]

        @override
        def chosen(self, rows: Rows, value: str) -> Rows:
            return rows.filter(**{field: value})

    return RecentValues


class WorkspaceFilter(ChoiceFilter):
    """By workspace: the ones that were opened last, and the chosen one."""

    title = "workspace"
    parameter_name = "workspace"
    column: ClassVar[str] = "workspace_id"

    @override
    def known(self, request: HttpRequest) -> Choices:
        rows = apps.get_model("workspaces.workspace")._default_manager.order_by("-opened_at")
        found = dict(rows.values_list("pk", "path")[:LISTED])
        value = self.value()
        if value and value not in found:
            found |= dict(rows.filter(pk=_clean(value)).values_list("pk", "path"))
        return [(key, _end_of(path)) for key, path in found.items()]

    @override
    def chosen(self, rows: Rows, value: str) -> Rows:
        return rows.filter(**{self.column: value})


class WorkspaceIdFilter(WorkspaceFilter):
    """The same for rows that hold the id as plain text, because they outlive the workspace."""

    parameter_name = "workspace_id"


def user_filter(
    of: Callable[[Rows, int], Rows], label: str = "user", parameter: str = "by_user"
) -> type[ChoiceFilter]:
    """A filter by a user; ``of`` returns the rows of the user with this key."""

    class UserFilter(ChoiceFilter):
        title = label
        parameter_name = parameter

        @override
        def known(self, request: HttpRequest) -> Choices:
            users = get_user_model()._default_manager.filter(is_active=True)
            found = dict(users.order_by("pk").values_list("pk", "username")[:LISTED])
            value = self.value() or ""
            if value.isascii() and value.isdigit() and len(value) < 19 and int(value) not in found:
                found |= dict(users.filter(pk=int(value)).values_list("pk", "username"))
            return [(str(key), str(name)) for key, name in found.items()]

        @override
        def chosen(self, rows: Rows, value: str) -> Rows:
            return of(rows, int(value))

    return UserFilter


def by_author(field: str = "author") -> type[ChoiceFilter]:
    """A filter by the user in a field that holds an author."""

    def of(rows: Rows, key: int) -> Rows:
        return rows.filter(**{f"{field}__user_id": str(key)})

    return user_filter(of)


def by_user_column(field: str = "user_id") -> type[ChoiceFilter]:
    """A filter by a column with the key of a user."""
    return user_filter(lambda rows, key: rows.filter(**{field: key}))


def narrowed(field: str, label: str = "") -> type[ChoiceFilter]:
    """The row that a link has chosen, for instance the session: shown only while it is chosen."""

    class Narrowed(ChoiceFilter):
        title = label or field.removesuffix("_id").removesuffix("_key").replace("_", " ")
        parameter_name = field

        def __init__(
            self, request: HttpRequest, params: Any, model: type[Model], page: Any
        ) -> None:
            column: Any = model._meta.get_field(field)
            key = column.target_field if column.is_relation else column
            self._has_number = key.get_internal_type() not in {"CharField", "TextField"}
            super().__init__(request, params, model, page)

        @override
        def known(self, request: HttpRequest) -> Choices:
            value = self.value() or ""
            is_number = value.isascii() and value.isdigit() and len(value) < 19
            is_fit = is_number if self._has_number else value == _clean(value)
            return [(value, short_id(value))] if value and is_fit else []

        @override
        def chosen(self, rows: Rows, value: str) -> Rows:
            return rows.filter(**{field: value})

        @override
        def has_output(self) -> bool:
            return bool(self.value())

        @override
        def queryset(self, request: HttpRequest, queryset: Rows) -> Rows:
            if not self.lookup_choices:  # no row can have such a value
                return queryset.none()
            return super().queryset(request, queryset)

    return Narrowed


def _clean(text: str) -> str:
    """PostgreSQL cannot compare a text with a NUL."""
    return text.replace("\0", "")


def _end_of(path: str) -> str:
    """The last two folders of a path: the beginning is mostly the same."""
    return one_line("/".join(path.rsplit("/", 2)[-2:]) or path)
