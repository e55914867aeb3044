"""The base of every endpoint: REST framework's view without a thread.

Its handlers are coroutines that return finished answers. What goes wrong is
raised; ``crushsite.asgi.errors`` turns it into an answer, once for all views.
"""

from __future__ import annotations

import asyncio
from typing import Any

from django.http import HttpRequest, HttpResponse
from rest_framework.exceptions import MethodNotAllowed
from rest_framework.request import Request
from rest_framework.views import APIView
from typing_extensions import override

from workspaces.api.bodies import Form, checked
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

    @override
    async def dispatch(  # type: ignore[override]  # the framework's is synchronous
        self, request: HttpRequest, *args: Any, **kwargs: str
    ) -> HttpResponse:
        self.args, self.kwargs = args, kwargs
        for name, value in kwargs.items():
            if name in _UNKNOWN and not _is_id(value):
                raise _UNKNOWN[name]
        self.request = self.initialize_request(request, *args, **kwargs)
        try:
            return await self._answer(request, kwargs)
        finally:
            # The request and its view refer to each other, and hold the body: the cycle is cut
            # here, because full collections are rare (60 bodies of 20 MB left 2.4 GB resident).
            self.request.parser_context.clear()
            del self.request

    async def _answer(self, request: HttpRequest, kwargs: dict[str, str]) -> HttpResponse:
        method = (request.method or "").lower()
        handler = getattr(self, method, None) if method in self.http_method_names else None
        if handler is None:
            raise MethodNotAllowed(request.method or "")
        # Nothing unless the settings name such classes; ours answer from memory.
        self.perform_authentication(self.request)
        self.check_permissions(self.request)
        answer: HttpResponse = await handler(**kwargs)
        return answer

    async def fields(self, form: type[Form]) -> dict[str, Any]:
        """The body's fields. Raises ``BadField`` or ``ParseError``."""
        if int(self.request.META["CONTENT_LENGTH"]) > LARGE_BYTES:
            return await asyncio.to_thread(_fields, self.request, form)
        return _fields(self.request, form)

    @property
    def connection(self) -> ClientConnection:
        """What is known of the connection that the request came by."""
        return connection_of(getattr(self.request, "scope", {}))  # of an ASGI request

    def query(self, name: str, *, limit: int = ID_LIMIT) -> str:
        """A parameter of the address; empty when it is missing. Raises ``BadField``."""
        value = str(self.request.query_params.get(name, ""))
        if len(value) > limit:
            raise BadField(f"{name}: must have at most {limit} characters")
        if "\0" in value:
            raise BadField(f"{name}: must not hold a NUL character")
        return value


def _fields(request: Request, form: type[Form]) -> dict[str, Any]:
    return checked(form, request.data)


def _is_id(value: str) -> bool:
    return 0 < len(value) <= ID_LIMIT and "\0" not in value
