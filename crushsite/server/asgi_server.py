"""The ASGI server: Daphne's protocols inside the event loop of its caller.

Owns listening, the connections' applications and a clean stop. The caller owns the loop, the
signals and the application. Daphne's own ``Server`` would install a reactor of Twisted with an
event loop of its own; this class has what Daphne's protocols use of it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any

from twisted.logger import STDLibLogObserver, globalLogBeginner

from crushsite.asgi.guard import Application, Message
from crushsite.endpoints import BACKLOG, Endpoint, ListeningSocket, parse_endpoint
from crushsite.server.backpressure import Inbox
from crushsite.server.http import BodyBudget, Channel, HttpRequest
from crushsite.server.transport import CLOCK, Transport
from crushsite.server.websocket import Socket, SocketFactory
from workspaces.client_ids import CONNECTION
from workspaces.delivery.pushing import PUSH

logger = logging.getLogger(__name__)

Protocol = HttpRequest | Socket

TICK_SECONDS = 1.0
LEFT_SECONDS = 30  # how long an application may outlive its connection
EXTENSIONS: Mapping[str, Mapping[str, Any]] = {"websocket.http.response": {}}


class AsgiServer:
    """Listens from ``start`` to ``stop``, each called once, in one running loop."""

    # What the protocols of Daphne and Twisted look up in their server and their factory.
    root_path = ""
    request_buffer_size = 1024 * 1024
    proxy_forwarded_address_header = None
    websocket_timeout = -1  # a socket may stay for ever
    websocket_connect_timeout = 20
    ping_interval = 20
    http_timeout = None  # a stream may stay for ever as well

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
        self.server = self  # to Twisted it is the factory of its channels as well
        self.application = application
        self.wanted = [parse_endpoint(text) for text in endpoints]
        self.body_limit = body_limit
        self.bodies = BodyBudget(max(bodies_limit, body_limit))
        self.patience_seconds = patience_seconds
        self.frame_limit = frame_limit
        self.transports: set[Transport] = set()
        self.is_stopping = False
        self._listening: list[tuple[ListeningSocket, asyncio.Server]] = []
        self._tick: asyncio.TimerHandle | None = None
        self.connections: set[Protocol] = set()

    @property
    def endpoints_open(self) -> list[Endpoint]:
        """Where it listens, with the real ports."""
        return [listening.endpoint for listening, _ in self._listening]

    async def start(self) -> list[Endpoint]:
        """Listens everywhere or nowhere. Raises ``EndpointError``."""
        _log_failures_of_twisted()
        self.ws_factory = SocketFactory(self, server="crush", reactor=CLOCK)
        self.ws_factory.setProtocolOptions(
            autoPingTimeout=30,
            allowNullOrigin=True,
            failByDrop=False,  # a peer learns from a close code what it did wrong
            openHandshakeTimeout=20,
            maxMessagePayloadSize=self.frame_limit,
            maxFramePayloadSize=self.frame_limit,
        )
        try:
            for endpoint in self.wanted:
                await self._listen(ListeningSocket(endpoint))
        except BaseException:
            self._stop_listening()
            raise
        self._tick = asyncio.get_running_loop().call_later(TICK_SECONDS, self._look)
        return self.endpoints_open

    async def _listen(self, listening: ListeningSocket) -> None:
        loop = asyncio.get_running_loop()
        create = loop.create_unix_server if listening.is_unix else loop.create_server
        accepting = await create(self._accept, sock=listening.socket, backlog=BACKLOG)
        self._listening.append((listening, accepting))

    def _accept(self) -> Transport:
        return Transport(Channel(self), self.transports, patience_seconds=self.patience_seconds)

    async def stop(self, *, grace_seconds: float = 5.0) -> None:
        """Ends streams at once, gives requests the grace, then ends what is left."""
        if self.is_stopping:
            return
        self.is_stopping = True
        self._stop_listening()
        for protocol in list(self.connections):
            if isinstance(protocol, Socket) or protocol.is_streaming:
                protocol.end_stream()
        for transport in list(self.transports):
            if isinstance(transport.protocol, Channel):
                transport.protocol.close_when_idle()
        await self._end_applications(grace_seconds)
        rounds = 20  # the last bytes are on their way: gives the peers a moment to take them
        while self.transports and rounds:
            rounds -= 1
            await asyncio.sleep(0.01)
        for transport in list(self.transports):
            transport.abortConnection()
        if self._tick is not None:
            self._tick.cancel()
        await asyncio.sleep(
            0
        )  # connections that were aborted learn it in the next turn of the loop

    def _stop_listening(self) -> None:
        listening, self._listening = self._listening, []
        for listening_socket, accepting in listening:
            listening_socket.remove_file()
            accepting.close()

    async def _end_applications(self, grace_seconds: float) -> None:
        running = {each.task for each in self.connections if each.task is not None}
        if running:
            _, late = await asyncio.wait(running, timeout=grace_seconds)
            for task in late:
                task.cancel()
            if late:
                logger.info("%d requests were cut off by the stop", len(late))
                await asyncio.wait(late, timeout=1.0)

    # -- called by the protocols

    def protocol_connected(self, protocol: Protocol) -> None:
        self.connections.add(protocol)

    def log(self, *_: object) -> None:
        """The libraries' logs of requests, which we do not keep."""

    log_action = log

    def create_application(self, protocol: Protocol, scope: dict[str, Any]) -> Inbox | None:
        if protocol.gone_at is not None:
            return None
        if self.is_stopping:
            if isinstance(protocol, HttpRequest):
                protocol.application_ended(is_stopping=True)
            return None
        scope["asgi"] = {"version": "3.0"}
        if isinstance(protocol, HttpRequest):
            scope["extensions"] = {
                PUSH: {"push": protocol.push},
                CONNECTION: {"connection": protocol.channel.connection},
            }
        else:
            scope["extensions"] = EXTENSIONS
        inbox = Inbox()
        work = self.application(scope, inbox.get, partial(self.handle_reply, protocol))
        protocol.task = asyncio.ensure_future(work)
        protocol.task.add_done_callback(partial(self._application_ended, protocol))
        return inbox

    async def handle_reply(self, protocol: Protocol, message: Message) -> None:
        """What the application sends; returns when the peer has room for more."""
        if protocol.gone_at is not None:
            return
        protocol.handle_reply(message)
        if protocol.flow.is_full and message.get("more_body", True):
            await protocol.flow.drained()

    def protocol_disconnected(self, protocol: Protocol) -> None:
        if protocol.gone_at is None:
            protocol.gone_at = time.monotonic()
        if protocol.task is None:
            self.connections.discard(protocol)
            protocol.release_body()

    def _application_ended(self, protocol: Protocol, task: asyncio.Task[None]) -> None:
        protocol.task = None
        protocol.release_body()
        error = None if task.cancelled() else task.exception()
        is_gone = protocol.gone_at is not None
        if is_gone:
            self.connections.discard(protocol)
        if error is not None and not (is_gone and isinstance(error, OSError)):
            logger.error("an application failed", exc_info=error)
        if not is_gone:
            protocol.application_ended(is_stopping=self.is_stopping)

    # -- from time to time

    def _look(self) -> None:
        """Timeouts, peers that take nothing, and applications that outlive their connection."""
        for protocol in list(self.connections):
            if protocol.gone_at is None:
                protocol.check_timeouts()
            elif protocol.task is not None and time.monotonic() - protocol.gone_at > LEFT_SECONDS:
                logger.debug("an application that outlived its connection is cancelled")
                protocol.task.cancel()
        for transport in list(self.transports):
            if transport.flow.is_full and transport.flow.is_stuck():
                logger.info(
                    "a connection took nothing for %d s and is closed", self.patience_seconds
                )
                transport.cut_off()
        self._tick = asyncio.get_running_loop().call_later(TICK_SECONDS, self._look)


@cache
def _log_failures_of_twisted() -> None:
    """Failures in Twisted's own log go to ours, the rest nowhere."""
    logging.getLogger("twisted").setLevel(logging.ERROR)
    observer: Any = STDLibLogObserver()
    globalLogBeginner.beginLoggingTo([observer], redirectStandardIO=False, discardBuffer=True)
