"""An incremental reader of server-sent events: returns complete data fields.

Pure. Only ``data`` matters to model wires: every provider repeats the event's
name inside the JSON. The result does not depend on where the network cut the
bytes. Line ends may be CR LF, LF or CR; a line and an event are bounded.
"""

from __future__ import annotations

from agents.llm.errors import BrokenStream

EVENT_LIMIT = 4 * 1024 * 1024
BOM = b"\xef\xbb\xbf"


class SseLines:
    def __init__(self, *, limit: int = EVENT_LIMIT) -> None:
        self._limit = limit
        self._rest: list[bytes] = []  # pieces of an unfinished line
        self._rest_size = 0
        self._data: list[bytes] = []  # data lines of an unfinished event
        self._data_size = 0
        self._after_cr = False
        self._begun = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """Returns the data of each event that ended in this chunk. Raises ``BrokenStream``."""
        if self._after_cr or b"\r" in chunk:
            chunk = self._with_plain_ends(chunk)
        elif self._is_one_event(chunk):
            self._begun = True
            return [chunk[6:-2]]
        if b"\n" not in chunk:
            self._keep(chunk)
            return []
        if self._rest:
            self._rest.append(chunk)
            chunk = b"".join(self._rest)
            self._rest.clear()
            self._rest_size = 0
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if rest:
            self._keep(rest)
        if not self._begun:
            self._begun = True
            lines[0] = lines[0].removeprefix(BOM)
        return self._ended_in(lines)

    def _ended_in(self, lines: list[bytes]) -> list[bytes]:
        done: list[bytes] = []
        data = self._data
        for line in lines:
            if line[:6] == b"data: ":
                self._add(line[6:])
            elif not line:
                if data:
                    done.append(data[0] if len(data) == 1 else b"\n".join(data))
                    data.clear()
                    self._data_size = 0
            elif line[:5] == b"data:":
                self._add(line[5:])
            elif line == b"data":
                self._add(b"")
        return done

    def finish(self) -> list[bytes]:
        """Returns the data of a last event without a blank line, which many servers omit."""
        return self.feed(b"\n\n")

    def _is_one_event(self, chunk: bytes) -> bool:
        """Whether the chunk is exactly one event of one line, as almost every chunk is."""
        return (
            not self._rest
            and not self._data
            and chunk[:6] == b"data: "
            and chunk[-2:] == b"\n\n"
            and chunk.find(b"\n") == len(chunk) - 2
            and len(chunk) <= self._limit
        )

    def _add(self, value: bytes) -> None:
        # Counts empty lines too, so that a hostile event of empty lines is bounded.
        self._data_size += len(value) + 1
        if self._data_size > self._limit:
            raise BrokenStream("The provider sent an event that is too large.")
        self._data.append(value)

    def _keep(self, piece: bytes) -> None:
        self._rest_size += len(piece)
        if self._rest_size > self._limit:
            raise BrokenStream("The provider sent a line that is too long.")
        if piece:
            self._rest.append(piece)

    def _with_plain_ends(self, chunk: bytes) -> bytes:
        if not chunk:
            return chunk
        if self._after_cr and chunk[0] == 10:
            chunk = chunk[1:]  # the LF of a CR LF that two chunks share
        self._after_cr = chunk.endswith(b"\r") if chunk else False
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
