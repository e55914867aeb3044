"""The route by which remote workers join this server: ``/fleet/worker``.

What a worker announces is in the query, and its token in the header, so that a refusal is the answer
to the handshake. After it, the frames are those of a sub-agent, with the server as the parent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs

from agents.fleet.parent.joined import WITHDRAWN, JoinedConnection, WorkerHello
from agents.runs.prompting.remote_workers import (
    RENEWED_SECONDS,
    WorkerNameTaken,
    forget_worker,
    note_worker,
)
from crushsite.asgi.guard import Receive, Scope, Send
from crushsite.process import ServerProcess
from people.queries import name_of_token
from workspaces.access import Caller, Identity, Right, caller_of
from workspaces.error_answers import websocket_error
from workspaces.log.errors import BadField, Forbidden, Refusal
from workspaces.log.reader import read
from workspaces.log.writer import writer
from workspaces.placement.remote_place import NAME, RemotePlace

logger = logging.getLogger(__name__)

PATH = "/fleet/worker"
WIRE = 1  # counts the changes that an older end would not understand
LOOK_SECONDS = 1.0  # between two looks whether the worker still has its right
MOST_ROOTS = 100
MOST_CONNECTIONS = 64  # of a worker for each folder
INSTANCE_CHARS = 64


class WireTooOld(Refusal):
    """This remote worker is older than the server. Update it to the server's version."""

    code = "wire_too_old"
    status = 426


def read_hello(query: bytes) -> tuple[WorkerHello, RemotePlace]:
    """Returns what a worker announces, and the place that this connection serves.

    Raises ``BadField``, ``WireTooOld``.
    """
    try:
        fields = parse_qs(query.decode("latin-1"), max_num_fields=MOST_ROOTS + 10)
    except ValueError:
        raise BadField("the query has too many fields") from None
    if _number(fields, "wire", least=0, most=1_000_000) < WIRE:
        raise WireTooOld
    name, root, instance = (_one(fields, key) for key in ("name", "root", "instance"))
    roots = fields.get("roots", [])
    for key, value in (("name", name), ("root", root), *(("roots", each) for each in roots)):
        if not NAME.fullmatch(value):
            raise BadField(f"{key}: must be lower case letters, digits, dots, - and _")
    if root not in roots or len(roots) > MOST_ROOTS:
        raise BadField(f"roots: must contain root, and have at most {MOST_ROOTS} names")
    if not instance.isalnum() or len(instance) > INSTANCE_CHARS:
        raise BadField("instance: must be letters and digits")
    capacity = _number(fields, "capacity", most=MOST_CONNECTIONS)
    return WorkerHello(name, instance, tuple(roots), capacity), RemotePlace(name, root)


def _one(fields: Mapping[str, Sequence[str]], name: str) -> str:
    values = fields.get(name, [])
    if len(values) != 1:
        raise BadField(f"{name} is required, once")
    return values[0]


def _number(fields: Mapping[str, Sequence[str]], name: str, *, least: int = 1, most: int) -> int:
    text = _one(fields, name)
    if not (text.isascii() and text.isdigit() and len(text) < 10 and least <= int(text) <= most):
        raise BadField(f"{name}: must be a number from {least} to {most}")
    return int(text)


async def _require_name(identity: Identity, name: str) -> None:
    """Checks that a token is that of the worker: another worker's prompts are not for it.

    Raises ``Forbidden``. The owner, and tokens with all rights, may use any name.
    """
    if identity.scopes is None or not identity.token_id:
        return
    own = await read(name_of_token, identity.token_id)
    if own != name:
        raise Forbidden(
            f"This token has the name {own!r}, so it cannot join as the remote worker {name!r}."
            f" Create one with `crush-server token create {name} --scope work`."
        )


class WorkerSocket:
    """An ASGI application, one call for each connection of a worker."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._workers = server.pool.remote_workers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()  # the handshake
        caller = caller_of(scope)
        try:
            await caller.require(Right.WORK)
            hello, place = read_hello(scope.get("query_string", b""))
            await _require_name(caller.identity, hello.name)
            if len(self._workers.connections_of(hello.name)) >= MOST_ROOTS * MOST_CONNECTIONS:
                raise BadField(f"capacity: at most {MOST_ROOTS * MOST_CONNECTIONS} connections")
            await self._note(hello)
        except Refusal as refusal:
            await _refuse(refusal, scope, send)
            return
        await send({"type": "websocket.accept"})
        connection = JoinedConnection(send, path=place.path, hello=hello)
        watching = asyncio.create_task(self._watch(connection, caller), name="remote-worker")
        self._workers.join(connection)
        logger.info("remote worker joined: %s", place.path)
        try:
            while (message := await receive())["type"] != "websocket.disconnect":
                if message.get("text") is not None:
                    await connection.receive(message["text"])
        finally:
            connection.disconnected()
            self._workers.leave(connection)
            watching.cancel()
            if not self._workers.connections_of(hello.name):
                logger.info("remote worker left: %s", hello.name)
                with suppress(Refusal):  # then its row counts for some seconds only
                    await writer.write(
                        "",
                        lambda tx: forget_worker(tx, hello.name, server=self._server.instance_id),
                    )

    async def _note(self, hello: WorkerHello) -> None:
        await writer.write("", lambda tx: note_worker(tx, hello, server=self._server.instance_id))

    async def _watch(self, connection: JoinedConnection, caller: Caller) -> None:
        """Renews the worker's row, and closes the connection when the worker may not serve."""
        hello, loop = connection.hello, asyncio.get_running_loop()
        renewed = loop.time()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                if not (await caller.current()).may(Right.WORK):
                    await connection.close(WITHDRAWN)
                    return
                is_first = self._workers.connections_of(hello.name)[:1] == [connection]
                if is_first and loop.time() >= renewed + RENEWED_SECONDS:
                    renewed = loop.time()
                    await self._note(hello)
            except WorkerNameTaken:  # another one has joined during an outage of the database
                await connection.close()
                return
            except Exception:
                logger.exception("renewing a remote worker failed; the next look tries again")


async def _refuse(refusal: Refusal, scope: Scope, send: Send) -> None:
    if "websocket.http.response" not in (scope.get("extensions") or {}):
        await send({"type": "websocket.close", "code": 4000 + refusal.status})
        return
    answer: list[dict[str, Any]] = websocket_error(
        refusal.status, refusal.sentence, refusal.headers, code=refusal.code
    )
    for message in answer:
        await send(message)
