"""The base of all admin pages, which show rows and never write them, and of their actions.

Only actions write rows, because they append events; a form that saved a row would bypass the log.
Independent of models.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from typing import Any, ClassVar, ParamSpec, TypeVar

from asgiref.sync import async_to_sync
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from typing_extensions import override

from workspaces.access import Caller, Identity, IdentityKind, Right
from workspaces.admin_pages.columns import Column
from workspaces.admin_pages.lists import ListAdmin
from workspaces.log.deadlines import REQUEST_SECONDS, wait_at_most

P = ParamSpec("P")
T = TypeVar("T")


class ReadOnlyAdmin(ListAdmin):
    """Pages without adding, changing and deleting; a subclass may define actions."""

    shown: ClassVar[Sequence[str | Column]] = ()  # the fields and computed values of a row's page
    related: ClassVar[Sequence[Column]] = ()  # links to related rows
    change_form_template = "admin/row.html"

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

    def panels(self, request: HttpRequest, row: Any) -> dict[str, Any]:  # noqa: ARG002  for subclasses
        """What the page of a row shows above its fields, for its template."""
        return {}

    @override
    def render_change_form(
        self,
        request: HttpRequest,
        context: dict[str, Any],
        add: bool = False,
        change: bool = False,
        form_url: str = "",
        obj: Any = None,
    ) -> HttpResponse:
        if obj is not None:
            context |= {"can_act": self.has_act_permission(request)} | self.panels(request, obj)
        return super().render_change_form(request, context, add, change, form_url, obj)

    def has_act_permission(self, request: HttpRequest) -> bool:
        """Whether the user may run actions: requires the permission to change such rows."""
        model = self.opts
        return request.user.has_perm(f"{model.app_label}.change_{model.model_name}")


Work = Callable[[Any, HttpRequest, Any], Any]


def act(description: str, right: Right, *, permission: str = "act") -> Callable[[Work], Work]:
    """An action of the admin, with the right that it needs on the whole server.

    Its user also needs Django's permission to change such rows, or with ``permission="view"`` to
    view them. A tool never comes here, whatever session it uses: a middleware refuses it
    (``crushsite.admin.RefuseTools``).
    """

    def declare(work: Work) -> Work:
        @wraps(work)
        def checked(page: Any, request: HttpRequest, rows: Any) -> Any:
            require(request, right)
            return work(page, request, rows)

        checked.right = right  # type: ignore[attr-defined]  # for the test of all rights
        return admin.action(description=description, permissions=[permission])(checked)

    return declare


def identity_of(request: HttpRequest) -> Identity:
    user = request.user
    return Identity(IdentityKind.USER, user.get_username(), user.pk, bool(user.is_staff))


def caller_in_admin(request: HttpRequest) -> Caller:
    """Who acts, for actions that check further rights themselves."""
    return Caller(identity_of(request))


def require(request: HttpRequest, right: Right) -> None:
    """Raises ``PermissionDenied`` without the right on the whole server."""
    if not identity_of(request).may(right):
        raise PermissionDenied


def perform(action: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
    """Runs an asynchronous action in the server's event loop; pages run in a thread."""

    async def limited() -> T:
        with wait_at_most(REQUEST_SECONDS):
            return await action(*args, **kwargs)

    return async_to_sync(limited)()
