"""Lists that never count their table, and a search that reads a bounded part of it.

A page's keys are read first, from an index; only the rows of this page are read whole. With
100,000 rows a list takes at most 200 ms (`python -m tests.bench.admin`), where counting them and
joining before the page is cut takes longer the more rows there are.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import PAGE_VAR, SEARCH_VAR, ChangeList
from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet
from django.db.models.functions import Left
from django.http import HttpRequest
from typing_extensions import override

from workspaces.admin_pages.columns import beginning_name

if TYPE_CHECKING:
    Pages: TypeAlias = admin.ModelAdmin[Any]
else:
    Pages = admin.ModelAdmin

MOST_FOUND = 1_000  # rows that one search finds
BEGINNING = 400  # characters of a long text that a list reads
LAST_PAGE = 1_000_000  # more would overflow a database's numbers
EXACT = "__exact"


class UncountedList(ChangeList):
    """A page of rows, and whether there is another one."""

    has_next = False
    model_admin: ListAdmin

    @override
    def get_results(self, request: HttpRequest) -> None:
        if not 1 <= self.page_num <= LAST_PAGE:
            raise IncorrectLookupParameters
        first = (self.page_num - 1) * self.list_per_page
        found = self.queryset.select_related(None).values_list("pk", flat=True)
        keys = list(found[first : first + self.list_per_page + 1])
        if not keys and self.page_num > 1:
            raise IncorrectLookupParameters
        self.has_next = len(keys) > self.list_per_page
        # The filters hold for these keys, so they are not evaluated again.
        rows = self.apply_select_related(self.root_queryset).filter(
            pk__in=keys[: self.list_per_page]
        )
        long = self.model_admin.long_fields
        rows = rows.defer(*long).annotate(
            **{beginning_name(field): Left(field, BEGINNING) for field in long}
        )
        by_key = {row.pk: row for row in rows}
        self.result_list = [by_key[key] for key in keys[: self.list_per_page] if key in by_key]
        # All counts are of this page, so that Django offers neither totals nor other pages.
        self.result_count = self.full_result_count = len(self.result_list)
        self.show_full_result_count = self.can_show_all = self.multi_page = False
        self.show_admin_actions = True

    @property
    def kept_by_search(self) -> list[tuple[str, str]]:
        """The filters that hold for a search, too."""
        return [
            (name, value)
            for name, values in self.filter_params.items()
            for value in values
            if name not in {SEARCH_VAR, PAGE_VAR}
        ]

    @property
    def without_search(self) -> str:
        return self.get_query_string({SEARCH_VAR: None, PAGE_VAR: None})

    @property
    def next_page(self) -> str:
        return self.get_query_string({PAGE_VAR: self.page_num + 1}) if self.has_next else ""

    @property
    def previous_page(self) -> str:
        number = self.page_num - 1
        return self.get_query_string({PAGE_VAR: number}) if number else ""


class ListAdmin(Pages):
    """The base of all lists. ``search_fields`` with "__exact" are looked up among all rows.

    The others are texts: each word must occur in one of them, in the newest rows.
    """

    change_list_template = "admin/uncounted_list.html"
    list_per_page = 50
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER  # they count, too
    actions_on_bottom = False
    long_fields: ClassVar[tuple[str, ...]] = ()  # lists read only their beginning
    searched_rows: ClassVar[int] = 10_000

    class Media:
        css: ClassVar[dict[str, tuple[str, ...]]] = {"all": ("workspaces/admin.css",)}

    @override
    def get_changelist(self, request: HttpRequest, **_: Any) -> type[ChangeList]:
        return UncountedList

    @override
    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        term = search_term.replace("\0", "").strip()
        if not term:
            return queryset.none() if search_term else queryset, False
        keys = self.find(queryset, term)
        return queryset.filter(pk__in=keys), False

    def find(self, rows: QuerySet[Any], term: str) -> set[Any]:
        """Returns the keys of the rows that a search finds, at most ``MOST_FOUND``."""
        everything = self.model._default_manager.all()
        found: set[Any] = set()
        for field in self.search_fields:
            if field.endswith(EXACT) and self._fits(field, term):
                exact = everything.filter(**{field: term}).order_by()
                found.update(exact.values_list("pk", flat=True)[:MOST_FOUND])
        if texts := [field for field in self.search_fields if not field.endswith(EXACT)]:
            # A column, not a condition: PostgreSQL would compare the texts of all rows first.
            matches = ExpressionWrapper(_with_each(texts, term.split()), BooleanField())
            newest = rows.select_related(None).annotate(matches=matches)
            pairs = newest.values_list("pk", "matches")[: self.searched_rows]
            found.update(islice((key for key, is_found in pairs if is_found), MOST_FOUND))
        return found

    def _fits(self, field: str, term: str) -> bool:
        """Whether a term can be a value of the field: databases refuse letters for a number."""
        column: Any = self.opts.get_field(field.removesuffix(EXACT))
        if column.is_relation:
            column = column.target_field
        if column.get_internal_type() in {"CharField", "TextField"}:
            return True
        return term.isascii() and term.isdigit() and len(term) < 19


def _with_each(fields: list[str], words: list[str]) -> Q:
    """Returns the condition that each word occurs in one of the fields."""
    everywhere = Q()
    for word in words:
        anywhere = Q()
        for field in fields:
            anywhere |= Q(**{f"{field}__icontains": word})
        everywhere &= anywhere
    return everywhere
