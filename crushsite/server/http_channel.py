"""One connection over HTTP/1.1 and what makes it: Twisted's, with bounds.

It knows how full its transport is, refuses what cannot be read, and can be told
that it is to end. What is asked and answered on it is each request's matter.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

from twisted.web import http
from typing_extensions import override

from crushsite.server.http_request import HttpRequest, error_body
from crushsite.server.transport import CLOCK
from workspaces.storage.client_ids import Connection

_HTTPChannel: Any = http.HTTPChannel

# After a refusal we go on reading for a moment, or the peer may never see the answer.
REFUSED_SECONDS = 2.0
# When a client whose large body found no room may try again: most bodies take less.
RETRY_SECONDS = 1


class Channel(_HTTPChannel):  # type: ignore[misc]  # Twisted is untyped here
    requestFactory = HttpRequest  # noqa: N815  Twisted's name
    timeOut = 60  # noqa: N815  Twisted's name: an idle connection is closed
    callLater = staticmethod(CLOCK.callLater)  # noqa: N815  the same
    is_refused = False

    def __init__(self, server: Any) -> None:
        super().__init__()
        self.factory = server
        self.connection = Connection()

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
            % (status, HTTPStatus(status).phrase.encode(), len(body), header, body)
        )
        self.transport.unregisterProducer()
        self.transport.loseWriteConnection()
        asyncio.get_running_loop().call_later(REFUSED_SECONDS, self.transport.abortConnection)

    def close_when_idle(self) -> None:
        """No further request on this connection."""
        self.persistent = 0
        if not self.requests:
            self.loseConnection()
