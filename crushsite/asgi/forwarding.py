"""Forwards requests about folders that this web process does not have to a worker that has them."""

from __future__ import annotations

import asyncio
import logging
import posixpath
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import parse_qs

import orjson
from django.http import Http404
from django.urls import get_resolver

from crushsite.asgi.guard import Receive, Scope, Send
from crushsite.forwarding.choice import chosen_worker
from crushsite.forwarding.exchange import RequestSender
from crushsite.forwarding.messages import LONGEST_BODY, ForwardedAnswer, ForwardedRequest
from crushsite.process import ServerProcess
from workspaces.access import Caller, Right, caller_of
from workspaces.client_ids import client_id_of, connection_of
from workspaces.error_answers import http_error
from workspaces.log.errors import BadField, OutcomeUnknown, Refusal
from workspaces.log.ids import new_id
from workspaces.log.reader import read
from workspaces.log.timestamps import now_ms
from workspaces.models import Workspace
from workspaces.placement.roots import SEPARATOR, WorkerOffer
from workspaces.queries.processes import known_roots, worker_offers
from workspaces.queries.workspaces import find_workspace
from workspaces.rest.problems import PROBLEM_TYPE, problem

logger = logging.getLogger(__name__)

READING_SECONDS = 10.0
WRITING_SECONDS = 30.0
LOOK_SECONDS = 2.0  # how often it is checked that the worker lives
READING = frozenset({"GET", "HEAD"})
# The others are about the connection, or name the caller, whom the edge has found already.
_PASSED = frozenset({b"content-type", b"accept", b"if-none-match", b"idempotency-key"})
SILENT = "The worker that has the folder of this workspace did not answer."
UNREACHABLE = "The worker that has the folder of this workspace cannot be reached now."


class FolderUnserved(Refusal):
    """No worker that has the folder of this workspace runs now. Try again in a moment."""

    code = "folder_unserved"
    status = 503
    retry_after_seconds = 5


class _FolderView(NamedTuple):
    """The view of a request that needs a folder."""

    view: Any
    workspace_id: str  # empty if the request names a path


class _FolderElsewhere(NamedTuple):
    path: str
    labels: tuple[str, ...] = ()


class Forwarding:
    """In front of a handler of the API: forwards what is about folders elsewhere."""

    def __init__(self, handler: Any, server: ServerProcess, urlconf: str, *, prefix: str) -> None:
        """``prefix``: what the addresses in ``urlconf`` begin after."""
        self._handler = handler
        self._server = server
        self._prefix = prefix
        self._resolve = lru_cache(500)(get_resolver(urlconf).resolve)
        self._sender = RequestSender()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        here = self._server.registration.roots.scope
        target = self._target(scope) if here is not None and here.known else None
        if here is None or target is None or self._server.shape.works:
            return await self._handle(scope, receive, send)
        if not await caller_of(scope).may(_right(target, scope), target.workspace_id):
            return await self._handle(scope, receive, send)  # which refuses it
        body = await _read_body(receive)
        if body is None:
            return None
        try:
            folder = await _folder(target, scope, body)
            if folder is None or here.serves(folder.path):
                return await self._handle(scope, _again(body, receive), send)
            if not target.workspace_id:
                known = await read(find_workspace, folder.path)
                await caller_of(scope).require(Right.OPEN, known)
            if len(body) > LONGEST_BODY:
                raise BadField(f"body: must have at most {LONGEST_BODY >> 20} MiB for this folder")
            answer = await self._forward(scope, folder, body, _seconds(target, scope))
        except Refusal as refusal:
            return await _refuse(refusal, scope["path"], send)
        if not target.workspace_id and answer.status < 300:
            _note_client(scope, body)
        return await _send(answer, send)

    async def finish(self) -> None:
        """Waits until all writing requests are complete."""
        await self._handler.finish()
        await self._sender.stop()

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._handler(scope, receive, send)

    def _target(self, scope: Scope) -> _FolderView | None:
        try:
            match = self._resolve("/" + scope["path"].removeprefix(self._prefix))
        except Http404:
            return None
        view = getattr(match.func, "cls", None)
        if _method(scope) not in getattr(view, "folder_methods", ()):
            return None
        return _FolderView(view, str(match.kwargs.get("workspace_id", "")))

    async def _forward(
        self, scope: Scope, folder: _FolderElsewhere, body: bytes, seconds: float
    ) -> ForwardedAnswer:
        """Raises ``Refusal``."""
        worker = await read(_worker_of, folder)
        if worker is None:
            raise FolderUnserved
        try:
            request = await _request(scope, body, await self._sender.channel(), seconds)
            answer = await self._sender.send(worker.id, request)
        except (Exception, TimeoutError) as error:
            logger.warning("a request could not be forwarded: %s", error)
            raise FolderUnserved(f"{UNREACHABLE} Try again in a moment.") from error
        found = await _wait(answer, worker, seconds)
        if found is not None:
            return found
        logger.warning("a worker did not answer a forwarded request: %s", worker.id)
        if scope["method"] in READING:
            raise FolderUnserved(f"{SILENT} Try again in a moment.")
        raise OutcomeUnknown(f"{SILENT} Look whether it was done before trying again.")


