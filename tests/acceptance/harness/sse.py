"""Server-sent events as a client reads them: bytes in, fields out. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Frame:
    """One event of a stream. A comment is a frame too, so that tests can see heartbeats."""

    data: bytes = b""
    id: str | None = None
    event: str | None = None
    comment: str | None = None


class SseParser:
    """Feed it chunks as they come, cut anywhere."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._id: str | None = None
        self._event: str | None = None

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for raw in lines:
            yield from self._line(raw.removesuffix(b"\r"))

    def _line(self, line: bytes) -> Iterator[Frame]:
        if not line:
            if self._data or self._event is not None:
                yield Frame(b"\n".join(self._data), self._id, self._event)
            self._data, self._id, self._event = [], None, None
            return
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"":
                yield Frame(comment=value.decode())
            case b"data":
                self._data.append(value)
            case b"id":
                self._id = value.decode()
            case b"event":
                self._event = value.decode()
            case _:
                pass  # the standard says: ignore fields you do not know
