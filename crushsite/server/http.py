"""HTTP/1.1: a connection and the requests on it, Daphne's and Twisted's, with limits.

A connection refuses what cannot be read. A request limits its body, and writes its response in one
piece where the libraries write several.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import MutableMapping
from http import HTTPStatus
from typing import Any

import orjson
from daphne.http_protocol import HEADER_NAME_RE, WebRequest
from twisted.web import http
from typing_extensions import override

from crushsite.server.transport import CLOCK, Exchange
from workspaces.client_ids import ClientConnection

_HTTPChannel: Any = http.HTTPChannel

# After a refusal we go on reading for a moment, or the peer may never see the answer.
REFUSED_SECONDS = 2.0
# When a client whose large body found no room may try again: most bodies take less.
RETRY_SECONDS = 1
PHRASES = {status.value: status.phrase.encode() for status in HTTPStatus}
_NEVER_IN_VALUES = re.compile(rb"[\r\n\0]")
# Smaller bodies always pass: somebody's uploads must not stop everybody's prompts.
SMALL_BODY = 64 * 1024


class BodyBudget:
    """The bytes of large request bodies that the server holds, over all connections.

    A body takes its bytes as they arrive, and gives them back when its application has ended.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0

    def has_room(self, size: int) -> bool:
        return self.held + size <= self.limit


def error_body(sentence: str) -> bytes:
    return orjson.dumps({"message": sentence})


class HttpRequest(Exchange, WebRequest):  # type: ignore[misc]  # Daphne is untyped
    _response_started: bool
    startedWriting: int  # noqa: N815  Twisted's name
    chunked: int

    def __init__(self, channel: Channel, *args: Any, **kwargs: Any) -> None:
        super().__init__(channel, *args, **kwargs)
        self.flow = channel.transport.flow
        self._received = 0
        self._held = 0  # of the server's budget
        self._headers: list[tuple[bytes, bytes]] = []
        self._is_bodiless = False

    @override
    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:
        # Twisted would parse the query and forms here, which nobody asks it for: a tenth of
        # a request's time went into its reading of the content type.
        self.content.seek(0)
        self.args: dict[bytes, list[bytes]] = {}
        self.method, self.uri, self.clientproto = command, path, version
        self.path = path.partition(b"?")[0]
        self.process()

    @override
    def gotLength(self, length: int | None) -> None:
        if length is not None and length > self.server.body_limit:
            self.channel.refuse_body()
            length = 0
        elif length is not None and length > SMALL_BODY and not self.server.bodies.has_room(length):
            self.channel.refuse_for_now()
            length = 0
        super().gotLength(length)

    @override
    def handleContentChunk(self, data: bytes) -> None:
        self._received += len(data)
        if self._received > self.server.body_limit:
            self.channel.refuse_body()
        elif self._received > SMALL_BODY and not self._hold(self._received - self._held):
            self.channel.refuse_for_now()
        else:
            super().handleContentChunk(data)

    def _hold(self, size: int) -> bool:
        bodies = self.server.bodies
        if not bodies.has_room(size):
            return False
        bodies.held += size
        self._held += size
        return True

    @override
    def release_body(self) -> None:
        self.server.bodies.held -= self._held
        self._held = 0

    # -- the response: one write to the socket where the libraries make several, a turn later

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
        """More of a response that has begun, right now; ``False`` if it must be sent in its turn."""
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
        # An older client's stream ends with its connection.
        if not self.channel.persistent and b"connection" not in names:
            lines.append(b"Connection: close\r\n")
        lines.append(b"\r\n")
        return b"".join(lines)

    @property
    def is_streaming(self) -> bool:
        return bool(self._response_started and self.startedWriting and not self.finished)

    def application_ended(self, *, is_stopping: bool = False) -> None:
        """The application is through and the response is not: it will never be."""
        if self.finished or self.channel is None:
            return
        if self.startedWriting:
            self.channel.transport.cut_off()
        else:
            self._response_started = False
            status = 503 if is_stopping else 500
            sentence = "server is shutting down" if is_stopping else "internal server error"
            self.basic_error(status, b"", sentence)

    @override
    def basic_error(self, status: int, status_text: bytes, body: str) -> None:
        if self._response_started:
            return
        headers = [(b"Content-Type", b"application/json")]
        self.handle_reply({"type": "http.response.start", "status": status, "headers": headers})
        self.handle_reply({"type": "http.response.body", "body": error_body(body)})

    def end_stream(self) -> None:
        """The server stops: the application is told as if its client had left."""
        if self.application_queue is not None:
            self.send_disconnect()


class Channel(_HTTPChannel):  # type: ignore[misc]  # Twisted is untyped here
    requestFactory = HttpRequest  # noqa: N815  Twisted's name
    timeOut = 60  # noqa: N815  Twisted's name: an idle connection is closed
    callLater = staticmethod(CLOCK.callLater)  # noqa: N815  the same
    is_refused = False

    def __init__(self, server: Any) -> None:
        super().__init__()
        self.factory = server
        self.connection = ClientConnection()

    @override
    def lineReceived(self, line: bytes) -> None:
        if self._receivedHeaderSize + len(line) > self.totalHeadersSize:
            self._refuse_head()
        else:
            super().lineReceived(line)

    @override
    def lineLengthExceeded(self, line: bytes) -> None:
        self._refuse_head()

    @override
    def headerReceived(self, line: bytes) -> bool:
        if self._receivedHeaderCount >= self.maxHeaders:
            self._refuse(431, f"the request has more than {self.maxHeaders} headers")
            return False
        return bool(super().headerReceived(line))

    @override
    def allContentReceived(self) -> None:
        # A body may end in the very bytes that it was refused for.
        if not self.is_refused:
            super().allContentReceived()

    def refuse_body(self) -> None:
        limit = self.factory.body_limit
        self._refuse(413, f"the body is larger than {limit} bytes")

    def refuse_for_now(self) -> None:
        """The server holds as many bytes of bodies as it may."""
        sentence = (
            "the server is receiving too many large requests: send this one again in a moment"
        )
        self._refuse(503, sentence, b"Retry-After: %d\r\n" % RETRY_SECONDS)

    def _refuse_head(self) -> None:
        limit = self.totalHeadersSize
        if self._receivedHeaderSize == 0:  # nothing of this request was read before
            self._refuse(414, f"the request line is longer than {limit} bytes")
        else:
            self._refuse(431, f"the request line and headers are larger than {limit} bytes")

    @override
    def _respondToBadRequestAndDisconnect(self) -> None:
        self._refuse(400, "malformed request")

    def _refuse(self, status: int, sentence: str, header: bytes = b"") -> None:
        if self.is_refused:
            return
        self.is_refused = True
        self.setTimeout(None)
        body = error_body(sentence)
        self.transport.write(
            b"HTTP/1.1 %d %s\r\nServer: crush\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\nConnection: close\r\n%s\r\n%s"
            % (status, PHRASES[status], len(body), header, body)
        )
        self.transport.unregisterProducer()
        self.transport.loseWriteConnection()
        asyncio.get_running_loop().call_later(REFUSED_SECONDS, self.transport.abortConnection)

    def close_when_idle(self) -> None:
        """No further request on this connection."""
        self.persistent = 0
        if not self.requests:
            self.loseConnection()
