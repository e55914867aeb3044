"""The ASGI server: Daphne's protocols inside the event loop of its caller.

Owns listening, the connections' applications and a clean stop. The caller owns the loop, the
signals and the application. Daphne's own ``Server`` would install a reactor of Twisted with an
event loop of its own; this class has the part that Daphne's protocols use.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Mapping
from functools import cache, partial
from typing import Any

from twisted.logger import STDLibLogObserver, globalLogBeginner

from crushsite.asgi.guard import Application, Message
from crushsite.asgi.identify import PEER
from crushsite.asgi.inbox import Inbox
from crushsite.endpoints import BACKLOG, Endpoint, ListeningSocket, parse_endpoint
from crushsite.server.http import Channel, HttpRequest
from crushsite.server.transport import CLOCK, Transport
from crushsite.server.websocket import Socket, SocketFactory
from workspaces.client_ids import CONNECTION
from workspaces.delivery.push import PUSH

logger = logging.getLogger(__name__)

Protocol = HttpRequest | Socket

TICK_SECONDS = 1.0
LEFT_SECONDS = 30  # how long an application may outlive its connection
EXTENSIONS: Mapping[str, Mapping[str, Any]] = {"websocket.http.response": {}}


class AsgiServer:
    """Listens from ``start`` to ``stop``, each called once, in one running loop."""

    # Attributes that the protocols of Daphne and Twisted read from their server and factory.
    root_path = ""
    request_buffer_size = 1024 * 1024
    proxy_forwarded_address_header = None
    websocket_timeout = -1  # a socket may stay open for ever
    websocket_connect_timeout = 20
    ping_interval = 20
    http_timeout = None  # a stream may stay open for ever as well

    def __init__(
        self,
        application: Application,
        *,
        endpoint: str,
        tls: ssl.SSLContext | None = None,
        body_limit: int = 32 * 1024 * 1024,
        bodies_limit: int = 128 * 1024 * 1024,
        frame_limit: int = 16 * 1024 * 1024,
        write_timeout_seconds: float = 60.0,
        idle_seconds: float = 60.0,
    ) -> None:
        """``bodies_limit``: the bytes of large bodies at one moment, over all connections.

        ``write_timeout_seconds``: a peer that reads nothing for this long is disconnected.
        ``idle_seconds``: how long a connection may send nothing while no request is at work.

        Raises ``EndpointError``.
        """
        self.server = self  # Twisted uses it as the factory of its channels, too
        self.application = application
        self.endpoint = parse_endpoint(endpoint)
        self._tls = tls
        self.body_limit = body_limit
        self.bodies_limit = max(bodies_limit, body_limit)
        self.body_bytes = 0  # reserved as a body arrives, released when its application ends
        self.write_timeout_seconds = write_timeout_seconds
        self.idle_seconds = idle_seconds
        self.frame_limit = frame_limit
        self.transports: set[Transport] = set()
        self.is_stopping = False
        self._listening: tuple[ListeningSocket, asyncio.Server] | None = None
        self._tick: asyncio.TimerHandle | None = None
        self.connections: set[Protocol] = set()

    async def start(self) -> Endpoint:
        """Returns the endpoint, with the real port. Raises ``EndpointError``."""
        _log_failures_of_twisted()
        self.ws_factory = SocketFactory(self, server="crush", reactor=CLOCK)
        self.ws_factory.setProtocolOptions(
            autoPingTimeout=30,
            allowNullOrigin=True,
            failByDrop=False,  # a close code shows the peer what it did wrong
            openHandshakeTimeout=20,
            maxMessagePayloadSize=self.frame_limit,
            maxFramePayloadSize=self.frame_limit,
        )
        loop = asyncio.get_running_loop()
        listening = ListeningSocket(self.endpoint)
        create = loop.create_unix_server if listening.is_unix else loop.create_server
        accepting = await create(
            self._accept, sock=listening.socket, backlog=BACKLOG, ssl=self._tls
        )
        self._listening = listening, accepting
        self._tick = loop.call_later(TICK_SECONDS, self._look)
        self.endpoint = listening.endpoint
        return self.endpoint

    def _accept(self) -> Transport:
        return Transport(
            Channel(self), self.transports, write_timeout_seconds=self.write_timeout_seconds
        )

    async def stop(self, *, grace_seconds: float = 5.0) -> None:
        """Ends streams at once, waits up to the grace for requests, then cancels the rest."""
        if self.is_stopping:
            return
        self.is_stopping = True
        if self._listening is not None:
            listening, accepting = self._listening
            listening.remove_file()
            accepting.close()
        for protocol in list(self.connections):
            if isinstance(protocol, Socket) or protocol.is_streaming:
                protocol.end_stream()
        for transport in list(self.transports):
            if isinstance(transport.protocol, Channel):
                transport.protocol.close_when_idle()
        await self._end_applications(grace_seconds)
        for _ in range(20):  # give the peers a moment to read the last bytes
            if self.transports:
                await asyncio.sleep(0.01)
        for transport in list(self.transports):
            transport.abortConnection()
        if self._tick is not None:
            self._tick.cancel()
        await asyncio.sleep(0)  # aborted connections are notified in the next turn of the loop

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
        """Discards the libraries' logs of requests."""

    log_action = log

    def create_application(self, protocol: Protocol, scope: dict[str, Any]) -> Inbox:
        scope["asgi"] = {"version": "3.0"}
        scope["root_path"] = ""  # Daphne takes it from a header, which any client may send
        if self._tls is not None:  # Daphne names no scheme for WebSockets
            scope["scheme"] = "https" if isinstance(protocol, HttpRequest) else "wss"
        if isinstance(protocol, HttpRequest):
            transport, inbox = protocol.channel.transport, Inbox()
            scope["extensions"] = {CONNECTION: {"connection": protocol.channel.connection}}
        else:
            transport, inbox = protocol.transport, Inbox(protocol.transport)
            scope["extensions"] = dict(EXTENSIONS)
            protocol.flow = transport.flow
        scope["extensions"] |= {PEER: {"peer": transport.peer}, PUSH: {"push": protocol.push}}
        if self.is_stopping:
            # In the next turn: Daphne has not read the body yet, nor prepared the handshake.
            refuse = partial(protocol.application_ended, is_stopping=True)
            asyncio.get_running_loop().call_soon(refuse)
        else:
            work = self.application(scope, inbox.get, partial(self.handle_reply, protocol))
            protocol.task = asyncio.ensure_future(work)
            protocol.task.add_done_callback(partial(self._application_ended, protocol))
        return inbox

    async def handle_reply(self, protocol: Protocol, message: Message) -> None:
        """Sends a message of the application; returns when the peer has room for more."""
        if protocol.closed_at is not None:
            return
        protocol.handle_reply(message)
        if protocol.flow.is_full and message.get("more_body", True):
            await protocol.flow.drained()

    def protocol_disconnected(self, protocol: Protocol) -> None:
        if protocol.closed_at is None:
            protocol.closed_at = time.monotonic()
        if protocol.task is None:
            self.connections.discard(protocol)
            protocol.release_body()

    def _application_ended(self, protocol: Protocol, task: asyncio.Task[None]) -> None:
        protocol.task = None
        protocol.release_body()
        error = None if task.cancelled() else task.exception()
        is_closed = protocol.closed_at is not None
        if is_closed:
            self.connections.discard(protocol)
        if error is not None and not (is_closed and isinstance(error, OSError)):
            logger.error("an application failed", exc_info=error)
        if not is_closed:
            protocol.application_ended(is_stopping=self.is_stopping)

    # -- periodic checks

    def _look(self) -> None:
        """Checks timeouts, stuck peers, and applications that outlive their connection."""
        for protocol in list(self.connections):
            if protocol.closed_at is None:
                protocol.check_timeouts()
            elif protocol.task is not None and time.monotonic() - protocol.closed_at > LEFT_SECONDS:
                logger.debug("an application that outlived its connection is cancelled")
                protocol.task.cancel()
        for transport in list(self.transports):
            if isinstance(transport.protocol, Channel):
                transport.protocol.check_idle()
            if transport.flow.is_full and transport.flow.is_stuck():
                logger.info(
                    "a peer read nothing for %d s and is disconnected", self.write_timeout_seconds
                )
                transport.cut_off()
        self._tick = asyncio.get_running_loop().call_later(TICK_SECONDS, self._look)


@cache
def _log_failures_of_twisted() -> None:
    """Forwards the errors of Twisted's own log to ours, and drops the rest."""
    logging.getLogger("twisted").setLevel(logging.ERROR)
    observer: Any = STDLibLogObserver()
    globalLogBeginner.beginLoggingTo([observer], redirectStandardIO=False, discardBuffer=True)
