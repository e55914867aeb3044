"""The body of an HTTP/1.1 answer, decoded as its bytes arrive. Pure."""


class AnswerReader:
    """Feed it bytes; it takes the head off and gives the body's bytes back, chunks joined."""

    __slots__ = ("_chunked", "_left", "_rest", "complete", "status")

    def __init__(self) -> None:
        self.status = 0
        self.complete = False
        self._rest = b""
        self._left = 0  # bytes still to come: of the body, or of the current chunk
        self._chunked = False

    def feed(self, data: bytes) -> bytes:
        if self._rest:
            data, self._rest = self._rest + data, b""
        if not self.status:
            end = data.find(b"\r\n\r\n")
            if end < 0:
                self._rest = data
                return b""
            self._head(data[:end])
            data = data[end + 4 :]
        return self._chunks(data) if self._chunked else self._plain(data)

    def _head(self, head: bytes) -> None:
        self.status = int(head[9:12])
        lower = head.lower()
        self._chunked = b"transfer-encoding: chunked" in lower
        if self._chunked:
            return
        at = lower.find(b"\r\ncontent-length:")
        if at >= 0:
            self._left = int(lower[at + 17 :].split(b"\r\n", 1)[0])
        elif self.status not in (101, 204):
            self._left = -1  # until the connection closes
        self.complete = self._left == 0 and self.status != 101

    def _plain(self, data: bytes) -> bytes:
        if self._left > 0:
            self._left -= len(data)
            self.complete = self._left <= 0
        return data

    def _chunks(self, data: bytes) -> bytes:
        body: list[bytes] = []
        at = 0
        while at < len(data):
            if self._left == 0:
                end = data.find(b"\r\n", at)
                if end < 0:
                    break
                size = int(data[at:end].split(b";", 1)[0], 16)
                if size == 0:
                    # Complete only with its very last byte: the connection is used again. Servers
                    # send no trailers unless they are asked for.
                    self.complete = data.endswith(b"\r\n\r\n")
                    break
                at = end + 2
                self._left = size + 2  # with the line end after it
            piece = data[at : at + self._left]
            at += len(piece)
            self._left -= len(piece)
            # The last two bytes of a chunk's piece are its line end; it may be cut in the middle.
            body.append(piece[: len(piece) - max(0, 2 - self._left)] if self._left < 2 else piece)
        self._rest = data[at:]
        return b"".join(body)
