"""HTTP/1.1: a connection and the requests on it, Daphne's and Twisted's, with limits.

A connection refuses malformed requests. A request limits its body, and writes its response in one
piece where the libraries write several.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import MutableMapping
from http import HTTPStatus
from typing import Any

from daphne.http_protocol import HEADER_NAME_RE, WebRequest
from twisted.web import http
from typing_extensions import override

from crushsite.server.transport import Exchange
from workspaces.client_ids import ClientConnection
from workspaces.error_answers import error_body

_HTTPChannel: Any = http.HTTPChannel

# After a refusal we keep reading for a moment, or the peer may never see the response.
REFUSED_SECONDS = 2.0
# Retry-After for a large body that found no room: most bodies take less time.
RETRY_SECONDS = 1
PHRASES = {status.value: status.phrase.encode() for status in HTTPStatus}
_NEVER_IN_VALUES = re.compile(rb"[\r\n\0]")
# Only larger bodies count against the limit of all bodies: uploads must not block prompts.
SMALL_BODY = 64 * 1024


def failure(*, is_stopping: bool) -> tuple[int, str]:
    """The response for an application that has ended without one: a status and a sentence."""
    return (503, "server is shutting down") if is_stopping else (500, "internal server error")


class HttpRequest(Exchange, WebRequest):  # type: ignore[misc]  # Daphne is untyped
    _response_started: bool
    startedWriting: int  # noqa: N815  Twisted's name
    chunked: int

    def __init__(self, channel: Channel, *args: Any, **kwargs: Any) -> None:
        # Twisted would parse forms in the event loop, and nothing uses them: 32 MB take 6 s
        # (`python -m tests.bench.bypasses forms`).
        super().__init__(channel, *args, parsePOSTFormSubmission=False, **kwargs)
        self.flow = channel.transport.flow
        self._received = 0
        self._reserved = 0  # bytes that count against the limit of all bodies
        self._headers: list[tuple[bytes, bytes]] = []
        self._is_bodiless = False

    @override
    def gotLength(self, length: int | None) -> None:
        if length is not None and not self._has_room(length):
            length = 0
        super().gotLength(length)

    @override
    def handleContentChunk(self, data: bytes) -> None:
        self._received += len(data)
        if self._has_room(self._received):
            if self._received > SMALL_BODY:
                self.server.body_bytes += self._received - self._reserved
                self._reserved = self._received
            super().handleContentChunk(data)

    def _has_room(self, size: int) -> bool:
        """Whether there is room for a body of this size. If not, refuses the request."""
        server = self.server
        if size > server.body_limit:
            self.channel.refuse(413, f"the body is larger than {server.body_limit} bytes")
        elif size > SMALL_BODY and size - self._reserved > server.bodies_limit - server.body_bytes:
            sentence = "the server is receiving too many large requests: send this one again soon"
            self.channel.refuse(503, sentence, b"Retry-After: %d\r\n" % RETRY_SECONDS)
        return not self.channel.transport.disconnecting

    @override
    def release_body(self) -> None:
        self.server.body_bytes -= self._reserved
        self._reserved = 0

    # -- the response: one write to the socket; the libraries make several, one turn later

    @override
    def handle_reply(self, message: MutableMapping[str, Any]) -> None:
        if self.finished or self.channel is None:
            return
        if message["type"] == "http.response.start":
            if self._response_started:
                raise ValueError("the response has begun already")
            self._response_started = True
            self.code = message["status"]
            self._headers = [*message.get("headers", ())]
        elif message["type"] == "http.response.body":
            if not self._response_started:
                raise ValueError("the response has not begun")
            more = message.get("more_body", False)
            self._write(message.get("body", b""), more=more)
            if not more:
                self.finish()
        else:
            raise ValueError(f"no response has a {message['type']}")

    def push(self, body: bytes) -> bool:
        """Writes more of a started response at once; ``False`` if it must be sent in its turn."""
        if not self.startedWriting or self.finished or self.channel is None or self.flow.is_full:
            return False
        self._write(body, more=True)
        return True

    def _write(self, body: bytes, *, more: bool) -> None:
        parts = []
        if not self.startedWriting:
            parts.append(self._head(len(body), more=more))
            self.startedWriting = 1
        if body and not self._is_bodiless:
            parts.append(b"%x\r\n%b\r\n" % (len(body), body) if self.chunked else body)
        if parts:
            self.channel.transport.write(b"".join(parts))

    def _head(self, size: int, *, more: bool) -> bytes:
        lines = [b"HTTP/1.1 %d %b\r\n" % (self.code, PHRASES.get(self.code, b"Unknown"))]
        names = set()
        for name, value in self._headers:
            if not HEADER_NAME_RE.fullmatch(name) or _NEVER_IN_VALUES.search(value):
                raise ValueError(f"not a header: {name!r}")
            names.add(name.lower())
            lines.append(b"%b: %b\r\n" % (name, value))
            if name.lower() == b"connection" and value.lower() == b"close":
                self.channel.transport.ends_response = True
                self.channel.persistent = 0
        self._is_bodiless = self.method == b"HEAD" or self.code in http.NO_BODY_CODES
        if not self._is_bodiless and b"content-length" not in names:
            if not more:
                lines.append(b"Content-Length: %d\r\n" % size)
            elif self.clientproto == b"HTTP/1.1" and not self.channel.transport.ends_response:
                self.chunked = 1
                lines.append(b"Transfer-Encoding: chunked\r\n")
        if b"server" not in names:
            lines.append(b"Server: crush\r\n")
        # A stream to an HTTP/1.0 client ends with its connection.
        if not self.channel.persistent and b"connection" not in names:
            lines.append(b"Connection: close\r\n")
        lines.append(b"\r\n")
        return b"".join(lines)

    @property
    def is_streaming(self) -> bool:
        return bool(self._response_started and self.startedWriting and not self.finished)

    def application_ended(self, *, is_stopping: bool = False) -> None:
        """Ends a response that the application has left incomplete."""
        if self.finished or self.channel is None:
            return
        if self.startedWriting:
            self.channel.transport.cut_off()
        else:
            self._response_started = False
            status, sentence = failure(is_stopping=is_stopping)
            self.basic_error(status, b"", sentence)

    @override
    def basic_error(self, status: int, status_text: bytes, body: str) -> None:
        if self._response_started:
            return
        headers = [(b"Content-Type", b"application/json")]
        self.handle_reply({"type": "http.response.start", "status": status, "headers": headers})
        self.handle_reply({"type": "http.response.body", "body": error_body(body)})

    def end_stream(self) -> None:
        """Notifies the application as if its client had disconnected, because the server stops."""
        if self.application_queue is not None:
            self.send_disconnect()


class Channel(_HTTPChannel):  # type: ignore[misc]  # Twisted is untyped here
    requestFactory = HttpRequest  # noqa: N815  Twisted's name
    # Its timers take 2.7 µs a request, ``check_idle`` none (`python -m tests.bench.bypasses timers`).
    timeOut = None  # noqa: N815  Twisted's name

    def __init__(self, server: Any) -> None:
        super().__init__()
        self.factory = server
        self.connection = ClientConnection()

    @override
    def isSecure(self) -> bool:
        return False  # the server names the scheme; Twisted would look for a transport of its own

    @override
    def lineLengthExceeded(self, line: bytes) -> None:
        if self._receivedHeaderSize == 0:  # still in the request line
            self.refuse(414, f"the request line is longer than {self.totalHeadersSize} bytes")
        else:
            self._refuse_large_head()

    @override
    def _respondToBadRequestAndDisconnect(self) -> None:
        if self._receivedHeaderSize > self.totalHeadersSize:
            self._refuse_large_head()
        elif self._receivedHeaderCount > self.maxHeaders:
            self.refuse(431, f"the request has more than {self.maxHeaders} headers")
        else:
            self.refuse(400, "malformed request")

    def _refuse_large_head(self) -> None:
        limit = self.totalHeadersSize
        self.refuse(431, f"the request line and headers are larger than {limit} bytes")

    @override
    def allContentReceived(self) -> None:
        # A refused body may end in the bytes that were refused.
        if not self.transport.disconnecting:
            super().allContentReceived()

    def refuse(self, status: int, sentence: str, header: bytes = b"") -> None:
        if self.transport.disconnecting:
            return
        body = error_body(sentence)
        self.transport.write(
            b"HTTP/1.1 %d %s\r\nServer: crush\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\nConnection: close\r\n%s\r\n%s"
            % (status, PHRASES[status], len(body), header, body)
        )
        self.transport.unregisterProducer()
        self.transport.loseWriteConnection()
        asyncio.get_running_loop().call_later(REFUSED_SECONDS, self.transport.abortConnection)

    def check_idle(self) -> None:
        """Closes a connection without a complete request. Is called once a second."""
        transport = self.transport
        transport.idle_seconds += 1
        if self._handlingRequest:
            transport.idle_seconds = 0
        elif transport.idle_seconds > self.factory.idle_seconds and transport.flow.is_stuck():
            transport.drop()  # nothing is unsent, or the peer does not read it

    def close_when_idle(self) -> None:
        """Accepts no further request on this connection."""
        self.persistent = 0
        if not self.requests:
            self.loseConnection()
