"""Behind the guard: chooses the application of each connection, and is the one of the API.

A stream, the API, or Django's pages. A refusal is the client's to correct and is not logged. Any
other error is ours: it is logged with its stack trace, and the response contains no details.
"""

from __future__ import annotations

import asyncio
import io
import logging
import re
from collections.abc import Callable, Collection
from functools import lru_cache, partial
from typing import Any, cast
from urllib.parse import unquote

from asgiref.sync import sync_to_async
from asgiref.typing import ASGIReceiveCallable, ASGISendCallable, HTTPScope
from django.conf import settings
from django.core.exceptions import BadRequest, RequestDataTooBig, SuspiciousOperation
from django.core.handlers.asgi import ASGIHandler, ASGIRequest
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.urls import get_resolver
from django.utils.module_loading import autodiscover_modules
from rest_framework.exceptions import APIException, MethodNotAllowed
from typing_extensions import override

from agents.api.stream_commands import COMMANDS
from agents.fleet.child.consumer import ChildSocket
from crushsite.asgi.forwarding import Forwarding
from crushsite.asgi.guard import Application, Guard, Receive, Scope, Send
from crushsite.asgi.identify import METRICS_PATH, Identification
from crushsite.asgi.worker_socket import PATH, WorkerSocket
from crushsite.child.server_turn import entrance_of
from crushsite.monitoring.traces import Respond, traced_request
from crushsite.process import ServerProcess
from crushsite.static_answers import StaticAnswers
from crushsite.static_files import collect_for_pages
from permissions.queries import pending_frames
from workspaces.access import CALLER
from workspaces.api.bodies import sentence_of
from workspaces.delivery.http_stream import NativeSse
from workspaces.delivery.native_socket import NativeSocket
from workspaces.delivery.v1_events import V1Events
from workspaces.error_answers import error_body
from workspaces.log.deadlines import REQUEST_SECONDS, wait_at_most
from workspaces.log.errors import Refusal
from workspaces.log.failures import failure_of, refusal_of
from workspaces.log.reader import KeptThreads
from workspaces.rest.problems import PROBLEM_TYPE, problem

# No id contains a NUL, which databases reject in queries, or is longer than this.
_ID = r"([^/\0]{1,200})"
_V1_EVENTS = re.compile(rf"/v1/workspaces/{_ID}/events/?")
_NATIVE_EVENTS = re.compile(rf"/api/workspaces/{_ID}/events/?")
_SNAPSHOT = re.compile(r"/api/workspaces/[^/]+/snapshot/?")  # its view checks the id
_NATIVE_SOCKET = re.compile(rf"/api/workspaces/{_ID}/stream/?")

# Their answers are the same for everyone: no credential is looked up, which may need the database.
PROBES = frozenset({"/healthz", "/readyz"})
MONITORED = PROBES | {METRICS_PATH}


