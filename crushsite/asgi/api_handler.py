"""The API as an ASGI application: Django's URLs, views and requests without its detours.

Django's own handler spends several threads, signals and a middleware chain on a
request; nothing here leaves the event loop unless the view does. Knows no
endpoint. Bodies are bounded and hosts judged before a request comes here.
"""

from __future__ import annotations

import asyncio
import io
from typing import Any
from urllib.parse import unquote

from asgiref.typing import (
    ASGIReceiveCallable,
    ASGISendCallable,
    HTTPScope,
)
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpResponse
from django.urls import get_resolver

from crushsite.asgi.errors import answer_to
from workspaces.log.retries import REQUEST_SECONDS, patience

READING = frozenset({"GET", "HEAD"})


class ApiHandler:
    def __init__(self, urlconf: str = "crushsite.api_urls") -> None:
        self._resolver = get_resolver(urlconf)
        self._working: set[asyncio.Task[HttpResponse]] = set()

    async def __call__(
        self, scope: HTTPScope, receive: ASGIReceiveCallable, send: ASGISendCallable
    ) -> None:
        body = await _read_body(receive)
        if body is None:
            return  # the client left before it had asked
        if scope["method"] in READING:
            answer = await self._answer(scope, body)
        else:
            # What was asked for is carried out, also when the server gives the request up
            # because its client left: the task is not this request's.
            task = asyncio.create_task(self._answer(scope, body), name="request")
            self._working.add(task)
            task.add_done_callback(self._working.discard)
            answer = await asyncio.shield(task)
        await _send(answer, send)

    async def finish(self) -> None:
        """Returns when everything that was asked for is done."""
        while self._working:
            await asyncio.wait(self._working)

    async def _answer(self, scope: HTTPScope, body: bytes) -> HttpResponse:
        try:
            request = ASGIRequest(scope, io.BytesIO(body))
            # A chunked body has no length, and without one it would not be read.
            request.META["CONTENT_LENGTH"] = str(len(body))
            view, arguments = self._resolve(scope)
            with patience(REQUEST_SECONDS):
                answer: HttpResponse = await view(request, **arguments)
        except Exception as error:  # noqa: BLE001  the one place where requests end
            return answer_to(error)
        return answer

    def _resolve(self, scope: HTTPScope) -> tuple[Any, dict[str, Any]]:
        raw: bytes | None = scope.get("raw_path")  # optional, whatever its type says
        if raw is None:
            match = self._resolver.resolve(scope["path"])
            return match.func, match.kwargs
        # Undecoded: an id may hold a slash, which must not divide the path.
        match = self._resolver.resolve(raw.partition(b"?")[0].decode("latin-1"))
        return match.func, {name: unquote(value) for name, value in match.kwargs.items()}


async def _read_body(receive: ASGIReceiveCallable) -> bytes | None:
    chunks: list[bytes] = []
    while True:
        message: Any = await receive()
        if message["type"] == "http.disconnect":
            return None
        chunks.append(message.get("body", b""))
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def _send(answer: HttpResponse, send: ASGISendCallable) -> None:
    headers = [
        (name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in answer.items()
    ]
    headers.append((b"content-length", b"%d" % len(answer.content)))
    await send(
        {
            "type": "http.response.start",
            "status": answer.status_code,
            "headers": headers,
            "trailers": False,
        }
    )
    await send({"type": "http.response.body", "body": answer.content, "more_body": False})
