"""Forwards requests about folders that this web process does not have to a worker that has them."""

from __future__ import annotations

import asyncio
import logging
import posixpath
from collections.abc import Collection
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import parse_qs

import orjson
from django.db import Error
from django.http import Http404
from django.urls import get_resolver

from crushsite.asgi.guard import Message, Receive, Scope, Send
from crushsite.forwarding.choice import chosen_worker
from crushsite.forwarding.elsewhere import FoldersOfWorkers
from crushsite.forwarding.exchange import RequestSender
from crushsite.forwarding.messages import (
    LONGEST_BODY,
    MISDIRECTED,
    BadMessage,
    ForwardedAnswer,
    ForwardedRequest,
)
from crushsite.process import ServerProcess
from workspaces.access import Caller, Right, caller_of
from workspaces.client_ids import client_id_of, connection_of
from workspaces.error_answers import http_error
from workspaces.log.deadlines import REQUEST_SECONDS, wait_at_most
from workspaces.log.errors import BadField, OutcomeUnknown, Refusal
from workspaces.log.failures import failure_of, refusal_of
from workspaces.log.ids import new_id
from workspaces.log.reader import read
from workspaces.log.timestamps import now_ms
from workspaces.models import Workspace
from workspaces.placement.elsewhere import FOLDERS
from workspaces.placement.roots import WorkerOffer, WorkerScope, labels_in
from workspaces.queries.processes import count_homes, home_of, known_roots, worker_offers
from workspaces.queries.workspaces import find_workspace
from workspaces.rest.problems import PROBLEM_TYPE, problem

logger = logging.getLogger(__name__)

READING_SECONDS = 10.0
WRITING_SECONDS = 30.0
MOST_FIELDS = 100  # of a query
READING = frozenset({"GET", "HEAD"})
# The others are about the connection, or name the caller, whom the edge has found already.
_PASSED = frozenset({b"content-type", b"accept", b"if-none-match", b"idempotency-key"})
TRIES, MOVING_SECONDS = 5, 0.1  # while a workspace moves from one worker to another
MOVING = "This workspace moves to another worker now."
SILENT = "The worker that has the folder of this workspace did not answer."
UNREACHABLE = "The worker that has the folder of this workspace cannot be reached now."
# What a worker's decoder refuses.
_UNSENDABLE = {
    "headers": "Content-Type, Accept, If-None-Match, Idempotency-Key: must be printable ASCII"
    " characters for this folder",
    "query": "the query: must have at most 16,384 characters for this folder",
    "path": "the address: must have at most 16,384 characters for this folder",
}
_TOO_LONG = "the request: is too long for the worker that has this folder"


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
    workspace_id: str = ""  # empty if none was opened there


class Forwarding:
    """In front of a handler of the API: forwards what is about folders elsewhere."""

    def __init__(
        self,
        handler: Any,
        server: ServerProcess,
        urlconf: str,
        *,
        prefix: str,
        accept_seconds: float = READING_SECONDS,
    ) -> None:
        """``prefix``: what the addresses in ``urlconf`` begin after.

        ``accept_seconds``: how long a worker may take until it performs a request.
        """
        self._handler = handler
        self._server = server
        self._prefix = prefix
        self._resolve = lru_cache(500)(get_resolver(urlconf).resolve)
        self._accept_seconds = accept_seconds
        self._sender = RequestSender()
        self._folders = FoldersOfWorkers(self._sender, server.registration.roots)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        here = self._server.registration.roots.scope
        if here is None or not here.known or self._server.shape.works:
            return await self._handle(scope, receive, send)
        scope[FOLDERS] = self._folders
        target = self._target(scope)
        if target is None:
            return await self._handle(scope, receive, send)
        incoming = _Incoming(receive)
        try:
            with wait_at_most(REQUEST_SECONDS):
                answer = await self._answer(scope, target, here, incoming)
        except (Refusal, Error) as error:
            refusal = error if isinstance(error, Refusal) else refusal_of(failure_of(error))
            if refusal is None:
                raise
            return await _refuse(refusal, scope["path"], send)
        if answer is None:
            return await self._handle(scope, incoming.receive, send)
        return await _send(answer, send)

    async def _answer(
        self, scope: Scope, target: _FolderView, here: WorkerScope, incoming: _Incoming
    ) -> ForwardedAnswer | None:
        """Returns the worker's answer, or ``None`` for what the handler answers, or refuses."""
        if not await caller_of(scope).may(_right(target, scope), target.workspace_id):
            return None
        body = await incoming.read()
        if body is None:
            return None
        folder = await _folder(target, scope, body)
        if folder is None or here.serves(folder.path):
            return None
        if not target.workspace_id:
            known = await read(find_workspace, folder.path)
            await caller_of(scope).require(Right.OPEN, known)
        if len(body) > LONGEST_BODY:
            raise BadField(f"body: must have at most {LONGEST_BODY >> 20} MiB for this folder")
        answer = await self._forward(scope, folder, body, _seconds(target, scope))
        if not target.workspace_id and answer.status < 300:
            _note_client(scope, body)
        return answer

    async def finish(self) -> None:
        """Waits until all writing requests are complete."""
        await self._handler.finish()
        await self._folders.stop()
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
        avoided: set[str] = set()
        for _ in range(TRIES):
            worker = await read(_worker_of, folder, avoided)
            if worker is None:
                break
            found = await self._forward_to(worker, scope, folder, body, seconds)
            if found.status != MISDIRECTED:
                return found
            avoided.add(worker.id)
            await asyncio.sleep(MOVING_SECONDS)
        raise FolderUnserved(f"{MOVING} Try again in a moment." if avoided else "")

    async def _forward_to(
        self,
        worker: WorkerOffer,
        scope: Scope,
        folder: _FolderElsewhere,
        body: bytes,
        seconds: float,
    ) -> ForwardedAnswer:
        try:
            channel = await self._sender.channel()
            expected = await self._sender.send(
                await _request(
                    scope,
                    body,
                    workspace_id=folder.workspace_id,
                    worker=worker.id,
                    channel=channel,
                    seconds=seconds,
                )
            )
        except BadMessage as error:
            raise BadField(_UNSENDABLE.get(str(error), _TOO_LONG)) from None
        except Refusal:
            raise
        except (Exception, TimeoutError) as error:
            logger.warning("a request could not be forwarded: %s", error)
            raise FolderUnserved(f"{UNREACHABLE} Try again in a moment.") from error
        found = await self._sender.wait(
            expected, worker.id, seconds=seconds, accept_seconds=self._accept_seconds
        )
        if found is not None:
            return found
        logger.warning("a worker did not answer a forwarded request: %s", worker.id)
        if scope["method"] in READING:
            raise FolderUnserved(f"{SILENT} Try again in a moment.")
        raise OutcomeUnknown(f"{SILENT} Look whether it was done before trying again.")


