"""The ASGI server: Daphne inside the event loop of its caller.

Owns listening, the connections' applications and a clean stop. The caller owns
the loop, the signals and the application. Daphne's own ``Server`` is its base
for what happens on a connection; its way of running is not used.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from functools import partial
from typing import Any

from daphne.server import Server
from typing_extensions import override

from crushsite.server.endpoints import Endpoint, Listener, listen, parse_endpoint
from crushsite.server.http_channel import Channel, Factory
from crushsite.server.http_request import BodyBudget, Request
from crushsite.server.inbox import Inbox
from crushsite.server.reactor import reactor_in
from crushsite.server.websocket import Socket, SocketFactory
from workspaces.storage.client_ids import CONNECTION
from workspaces.streams.pushing import PUSH

logger = logging.getLogger(__name__)

Message = MutableMapping[str, Any]
Application = Callable[
    [
        MutableMapping[str, Any],
        Callable[[], Awaitable[Message]],
        Callable[[Message], Awaitable[None]],
    ],
    Awaitable[None],
]
Protocol = Request | Socket

TICK_SECONDS = 1.0
EXTENSIONS: Mapping[str, Mapping[str, Any]] = {"websocket.http.response": {}}


class AsgiServer(Server):  # type: ignore[misc]  # Daphne is untyped
    """Listens from ``start`` to ``stop``, each called once, in one running loop."""

    def __init__(
        self,
        application: Application,
        *,
        endpoints: Sequence[str],
        body_limit: int = 32 * 1024 * 1024,
        bodies_limit: int = 128 * 1024 * 1024,
        frame_limit: int = 16 * 1024 * 1024,
        patience_seconds: float = 60.0,
    ) -> None:
        """``bodies_limit``: the bytes of large bodies at one moment, over all connections.

        ``patience_seconds``: how long a peer may take nothing of what is sent to it.

        Raises ``EndpointError``.
        """
        self.wanted = [parse_endpoint(text) for text in endpoints]
        self.body_limit = body_limit
        self.bodies = BodyBudget(max(bodies_limit, body_limit))
        self.patience_seconds = patience_seconds
        self.channels: set[Channel] = set()
        self.is_stopping = False
        self._listeners: list[Listener] = []
        self._tick: asyncio.TimerHandle | None = None
        super().__init__(
            application,
            endpoints=list(endpoints),
            signal_handlers=False,
            request_buffer_size=1024 * 1024,
            websocket_timeout=-1,  # a socket may stay for ever
            websocket_handshake_timeout=20,
            websocket_max_message_size=frame_limit,
            websocket_max_frame_size=frame_limit,
            ping_interval=20,
            ping_timeout=30,
            application_close_timeout=30,
            server_name="crush",
        )
        self.connections: dict[Protocol, dict[str, Any]] = {}

    @property
    def endpoints_open(self) -> list[Endpoint]:
        """Where it listens, with the real ports."""
        return [listener.endpoint for listener in self._listeners]

    async def start(self) -> list[Endpoint]:
        """Listens everywhere or nowhere. Raises ``EndpointError``."""
        loop = asyncio.get_running_loop()
        reactor = reactor_in(loop)
        self.http_factory = Factory(self)
        self.ws_factory = SocketFactory(self, server=self.server_name)
        self.ws_factory.setProtocolOptions(
            autoPingTimeout=self.ping_timeout,
            allowNullOrigin=True,
            failByDrop=False,  # a peer is told with a close code what it did wrong
            openHandshakeTimeout=self.websocket_handshake_timeout,
            maxMessagePayloadSize=self.websocket_max_message_size,
            maxFramePayloadSize=self.websocket_max_frame_size,
        )
        try:
            for endpoint in self.wanted:
                self._listeners.append(listen(endpoint, self.http_factory, reactor))
        except BaseException:
            await self._stop_listening()
            raise
        self._tick = loop.call_later(TICK_SECONDS, self._look)
        return self.endpoints_open

    @override
    async def stop(self, *, grace_seconds: float = 5.0) -> None:
        """Ends streams at once, gives requests the grace, then ends what is left."""
        if self.is_stopping:
            return
        self.is_stopping = True
        await self._stop_listening()
        for protocol in list(self.connections):
            if isinstance(protocol, Socket) or protocol.is_streaming:
                protocol.end_stream()
        for channel in list(self.channels):
            channel.close_when_idle()
        await self._wait_for_applications(grace_seconds)
        await self._cancel_applications()
        await self._wait_for_channels()
        for channel in list(self.channels):
            channel.transport.abortConnection()
        for protocol in list(self.connections):
            if isinstance(protocol, Socket):
                protocol.dropConnection(abort=True)
        if self._tick is not None:
            self._tick.cancel()
        await asyncio.sleep(0)  # what was aborted is told so in the next turn of the loop

    async def _stop_listening(self) -> None:
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            await listener.close()

    async def _wait_for_applications(self, grace_seconds: float) -> None:
        tasks = self._tasks()
        if tasks:
            await asyncio.wait(tasks, timeout=grace_seconds)

    async def _cancel_applications(self) -> None:
        tasks = self._tasks()
        for task in tasks:
            task.cancel()
        if tasks:
            logger.info("%d requests were cut off by the stop", len(tasks))
            await asyncio.wait(tasks, timeout=1.0)

    async def _wait_for_channels(self) -> None:
        """What was said last is on its way: a moment for the peers to take it."""
        rounds = 20
        while self.channels and rounds:
            rounds -= 1
            await asyncio.sleep(0.01)

    def _tasks(self) -> set[asyncio.Task[None]]:
        tasks = (details.get("application_instance") for details in self.connections.values())
        return {task for task in tasks if task is not None and not task.done()}

    # -- called by the protocols

    @override
    def create_application(self, protocol: Protocol, scope: dict[str, Any]) -> Inbox | None:
        details = self.connections.get(protocol)
        if details is None or "disconnected" in details:
            return None
        if self.is_stopping:
            if isinstance(protocol, Request):
                protocol.application_ended(is_stopping=True)
            return None
        scope["asgi"] = {"version": "3.0"}
        if isinstance(protocol, Request):
            scope["extensions"] = {
                PUSH: {"push": protocol.push},
                CONNECTION: {"connection": protocol.channel.connection},
            }
        else:
            scope["extensions"] = EXTENSIONS
        inbox = Inbox()
        task = asyncio.ensure_future(
            self.application(
                scope=scope, receive=inbox.get, send=partial(self.handle_reply, protocol)
            )
        )
        details["application_instance"] = task
        task.add_done_callback(partial(self._application_ended, protocol))
        return inbox

    @override
    async def handle_reply(self, protocol: Protocol, message: Message) -> None:
        """What the application sends; returns when the peer has room for more."""
        details = self.connections.get(protocol)
        if details is None or "disconnected" in details:
            return
        if message["type"] == "http.response.start":
            self.check_headers_type(message)
        protocol.handle_reply(message)
        if protocol.flow.is_full and message.get("more_body", True):
            await protocol.flow.drained()

    @override
    def protocol_disconnected(self, protocol: Protocol) -> None:
        details = self.connections.get(protocol)
        if details is None:
            return
        details.setdefault("disconnected", time.time())
        if "application_instance" not in details:
            del self.connections[protocol]
            _release_body(protocol)

    def _application_ended(self, protocol: Protocol, task: asyncio.Task[None]) -> None:
        details = self.connections.get(protocol, {})
        details.pop("application_instance", None)
        _release_body(protocol)
        error = None if task.cancelled() else task.exception()
        is_gone = "disconnected" in details
        if is_gone:
            self.connections.pop(protocol, None)
        if error is not None and not (is_gone and isinstance(error, OSError)):
            logger.error("an application failed", exc_info=error)
        if not is_gone:
            protocol.application_ended(is_stopping=self.is_stopping)

    # -- from time to time

    def _look(self) -> None:
        """Timeouts of the connections, and applications that outlive theirs."""
        for protocol, details in list(self.connections.items()):
            gone_at = details.get("disconnected")
            if gone_at is None:
                protocol.check_timeouts()
            elif time.time() - gone_at > self.application_close_timeout:
                task = details.get("application_instance")
                if task is not None:
                    logger.debug("an application that outlived its connection is cancelled")
                    task.cancel()
        self._tick = asyncio.get_running_loop().call_later(TICK_SECONDS, self._look)


def _release_body(protocol: Protocol) -> None:
    if isinstance(protocol, Request):
        protocol.release_body()
