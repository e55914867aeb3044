"""The base of every endpoint: REST framework's view without a thread.

Its handlers are coroutines that return rendered responses. They raise errors, which
``crushsite.asgi.routing`` turns into responses in one place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponse
from rest_framework.exceptions import MethodNotAllowed
from rest_framework.views import APIView
from typing_extensions import override

from workspaces.access import Actor, Caller, Right, caller_of
from workspaces.api.bodies import Form, checked
from workspaces.api.json_parser import parse_body
from workspaces.bounded_json import LARGE_BYTES
from workspaces.client_ids import ClientConnection, connection_of
from workspaces.log.errors import BadField, Refusal, SessionUnknown, WorkspaceUnknown

ID_LIMIT = 200

_UNKNOWN: dict[str, type[Refusal]] = {
    "workspace_id": WorkspaceUnknown,
    "session_id": SessionUnknown,
}


class ApiView(APIView):
    http_method_names = ["get", "head", "post", "put", "delete"]
    # Of each method the right that it needs; ``head`` needs what ``get`` does.
    rights: ClassVar[Mapping[str, Right]] = {}
    # Those that read or write the workspace's folder: performed by a worker that has it.
    folder_methods: ClassVar[frozenset[str]] = frozenset()

    @override
    def __init_subclass__(cls, **options: Any) -> None:
        """Refuses a view with a handler for which no right is declared."""
        super().__init_subclass__(**options)
        for method in ("get", "post", "put", "delete"):
            if hasattr(cls, method) and method not in cls.rights:
                raise TypeError(f"{cls.__name__}.rights lacks the right that {method} needs")

    @override
    async def dispatch(  # type: ignore[override]  # the framework's is synchronous
        self, request: HttpRequest, *args: Any, **kwargs: str
    ) -> HttpResponse:
        # ``self.request`` stays Django's. The framework's own would only choose a parser, of which
        # there is one, and form a cycle with its view that keeps the body alive.
        for name, value in kwargs.items():
            if name in _UNKNOWN and not _is_id(value):
                raise _UNKNOWN[name]
        method = (request.method or "").lower()
        handler = getattr(self, method, None) if method in self.http_method_names else None
        if handler is None:
            raise MethodNotAllowed(request.method or "")
        right = self.rights["get" if method == "head" else method]
        await self.caller.require(right, kwargs.get("workspace_id", ""))
        answer: HttpResponse = await handler(**kwargs)
        return answer

    async def fields(self, form: type[Form]) -> dict[str, Any]:
        """Returns the fields of the body. Raises ``BadField`` or ``ParseError``.

        May be called once: it reads the body.
        """
        size = int(self.request.META["CONTENT_LENGTH"])
        if size > LARGE_BYTES:
            return await asyncio.to_thread(_fields, self.request, form)
        return _fields(self.request, form) if size else checked(form, {})

    @property
    def caller(self) -> Caller:
        """Returns who sends the request."""
        return caller_of(getattr(self.request, "scope", {}))  # of an ASGI request

    @property
    def actor(self) -> Actor:
        """Returns who acts, for the audit."""
        return self.caller.actor(self.connection.client_id, via="v1")

    @property
    def connection(self) -> ClientConnection:
        """Returns the connection of the request."""
        return connection_of(getattr(self.request, "scope", {}))  # of an ASGI request

    def query(self, name: str, *, limit: int = ID_LIMIT) -> str:
        """Returns a query parameter, or ``""`` if it is missing. Raises ``BadField``."""
        value = str(self.request.GET.get(name, ""))
        if len(value) > limit:
            raise BadField(f"{name}: must have at most {limit} characters")
        if "\0" in value:
            raise BadField(f"{name}: must not hold a NUL character")
        return value


def _fields(request: HttpRequest, form: type[Form]) -> dict[str, Any]:
    # Not the framework's ``data``: there is one parser to choose from, and the choice takes a
    # sixth of the 54 µs from a prompt's body to its answer, without the database.
    return checked(form, parse_body(request.read()))


def _is_id(value: str) -> bool:
    return 0 < len(value) <= ID_LIMIT and "\0" not in value