def _worker_of(folder: _FolderElsewhere, avoided: Collection[str]) -> WorkerOffer | None:
    """Returns the workspace's home, or else a worker that is not ``avoided``."""
    home = home_of(folder.workspace_id)
    offers = worker_offers(now_ms())
    return chosen_worker(
        folder.path,
        folder.labels,
        roots=known_roots(),
        workers=[each for each in offers if each.id == home or each.id not in avoided],
        home=home,
        homes=count_homes(),
    )


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
        is_valid = "\0" not in target.workspace_id
        return await read(_workspace_folder, pk=target.workspace_id) if is_valid else None
    path = _named_path(scope, body)
    if not path.startswith("/") or "\0" in path:
        return None
    path = posixpath.normpath(path)
    return await read(_workspace_folder, path=path) or _FolderElsewhere(path)


def _workspace_folder(**which: str) -> _FolderElsewhere | None:
    row = Workspace.objects.filter(**which).values_list("path", "labels", "pk").first()
    if row is None:
        return None
    return _FolderElsewhere(row[0], tuple(labels_in(row[1])), row[2])


def _named_path(scope: Scope, body: bytes) -> str:
    if scope["method"] in READING:
        written = scope.get("query_string", b"").decode("latin-1")
        try:
            query = parse_qs(written, max_num_fields=MOST_FIELDS)
        except ValueError:
            raise BadField(f"the query: must have at most {MOST_FIELDS} fields") from None
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


async def _request(
    scope: Scope, body: bytes, *, workspace_id: str, worker: str, channel: str, seconds: float
) -> ForwardedRequest:
    caller = caller_of(scope)
    raw = scope.get("raw_path") or scope["path"].encode()
    return ForwardedRequest(
        id=new_id(),
        worker=worker,
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
        workspace_id=workspace_id,
    )


async def _is_tool(caller: Caller) -> bool:
    try:
        return await caller.is_tool()
    except Exception:  # noqa: BLE001  the process cannot be examined, so it counts as one
        return True


class _Incoming:
    """What a client sends: ``receive`` begins with what was read already."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._messages: list[Any] = []

    async def read(self) -> bytes | None:
        """Returns the body; ``None`` if the client disconnects before its end."""
        while True:
            message = await self._receive()
            self._messages.append(message)
            if message["type"] == "http.disconnect":
                return None
            if not message.get("more_body", False):
                return b"".join(each.get("body", b"") for each in self._messages)

    async def receive(self) -> Any:
        return self._messages.pop(0) if self._messages else await self._receive()


async def _send(answer: ForwardedAnswer, send: Send) -> None:
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
    headers.append((b"content-length", b"%d" % len(answer.body)))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


async def _refuse(refusal: Refusal, path: str, send: Send) -> None:
    for message in refusal_messages(refusal, path):
        await send(message)


def refusal_messages(refusal: Refusal, path: str) -> list[Message]:
    """Returns the response in the format of the interface to which the address belongs."""
    messages: list[Message] = [*http_error(refusal.status, refusal.sentence, refusal.headers)]
    if path.startswith("/api/"):
        body = orjson.dumps(problem(refusal.status, refusal.code, refusal.sentence))
        headers = [
            (b"content-type", PROBLEM_TYPE.encode()),
            (b"content-length", b"%d" % len(body)),
            *refusal.headers,
        ]
        messages[0]["headers"], messages[1]["body"] = headers, body
    return messages
