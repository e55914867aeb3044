"""Performs forwarded requests in a worker, with the same views as a web process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import unquote

from agents.runs.claims.homes import WorkspaceHomes
from crushsite.asgi.forwarding import refusal_messages
from crushsite.asgi.routing import ApiHandler, LazyDjango
from crushsite.forwarding.elsewhere import PREFIX
from crushsite.forwarding.exchange import RequestReceiver, WorkerFailed
from crushsite.forwarding.messages import (
    LONGEST_BODY,
    MISDIRECTED,
    ForwardedAnswer,
    ForwardedRequest,
    Headers,
)
from workspaces.access import CALLER, Caller
from workspaces.client_ids import CONNECTION, ClientConnection
from workspaces.log.errors import Refusal
from workspaces.tasks import cancel_within

logger = logging.getLogger(__name__)

JOIN_SECONDS = 1.0  # between attempts, while the channel layer is away
_RETURNED = frozenset({b"content-type", b"etag", b"date", b"retry-after", b"location", b"link"})


class AnswerTooLarge(Refusal):
    """The answer of the worker that has the folder has more than 1 MiB. Request less at once, if the address can."""

    code = "answer_too_large"
    status = 500


class ForwardedRequests:
    """The receiver of a worker, with the handlers of both interfaces."""

    def __init__(self, worker: Callable[[], str], homes: WorkspaceHomes) -> None:
        """``worker`` returns the id under which this process is registered now."""
        self._homes = homes
        self._v1 = ApiHandler()
        self._rest = LazyDjango()
        self._folders = ApiHandler("crushsite.forwarding.urls")
        self._receiver = RequestReceiver(worker, self.perform, _refused)
        self._joining: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begins to receive; without a channel layer it tries again in the background."""
        self._joining = asyncio.create_task(self._join(), name="forwarding-join")

    async def stop(self) -> None:
        if self._joining is not None:
            await cancel_within([self._joining], seconds=JOIN_SECONDS)
        await self._receiver.stop()
        await self._v1.finish()
        await self._rest.finish()
        await self._folders.finish()

    async def _join(self) -> None:
        while True:
            try:
                return await self._receiver.start()
            except Exception as error:  # noqa: BLE001  Redis may come back
                logger.warning("forwarded requests cannot be received: %s", error)
            await asyncio.sleep(JOIN_SECONDS)

    async def perform(self, request: ForwardedRequest) -> ForwardedAnswer:
        """Never raises. Makes this worker the home of the workspace first."""
        workspace_id = request.workspace_id
        with self._homes.using(workspace_id):
            try:
                if workspace_id and not await self._homes.is_home(workspace_id):
                    return ForwardedAnswer(request.id, MISDIRECTED, ())
            except Refusal as refusal:
                return _refused(request, refusal)
            except Exception:
                logger.exception("the home of a workspace could not be read")
                return _refused(request, WorkerFailed())
            return await self._perform(request)

    async def _perform(self, request: ForwardedRequest) -> ForwardedAnswer:
        handler: Any = self._v1
        if request.path.startswith("/api/"):
            handler = self._rest
        elif request.path.startswith(PREFIX):
            handler = self._folders
        answer = _CollectedAnswer()
        try:
            await handler(_scope(request), _receive(request.body), answer.send)
        except Exception:
            logger.exception("a forwarded request failed")
            return _refused(request, WorkerFailed())
        if answer.is_too_large:
            return _refused(request, AnswerTooLarge())
        return ForwardedAnswer(request.id, answer.status, answer.headers, b"".join(answer.chunks))


class _CollectedAnswer:
    def __init__(self) -> None:
        self.status = 500
        self.headers: tuple[tuple[str, str], ...] = ()
        self.chunks: list[bytes] = []
        self.is_too_large = False
        self._size = 0

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = _returned(message.get("headers", ()))
            return
        chunk = message.get("body", b"")
        self._size += len(chunk)
        self.is_too_large |= self._size > LONGEST_BODY
        if not self.is_too_large:
            self.chunks.append(chunk)


def _scope(request: ForwardedRequest) -> dict[str, Any]:
    connection = ClientConnection()
    if request.client_id:
        connection.note(request.client_id)

    async def is_tool() -> bool:
        return request.is_tool

    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in request.headers]
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "http",
        "method": request.method,
        "path": unquote(request.path),
        "raw_path": request.path.encode("latin-1"),
        "query_string": request.query.encode("latin-1"),
        "root_path": "",
        "headers": [*headers, (b"content-length", b"%d" % len(request.body)), (b"host", b"worker")],
        "client": None,
        "server": None,
        "extensions": {CONNECTION: {"connection": connection}},
        CALLER: Caller(request.identity, address=request.address, is_tool=is_tool),
    }


def _receive(body: bytes) -> Any:
    messages: list[Any] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        return messages.pop() if messages else await asyncio.Event().wait()

    return receive


def _refused(request: ForwardedRequest, refusal: Refusal) -> ForwardedAnswer:
    start, body = refusal_messages(refusal, request.path)
    return ForwardedAnswer(request.id, start["status"], _returned(start["headers"]), body["body"])


def _returned(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    return tuple(
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, value in headers
        if name.lower() in _RETURNED
    )
