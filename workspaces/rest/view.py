"""The base of every native resource: REST framework's generic view with our identities and errors.

A resource declares the right that each method needs, parses with serializers, reads with the ORM or
a query, and changes something by calling one action with ``act``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from typing import Any, ClassVar, ParamSpec, TypeVar

from asgiref.sync import async_to_sync
from django.conf import settings
from django.db.models import Model, QuerySet
from django.http.response import HttpResponseBase
from django.utils.http import http_date
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import NotFound
from rest_framework.generics import GenericAPIView
from rest_framework.permissions import BasePermission
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer
from rest_framework.throttling import SimpleRateThrottle
from rest_framework.views import APIView
from typing_extensions import override

from workspaces.access import (
    RIGHTS_OF_TOOLS,
    Actor,
    Caller,
    Identity,
    IdentityKind,
    Right,
    caller_of,
)
from workspaces.api.json_parser import OrjsonParser
from workspaces.client_ids import connection_of
from workspaces.log.deadlines import REQUEST_SECONDS, wait_at_most
from workspaces.log.ids import LARGEST_NUMBER
from workspaces.queries.workspaces import require_open
from workspaces.rest.answers import CursorPages, JsonRenderer, add_etag
from workspaces.rest.idempotency import Claim, claim, release, store
from workspaces.rest.problems import problem_answer

P = ParamSpec("P")
T = TypeVar("T")
M = TypeVar("M", bound=Model)

READING = frozenset({"get", "head"})
METHODS = ("get", "post", "put", "patch", "delete")
_OF_EVERYONE = frozenset({Right.PUBLIC, Right.SIGNED_IN, Right.ACCOUNT})
SHOWN_RIGHTS = tuple(right for right in Right if right not in _OF_EVERYONE)


def scope_of(request: Request) -> Mapping[str, Any]:
    scope: Mapping[str, Any] = request.scope  # type: ignore[attr-defined]  # of an ASGI request
    return scope


class EdgeAuthentication(BaseAuthentication):
    """The identity that the edge has found (``crushsite.asgi.identify``)."""

    @override
    def authenticate(self, request: Request) -> tuple[Identity, Caller]:
        caller = caller_of(scope_of(request))
        return caller.identity, caller


class RightPermission(BasePermission):
    """Requires the right that the view declares for the method, in the workspace of the address."""

    @override
    def has_permission(self, request: Request, view: APIView) -> bool:
        method = (request.method or "").lower()
        right = getattr(view, "rights", {}).get("get" if method == "head" else method)
        if right is not None:  # else the framework answers 405
            caller, within = caller_of(scope_of(request)), str(view.kwargs.get("workspace_id", ""))
            if method not in READING or not caller.require_to_read(right, within):
                async_to_sync(caller.require)(right, within)
        return True


class CallerThrottle(SimpleRateThrottle):
    """Limits the requests of each token, user or address; the owner's are not limited."""

    scope = "caller"

    @override
    def get_rate(self) -> str:
        return f"{settings.CRUSH_REQUESTS_PER_SECOND}/second"

    @override
    def get_cache_key(self, request: Request, view: APIView) -> str | None:
        caller: Caller = request.auth  # type: ignore[assignment]  # of EdgeAuthentication
        who = caller.identity
        if who.kind is IdentityKind.OWNER:
            return None
        ident = who.token_id or who.user_id or caller.address
        return f"crush-throttle-{who.kind}-{ident}"


