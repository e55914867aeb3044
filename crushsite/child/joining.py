"""Connects a remote worker to its server, and keeps it connected.

Each connection serves one folder and performs one run at a time, as a sub-agent does for its parent;
only the handshake goes the other way. The token is sent in the header of each handshake, and is
never logged.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import aiohttp

from agents.fleet.child.consumer import SocketSender
from agents.fleet.child.conversation import ParentConversation, RunCounts
from agents.fleet.child.executor import RunExecutor
from agents.fleet.parent.connection import MOST_MESSAGE_BYTES, follow_nothing
from agents.fleet.parent.joined import WITHDRAWN, WorkerHello
from workspaces.backoff import Backoff

WIRE = 1  # the version of this program's frames
HANDSHAKE_SECONDS = 15.0
PING_SECONDS = 20.0
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 15.0
NAME_TAKEN = 409


class JoinRefused(Exception):
    """The server does not accept this worker; trying again changes nothing."""

    def __init__(self, status: int, name: str) -> None:
        super().__init__(
            _SENTENCES.get(status, f"the server answered with status {status}").format(name=name)
        )
        self.is_unauthorised = status in {401, 403}


_SENTENCES: Mapping[int, str] = {
    400: "the server does not understand this worker; use the same version on both machines",
    401: "the server does not accept the token: it is wrong, has expired, or was revoked",
    403: "the token lacks the right `work`, or it has another name than this worker ({name!r}); create"
    " one with `crush-server token create {name} --scope work` on the server",
    404: "the server has no route for remote workers; it is older than this program",
    NAME_TAKEN: "another remote worker of the name {name!r} is connected; give this one another name"
    " with --name",
    426: "this program is too old for the server; update it to the server's version",
}


@dataclass(frozen=True, slots=True)
class JoinedServer:
    url: str  # http:// or https://
    token: str = field(repr=False)
    tls: ssl.SSLContext | None = field(default=None, repr=False)


class WorkerConnections:
    """The connections of one remote worker."""

    def __init__(
        self,
        server: JoinedServer,
        hello: WorkerHello,
        executors: Mapping[str, RunExecutor],
        *,
        note: Callable[[str], None],
    ) -> None:
        """``executors``: by the name of a folder. ``note`` gets sentences for the user."""
        self._server = server
        self._hello = hello
        self._executors = executors
        self._note = note
        self._counts = RunCounts()
        self._connected = 0
        self._has_joined = False

    async def serve(self) -> None:
        """Serves until it is cancelled. Raises ``JoinRefused``."""
        keeping = [
            asyncio.create_task(self._keep(root), name=f"{root} {number}")
            for root in self._executors
            for number in range(self._hello.capacity)
        ]
        try:
            done, _ = await asyncio.wait(keeping, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        finally:
            for task in keeping:
                task.cancel()
            await asyncio.gather(*keeping, return_exceptions=True)

    async def _keep(self, root: str) -> None:
        pauses = self._new_pauses()
        while True:
            try:
                async with aiohttp.ClientSession(
                    timeout=aiohttp.ClientTimeout(total=None), middlewares=(follow_nothing,)
                ) as session:
                    socket = await self._join(session, root)
                    pauses = self._new_pauses()
                    try:
                        await self._converse(socket, self._executors[root])
                    finally:
                        self._connected -= 1
                if socket.close_code == WITHDRAWN:
                    raise JoinRefused(401, self._hello.name)
                reason = "the connection was closed"
            except aiohttp.WSServerHandshakeError as error:
                # Its own connections before a loss of the network may still count for a while.
                may_return = error.status == NAME_TAKEN and self._has_joined
                if not may_return and 400 <= error.status < 500 and error.status != 429:
                    raise JoinRefused(error.status, self._hello.name) from None
                reason = f"the server answered with status {error.status}"
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                reason = f"it cannot be reached ({type(error).__name__})"
            if self._connected == 0 and pauses.failures == 0:
                self._note(f"Not connected to {self._server.url}: {reason}. Trying again.")
            await asyncio.sleep(pauses.next_seconds())

    async def _join(
        self, session: aiohttp.ClientSession, root: str
    ) -> aiohttp.ClientWebSocketResponse:
        hello = self._hello
        query = urlencode(
            [
                ("wire", WIRE),
                ("name", hello.name),
                ("instance", hello.instance),
                ("capacity", hello.capacity),
                ("root", root),
                *(("roots", each) for each in hello.roots),
            ]
        )
        address = self._server.url.replace("http", "ws", 1)
        async with asyncio.timeout(HANDSHAKE_SECONDS):
            socket = await session.ws_connect(
                f"{address}/fleet/worker?{query}",
                headers={"Authorization": f"Bearer {self._server.token}"},
                ssl=self._server.tls if self._server.tls is not None else True,
                max_msg_size=MOST_MESSAGE_BYTES,
                heartbeat=PING_SECONDS,
                compress=0,
            )
        self._connected += 1
        self._has_joined = True
        if self._connected == len(self._executors) * hello.capacity:
            places = ", ".join(f"{hello.name}:{each}" for each in hello.roots)
            self._note(f"Connected to {self._server.url} as {places}")
        return socket

    async def _converse(
        self, socket: aiohttp.ClientWebSocketResponse, executor: RunExecutor
    ) -> None:
        async def send(message: MutableMapping[str, Any]) -> None:
            with suppress(OSError):  # the reading below ends as well
                if message["type"] == "websocket.send":
                    await socket.send_str(message["text"])
                else:
                    await socket.close(code=message["code"])

        sender = SocketSender(send)
        conversation = ParentConversation(sender, executor, self._counts, drop=sender.drop)
        try:
            async for message in socket:
                if message.type == aiohttp.WSMsgType.TEXT:
                    conversation.take(message.data)
        finally:
            sender.close()
            conversation.on_disconnect()
            await conversation.finish()

    def _new_pauses(self) -> Backoff:
        return Backoff(first_seconds=FIRST_PAUSE_SECONDS, limit_seconds=LONGEST_PAUSE_SECONDS)