async def _wait(
    answer: asyncio.Future[ForwardedAnswer], worker: WorkerOffer, seconds: float
) -> ForwardedAnswer | None:
    """Waits for the answer, as long as its worker lives."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    try:
        while (left := until - loop.time()) > 0:
            await asyncio.wait({answer}, timeout=min(LOOK_SECONDS, left))
            if answer.done():
                return answer.result()
            if not await read(_is_live, worker.id):
                break
    finally:
        answer.cancel()
    return None


def _worker_of(folder: _FolderElsewhere) -> WorkerOffer | None:
    workers = worker_offers(now_ms())
    return chosen_worker(folder.path, folder.labels, roots=known_roots(), workers=workers)


def _is_live(worker: str) -> bool:
    return any(offer.id == worker for offer in worker_offers(now_ms()))


def _method(scope: Scope) -> str:
    method = str(scope["method"]).lower()
    return "get" if method == "head" else method


def _seconds(target: _FolderView, scope: Scope) -> float:
    usual = READING_SECONDS if scope["method"] in READING else WRITING_SECONDS
    return float(getattr(target.view, "folder_seconds", usual))


def _right(target: _FolderView, scope: Scope) -> Right:
    right: Right = target.view.rights[_method(scope)]
    return right


async def _folder(target: _FolderView, scope: Scope, body: bytes) -> _FolderElsewhere | None:
    """Returns the folder that a request is about; ``None`` if the handler must refuse it."""
    if target.workspace_id:
        return await read(_stored_folder, target.workspace_id)
    path = _named_path(scope, body)
    return (
        _FolderElsewhere(posixpath.normpath(path))
        if path.startswith("/") and "\0" not in path
        else None
    )


def _stored_folder(workspace_id: str) -> _FolderElsewhere | None:
    rows = Workspace.objects.filter(pk=workspace_id).values_list("path", "labels")
    row = rows.first() if "\0" not in workspace_id else None
    return (
        None
        if row is None
        else _FolderElsewhere(row[0], tuple(filter(None, row[1].split(SEPARATOR))))
    )


def _named_path(scope: Scope, body: bytes) -> str:
    if scope["method"] in READING:
        query = parse_qs(scope.get("query_string", b"").decode("latin-1"), max_num_fields=100)
        return str(query.get("path", [""])[0])
    return _field(body, "path")


def _field(body: bytes, name: str) -> str:
    try:
        fields = orjson.loads(body)
    except orjson.JSONDecodeError:
        return ""
    value = fields.get(name) if isinstance(fields, dict) else None
    return value if isinstance(value, str) else ""


def _note_client(scope: Scope, body: bytes) -> None:
    """Records the client of the connection, as the view does that opens a folder here."""
    with suppress(BadField):  # the request names none
        connection_of(scope).note(client_id_of(_field(body, "client_id")))


async def _request(scope: Scope, body: bytes, channel: str, seconds: float) -> ForwardedRequest:
    caller = caller_of(scope)
    raw = scope.get("raw_path") or scope["path"].encode()
    return ForwardedRequest(
        id=new_id(),
        answer_to=channel,
        expires_at=now_ms() + int(seconds * 1000),
        method=scope["method"],
        path=raw.partition(b"?")[0].decode("latin-1"),
        query=scope.get("query_string", b"").decode("latin-1"),
        headers=tuple(
            (name.decode("latin-1"), value.decode("latin-1"))
            for name, value in scope["headers"]
            if name in _PASSED
        ),
        identity=await caller.current(),
        address=caller.address,
        is_tool=await _is_tool(caller),
        client_id=connection_of(scope).client_id,
        body=body,
    )


async def _is_tool(caller: Caller) -> bool:
    try:
        return await caller.is_tool()
    except Exception:  # noqa: BLE001  the process cannot be examined, so it counts as one
        return True


async def _read_body(receive: Receive) -> bytes | None:
    chunks: list[bytes] = []
    while True:
        message: Any = await receive()
        if message["type"] == "http.disconnect":
            return None
        chunks.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(chunks)


def _again(body: bytes, receive: Receive) -> Receive:
    """Returns a ``receive`` that yields the body, which was read already, once more."""
    messages: list[Any] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Any:
        return messages.pop() if messages else await receive()

    return again


async def _send(answer: ForwardedAnswer, send: Send) -> None:
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
    headers.append((b"content-length", b"%d" % len(answer.body)))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


async def _refuse(refusal: Refusal, path: str, send: Send) -> None:
    messages = http_error(refusal.status, refusal.sentence, refusal.headers)
    if path.startswith("/api/"):
        body = orjson.dumps(problem(refusal.status, refusal.code, refusal.sentence))
        headers = [
            (b"content-type", PROBLEM_TYPE.encode()),
            (b"content-length", b"%d" % len(body)),
            *refusal.headers,
        ]
        messages[0]["headers"], messages[1]["body"] = headers, body
    for message in messages:
        await send(message)
