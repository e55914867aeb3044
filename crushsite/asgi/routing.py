"""Which application takes a connection: streams, the API, or Django's pages."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, cast

from asgiref.typing import ASGIReceiveCallable, ASGISendCallable, HTTPScope
from django.conf import settings
from django.core.handlers.asgi import ASGIHandler
from django.utils.module_loading import autodiscover_modules

from agents.api.stream_commands import COMMANDS
from agents.fleet.child.consumer import ChildSocket
from crushsite.asgi.api_handler import ApiHandler
from crushsite.asgi.guard import Guard
from crushsite.child.server_turn import entrance_of
from crushsite.process import ServerProcess
from permissions.pending import pending_frames
from workspaces.delivery.http_stream import NativeSse
from workspaces.delivery.native_socket import NativeSocket
from workspaces.delivery.v1_events import V1Events

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

# No id holds a NUL, which no database may be asked for; nor is any this long.
_ID = r"([^/\0]{1,200})"
_V1_EVENTS = re.compile(rf"/v1/workspaces/{_ID}/events/?")
_NATIVE_EVENTS = re.compile(rf"/api/workspaces/{_ID}/events/?")
_NATIVE_SOCKET = re.compile(rf"/api/workspaces/{_ID}/stream/?")

CHILD_PATHS = frozenset({"/fleet/child", "/fleet/child/"})


class Router:
    """Everything behind the guard."""

    def __init__(self, server: ServerProcess) -> None:
        streams = {"hub": server.hub, "attachments": server.attachments}
        self._v1_events = V1Events.as_asgi(**streams, replay=pending_frames)
        self._native_events = NativeSse.as_asgi(**streams)
        self._native_socket = NativeSocket.as_asgi(**streams, commands=COMMANDS)
        self._child_socket = ChildSocket.as_asgi(entrance=entrance_of(server))
        self.api = ApiHandler()
        self._pages = LazyDjango()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind, path = scope["type"], scope.get("path", "")
        if kind == "websocket":
            if path in CHILD_PATHS:
                return await self._child_socket(cast("Any", scope), receive, send)
            if match := _NATIVE_SOCKET.fullmatch(path):
                return await self._native_socket(cast("Any", _with_id(scope, match)), receive, send)
            return await send({"type": "websocket.close", "code": 4404})
        if kind != "http":
            raise ValueError(f"no application takes {kind!r} connections")
        if scope["method"] == "GET":
            if match := _V1_EVENTS.fullmatch(path):
                return await self._v1_events(_with_id(scope, match), receive, send)
            if match := _NATIVE_EVENTS.fullmatch(path):
                return await self._native_events(_with_id(scope, match), receive, send)
        if path.startswith(("/v1/", "/api/")) or path in {"/v1", "/api"}:
            return await self.api(scope, receive, send)  # type: ignore[arg-type]  # asgiref's narrower scope
        return await self._pages(scope, receive, send)  # type: ignore[arg-type]  # the same


def _with_id(scope: Scope, match: re.Match[str]) -> Scope:
    return {**scope, "url_route": {"args": (), "kwargs": {"workspace_id": match[1]}}}


def guarded(router: Router, *, unix: bool) -> Application:
    return Guard(router, unix=unix, max_body_bytes=settings.CRUSH_MAX_BODY_BYTES)


class LazyDjango:
    """Everything beside the API, by Django's own handler, loaded at the first such request.

    Most people use a server without the admin: 4 MB and 0.04 s (`python -m tests.bench.imports`).
    """

    def __init__(self) -> None:
        self._handler: Any = None
        self._loading = asyncio.Lock()

    async def __call__(
        self, scope: HTTPScope, receive: ASGIReceiveCallable, send: ASGISendCallable
    ) -> None:
        if self._handler is None:
            async with self._loading:
                if self._handler is None:
                    self._handler = await asyncio.to_thread(_load)
        await self._handler(scope, receive, send)


def _load() -> ASGIHandler:
    # Before any URL is resolved: the admin's addresses are those of what is registered.
    autodiscover_modules("admin")
    return ASGIHandler()