class Router:
    """Everything behind the guard."""

    def __init__(self, server: ServerProcess, *, urlconf: str = "crushsite.api_urls") -> None:
        streams = {
            "hub": server.hub,
            "attachments": server.attachments,
            "rights": server.stream_rights,
        }
        self._v1_events = V1Events.as_asgi(**streams, replay=pending_frames)
        self._native_events = NativeSse.as_asgi(**streams)
        self._native_socket = NativeSocket.as_asgi(**streams, commands=COMMANDS)
        child = cast("Application", ChildSocket.as_asgi(entrance=entrance_of(server)))
        workers: Application = WorkerSocket(server)
        self._fleet = {"/fleet/child": child, "/fleet/child/": child, PATH: workers}
        self.api = Forwarding(ApiHandler(urlconf), server, urlconf, prefix="/")
        # Two handlers, because only pages wait until the files that they load are collected.
        self.rest = Forwarding(LazyDjango(), server, "crushsite.rest_urls", prefix="/api/")
        self.pages = LazyDjango(prepare=collect_for_pages)
        self._identification = Identification(
            servers=server.processes_here,
            folder=settings.DATA_DIR,
            owner=lambda: server.owner,
            has_proxy=settings.CRUSH_HAS_PROXY or settings.CRUSH_LOCAL_TOKEN,
            proxies=settings.CRUSH_TRUSTED_PROXIES,
            metrics_token=settings.CRUSH_METRICS_TOKEN,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind, path = scope["type"], scope.get("path", "")
        if kind == "http" and path in PROBES:
            return await self.api(scope, receive, send)
        if kind in {"http", "websocket"} and not await self._identify(scope, receive, send):
            return None
        if kind == "websocket":
            if (fleet := self._fleet.get(path)) is not None:
                return await fleet(scope, receive, send)
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
        if (
            path.startswith("/v1/")
            or path == "/v1"
            or path in MONITORED
            or _SNAPSHOT.fullmatch(path)
        ):
            return await self.api(scope, receive, send)
        django = self.rest if path.startswith("/api/") else self.pages
        return await django(scope, receive, send)  # type: ignore[arg-type]  # the same

    async def finish(self) -> None:
        """Waits until all writing requests are complete."""
        await self.api.finish()
        await self.rest.finish()
        await self.pages.finish()

    async def _identify(self, scope: Scope, receive: Receive, send: Send) -> bool:
        """Finds out who sends the request; otherwise refuses it and returns ``False``."""
        try:
            with wait_at_most(REQUEST_SECONDS):
                scope[CALLER] = await self._identification.caller_of(scope)
        except Exception as error:  # noqa: BLE001  as in ``ApiHandler._answer``
            answer = answer_to(error)
            if scope["type"] == "http":
                await _send(_as_problem(error, answer, scope["path"]), send)
            else:
                await _refuse_socket(answer, scope, receive, send)
            return False
        return True


def _as_problem(error: Exception, answer: HttpResponse, path: str) -> HttpResponse:
    """Returns the answer in the format of native resources, where the address is one's."""
    refusal = error if isinstance(error, Refusal) else refusal_of(failure_of(error))
    has_own_format = _NATIVE_EVENTS.fullmatch(path) or _SNAPSHOT.fullmatch(path)
    if refusal is None or has_own_format or not path.startswith("/api/"):
        return answer
    body = problem(refusal.status, refusal.code, refusal.sentence)
    shown = JsonResponse(body, status=refusal.status, content_type=PROBLEM_TYPE)
    if "Retry-After" in answer:
        shown["Retry-After"] = answer["Retry-After"]
    return shown


async def _refuse_socket(answer: HttpResponse, scope: Scope, receive: Receive, send: Send) -> None:
    await receive()  # the handshake
    if "websocket.http.response" not in (scope.get("extensions") or {}):
        # A server without the extension would send 403 instead: the close code has the reason.
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.close", "code": 4000 + answer.status_code})
        return
    start = {"type": "websocket.http.response.start", "status": answer.status_code}
    await send({**start, "headers": _headers_of(answer)})
    await send({"type": "websocket.http.response.body", "body": answer.content})


def _headers_of(answer: HttpResponse) -> list[tuple[bytes, bytes]]:
    return [
        (name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in answer.items()
    ]


def _with_id(scope: Scope, match: re.Match[str]) -> Scope:
    return {**scope, "url_route": {"args": (), "kwargs": {"workspace_id": match[1]}}}


def guarded(router: Application, *, unix: bool, names: Collection[str] = ()) -> Application:
    """``names``: hosts besides those of loopback by which clients may call the server."""
    return Guard(
        StaticAnswers(router),
        unix=unix,
        extra_hosts=names,
        extra_origins=settings.CSRF_TRUSTED_ORIGINS,
        max_body_bytes=settings.CRUSH_MAX_BODY_BYTES,
    )


class DetachedRequests:
    """Completes requests that write, in tasks of their own, even if their client disconnects."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def complete(self, scope: HTTPScope, send: Any, respond: Respond) -> None:
        task = asyncio.create_task(traced_request(scope, send, respond), name="request")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await asyncio.shield(task)

    async def finish(self) -> None:
        """Waits until all of them are complete."""
        while self._tasks:
            await asyncio.wait(self._tasks)


class LazyDjango:
    """Serves native resources and pages by Django's own handler, loaded at the first such request.

    Terminal clients need neither: this saves 4 MB and 0.04 s (`python -m tests.bench.imports`).
    """

    def __init__(self, prepare: Callable[[], None] | None = None) -> None:
        """``prepare`` runs in a thread, before the first request."""
        self._prepare = prepare
        self._handler: Any = None
        self._loading = asyncio.Lock()
        self._writes = DetachedRequests()
        self._threads = KeptThreads()

    async def finish(self) -> None:
        """Waits until all writing requests are complete, and closes the kept connections."""
        await self._writes.finish()
        await self._threads.close()

    async def __call__(
        self, scope: HTTPScope, receive: ASGIReceiveCallable, send: ASGISendCallable
    ) -> None:
        if self._handler is None:
            async with self._loading:
                if self._handler is None:
                    self._handler = await asyncio.to_thread(_load, self._prepare)
        if scope["method"] in READING or not scope["path"].startswith("/api/"):
            await self._handle(scope, receive, send)
            return
        body = await _read_body(receive)
        if body is not None:
            # A chunked request has no Content-Length, without which its body would not be read.
            others = [header for header in scope["headers"] if header[0] != b"content-length"]
            length = (b"content-length", b"%d" % len(body))
            whole = scope | {"headers": [*others, length]}
            await self._writes.complete(scope, send, partial(self._handle, whole, _only(body)))

    async def _handle(
        self, scope: HTTPScope, receive: ASGIReceiveCallable, send: ASGISendCallable
    ) -> None:
        async with self._threads.one():
            await self._handler(scope, receive, send)


class _Handler(ASGIHandler):
    """Django's handler, with the middleware and the view of a request in one call of its thread."""

    @override
    def load_middleware(self, is_async: bool = False) -> None:
        super().load_middleware(is_async=False)

    @override
    async def run_get_response(self, request: HttpRequest) -> HttpResponseBase:
        return await sync_to_async(self.get_response)(request)


def _only(body: bytes) -> ASGIReceiveCallable:
    """Returns a ``receive`` that never reports that the client is gone: Django would stop the view."""
    messages: list[Any] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        return messages.pop() if messages else await asyncio.Event().wait()

    return receive


def _load(prepare: Callable[[], None] | None) -> ASGIHandler:
    if prepare is not None:
        prepare()
    # Before any URL is resolved: the admin's URLs depend on the registered models.
    autodiscover_modules("admin")
    return _Handler()


READING = frozenset({"GET", "HEAD"})
KEPT_ADDRESSES = 500


class ApiHandler:
    """The API as an ASGI application: Django's URLs, views and requests without its handler.

    Django's own handler uses several threads, signals and a middleware chain for each request; here
    nothing leaves the event loop unless the view does.
    """

    def __init__(self, urlconf: str = "crushsite.api_urls") -> None:
        # Clients repeat a few addresses: 0.05 in place of 5.6 µs (`python -m tests.bench.bypasses
        # addresses`). An unknown address raises, so it is not kept.
        self._match = lru_cache(KEPT_ADDRESSES)(get_resolver(urlconf).resolve)
        self._writes = DetachedRequests()

    async def __call__(
        self, scope: HTTPScope, receive: ASGIReceiveCallable, send: ASGISendCallable
    ) -> None:
        body = await _read_body(receive)
        if body is None:
            return  # the client disconnected before it had sent the request
        if scope["method"] in READING:
            await self._respond(scope, body, send)
        else:
            await self._writes.complete(scope, send, partial(self._respond, scope, body))

    async def finish(self) -> None:
        """Waits until all writing requests are complete."""
        await self._writes.finish()

    async def _respond(self, scope: HTTPScope, body: bytes, send: Any) -> None:
        await _send(await self._answer(scope, body), send)

    async def _answer(self, scope: HTTPScope, body: bytes) -> HttpResponse:
        try:
            request = ASGIRequest(scope, io.BytesIO(body))
            # A chunked request has no Content-Length, without which its body would not be read.
            request.META["CONTENT_LENGTH"] = str(len(body))
            view, arguments = self._resolve(scope)
            with wait_at_most(REQUEST_SECONDS):
                answer: HttpResponse = await view(request, **arguments)
        except Exception as error:  # noqa: BLE001  the one place where requests end
            return answer_to(error)
        return answer

    def _resolve(self, scope: HTTPScope) -> tuple[Any, dict[str, Any]]:
        raw: bytes | None = scope.get("raw_path")  # optional in ASGI, despite its type
        if raw is None:
            match = self._match(scope["path"])
            return match.func, match.kwargs
        # Undecoded: an encoded slash in an id must not split the path.
        match = self._match(raw.partition(b"?")[0].decode("latin-1"))
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


async def _send(answer: HttpResponse, send: Any) -> None:
    headers = [*_headers_of(answer), (b"content-length", b"%d" % len(answer.content))]
    await send(
        {
            "type": "http.response.start",
            "status": answer.status_code,
            "headers": headers,
            "trailers": False,
        }
    )
    await send({"type": "http.response.body", "body": answer.content, "more_body": False})


logger = logging.getLogger(__name__)


def answer_to(error: Exception) -> HttpResponse:
    """Returns the response of every endpoint for this error. Never raises."""
    match error:
        case Refusal():
            return _refused(error)
        case Http404():
            return _message("not found", 404)
        case MethodNotAllowed():
            return _message("method not allowed", 405)
        case APIException():
            return _message(sentence_of(error.detail), error.status_code)
        case RequestDataTooBig():
            return _message("the request is too large", 413)
        case SuspiciousOperation() | BadRequest() | UnicodeDecodeError():
            return _message("the request's address or headers are malformed", 400)
        case _:
            if (refusal := refusal_of(failure_of(error))) is not None:
                return _refused(refusal)
            logger.error("a request failed", exc_info=error)
            return _message("internal error", 500)


def _refused(refusal: Refusal) -> HttpResponse:
    answer = _message(refusal.sentence, refusal.status)
    for name, value in refusal.headers:
        answer[name.decode()] = value.decode()
    return answer


def _message(sentence: str, status: int) -> HttpResponse:
    return HttpResponse(error_body(sentence), status=status, content_type="application/json")