class Resource(GenericAPIView[Any]):
    # Of each method the right that it needs; ``head`` needs what ``get`` does.
    rights: ClassVar[Mapping[str, Right]] = {}
    # Those that read or write the workspace's folder: performed by a worker that has it.
    folder_methods: ClassVar[frozenset[str]] = frozenset()
    # Whether requests for a closed workspace are answered, too.
    allows_closed: ClassVar[bool] = False
    # The error for a key in the address that no row can have.
    unknown: ClassVar[type[Exception]] = NotFound

    http_method_names = [*METHODS, "head"]
    authentication_classes = (EdgeAuthentication,)
    permission_classes = (RightPermission,)
    throttle_classes = (CallerThrottle,)
    parser_classes = (OrjsonParser,)
    renderer_classes = (JsonRenderer,)
    pagination_class = CursorPages

    _claim: Claim | None = None

    @override
    def __init_subclass__(cls, **options: Any) -> None:
        """Refuses a resource with a handler for which no right is declared."""
        super().__init_subclass__(**options)
        for method in METHODS:
            if hasattr(cls, method) and method not in cls.rights:
                raise TypeError(f"{cls.__name__}.rights lacks the right that {method} needs")

    @override
    def get_exception_handler(self) -> Callable[[Exception, dict[str, Any]], Response | None]:
        return problem_answer

    @override
    def perform_content_negotiation(
        self, request: Request, force: bool = False
    ) -> tuple[BaseRenderer, str]:
        """Answers in JSON, whatever the client accepts."""
        renderer = self.get_renderers()[0]
        return renderer, str(renderer.media_type)

    @override
    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        if any("\0" in str(value) for value in self.kwargs.values()):
            raise NotFound  # PostgreSQL cannot compare such an id
        super().initial(request, *args, **kwargs)
        if any(isinstance(value, int) and value > LARGEST_NUMBER for value in self.kwargs.values()):
            raise self.unknown  # SQLite cannot compare such a number
        workspace_id = self.kwargs.get("workspace_id")
        if workspace_id is not None and not self.allows_closed:
            require_open(str(workspace_id))
        if request.method == "POST":
            self._claim = claim(request, self.caller)

    @override
    def finalize_response(
        self, request: Request, response: Response, *args: Any, **kwargs: Any
    ) -> Response:
        answer: HttpResponseBase = super().finalize_response(request, response, *args, **kwargs)
        if self._claim is not None and isinstance(answer, Response):
            # A failure of the server may be gone at the next attempt, so its response is not kept.
            if answer.status_code < 500:
                store(self._claim, answer)
            else:
                release(self._claim)
        if request.method in {"GET", "HEAD"} and isinstance(answer, Response):
            add_etag(request, answer)
        answer.headers["Date"] = http_date()  # for clients whose clock differs
        return answer  # type: ignore[return-value]  # a view may return Django's own responses

    @property
    def caller(self) -> Caller:
        """Returns who sends the request."""
        return caller_of(scope_of(self.request))

    @property
    def actor(self) -> Actor:
        """Returns who acts, for the audit and for authors."""
        return self.caller.actor(connection_of(scope_of(self.request)).client_id, via="rest")

    def act(self, action: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs an action in the server's event loop and returns its value.

        It completes even if the client disconnects (``crushsite.asgi.routing.Pages``).
        """

        async def limited() -> T:
            with wait_at_most(REQUEST_SECONDS):
                return await action(*args, **kwargs)

        return async_to_sync(limited)()

    @cached_property
    def is_of_tool(self) -> bool:
        """Whether a tool of this server sends the request."""
        return self.act(self.caller.is_tool)

    def rights_in(self, workspace_id: str = "") -> list[str]:
        """Returns the caller's rights in a workspace; without one, on the server as a whole."""
        identity, is_tool = self.caller.identity, self.is_of_tool  # once, for a page of workspaces
        held = (right for right in SHOWN_RIGHTS if identity.may(right, workspace_id))
        return [right.value for right in held if not is_tool or right in RIGHTS_OF_TOOLS]

    def visible(self, found: QuerySet[M], field: str = "workspace_id") -> QuerySet[M]:
        """Returns the rows of workspaces that the caller may read."""
        ids = self.caller.identity.visible_workspaces
        return found if ids is None else found.filter(**{f"{field}__in": ids})

    def body(self, serializer: type[BaseSerializer[Any]] | None = None) -> Any:
        """Returns the validated body. Raises the framework's ``ValidationError``."""
        kind = serializer or self.get_serializer_class()
        parsed = kind(data=self.request.data, context=self.get_serializer_context())
        parsed.is_valid(raise_exception=True)
        return parsed.validated_data

    def query(self, serializer: type[BaseSerializer[Any]]) -> Any:
        """Returns the validated query parameters. Raises the framework's ``ValidationError``."""
        parsed = serializer(data=self.request.query_params, context=self.get_serializer_context())
        parsed.is_valid(raise_exception=True)
        return parsed.validated_data

    def page(self, found: Any, show: Callable[[Any], Any] | None = None) -> Response:
        """Returns one page of a query or a list; ``show`` makes an object of each row."""
        rows: Any = self.paginate_queryset(found)
        shown = [show(row) for row in rows] if show else self.get_serializer(rows, many=True).data
        return self.get_paginated_response(shown)
