"""Daphne's WebSocket side: quick frames, back pressure both ways, real close codes.

A socket may be refused before it is accepted with a whole HTTP answer
(the ``websocket.http.response`` extension of ASGI).
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import MutableMapping
from http import HTTPStatus
from typing import Any

from autobahn.websocket.types import ConnectionDeny
from daphne.ws_protocol import WebSocketFactory, WebSocketProtocol
from typing_extensions import override

from crushsite.server.backpressure import Flow, Inbox
from crushsite.server.http import error_body
from crushsite.server.transport import Exchange

FAILED = 1011
RESTARTING = 1012


class Socket(Exchange, WebSocketProtocol):  # type: ignore[misc]  # Daphne is untyped
    server: Any = None
    application_queue: Inbox
    _denial: dict[str, Any] | None = None

    @property
    def flow(self) -> Flow:
        flow: Flow = self.transport.flow
        return flow

    @override
    def applicationCreateWorked(self, application_queue: Inbox | None) -> None:
        if application_queue is None:  # the server is stopping
            self.serverReject()
            return
        application_queue.transport = self.transport
        super().applicationCreateWorked(application_queue)

    @override
    def onClose(self, wasClean: bool, code: int | None, reason: str | None) -> None:
        if self.server is not None:  # else it failed before it was a WebSocket
            super().onClose(wasClean, 1006 if code is None else code, reason)

    # -- what the application says

    @override
    def handle_reply(self, message: MutableMapping[str, Any]) -> None:
        match message["type"]:
            case "websocket.http.response.start":
                self._denial = {"status": message["status"], "body": b""}
                self._denial["headers"] = list(message.get("headers", ()))
            case "websocket.http.response.body" if self._denial is not None:
                self._denial["body"] += message.get("body", b"")
                if not message.get("more_body", False):
                    self._deny(self._denial["status"])
            case _:
                super().handle_reply(message)

    @override
    def serverSend(self, content: bytes | str, binary: bool = False) -> None:
        if self.state != self.STATE_OPEN:
            return
        payload = content if isinstance(content, bytes) else content.encode()
        # One whole frame by hand: the library's way costs several times as much, and it
        # would hold what we send to the limit for what we accept.
        first, size = 0x82 if binary else 0x81, len(payload)
        if size < 126:
            head = bytes((first, size))
        elif size < 65_536:
            head = struct.pack("!BBH", first, 126, size)
        else:
            head = struct.pack("!BBQ", first, 127, size)
        self.transport.write(head + payload)

    @override
    def serverClose(self, code: int | None = None) -> None:
        # Not ``sendClose``: it refuses the codes below 3000 that servers use.
        self.sendCloseFrame(code=1000 if code is None else code)

    @override
    def serverReject(self) -> None:
        if hasattr(self, "handshake_deferred"):
            super().serverReject()

    def application_ended(self, *, is_stopping: bool = False) -> None:
        """The application is through; so is the socket."""
        if self.state == self.STATE_CONNECTING and hasattr(self, "handshake_deferred"):
            status = 503 if is_stopping else 500
            sentence = "server is shutting down" if is_stopping else "internal server error"
            self._denial = {"status": status, "headers": [], "body": error_body(sentence)}
            self._deny(status)
        elif self.state == self.STATE_OPEN:
            self.serverClose(RESTARTING if is_stopping else FAILED)

    def end_stream(self) -> None:
        """The server stops; its client may come back at once."""
        if self.state == self.STATE_OPEN:
            self.serverClose(RESTARTING)
        else:
            self.serverReject()

    def _deny(self, status: int) -> None:
        deferred = self.handshake_deferred
        del self.handshake_deferred
        denial: Any = ConnectionDeny
        deferred.errback(denial(code=status, reason=HTTPStatus(status).phrase))
        self.server.protocol_disconnected(self)

    @override
    def sendHttpErrorResponse(self, code: int, reason: str, responseHeaders: Any = None) -> None:
        denial = self._denial or {"headers": [], "body": error_body(reason)}
        body: bytes = denial["body"]
        headers = denial["headers"] or [(b"content-type", b"application/json")]
        lines = [b"HTTP/1.1 %d %s" % (code, HTTPStatus(code).phrase.encode())]
        lines += [b"%s: %s" % (name, value) for name, value in headers]
        lines += [f"{name}: {value}".encode() for name, value in responseHeaders or ()]
        lines += [b"server: crush", b"content-length: %d" % len(body), b"connection: close"]
        self.sendData(b"\r\n".join(lines) + b"\r\n\r\n" + body)

    # -- is it alive

    @override
    def check_timeouts(self) -> None:
        # A peer that is slow to take what we sent cannot answer a ping behind it: its
        # progress is watched instead.
        if not self.flow.is_full:
            super().check_timeouts()

    @override
    def onAutoPingTimeout(self) -> None:
        if self.flow.is_full:
            self.autoPingTimeoutCall = None
        else:
            super().onAutoPingTimeout()

    @override
    def onCloseHandshakeTimeout(self) -> None:
        # Our last words, and the close frame behind them, may still be on their way.
        is_behind = self.transport.unsent() and not self.flow.is_stuck()
        if self.state != self.STATE_CLOSED and is_behind:
            self.closeHandshakeTimeoutCall = asyncio.get_running_loop().call_later(
                self.closeHandshakeTimeout, self.onCloseHandshakeTimeout
            )
        else:
            super().onCloseHandshakeTimeout()


class SocketFactory(WebSocketFactory):  # type: ignore[misc]  # Daphne is untyped
    protocol = Socket
    noisy = False
