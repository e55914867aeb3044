"""Reads server-sent events: returns the data of each. Pure; any cut of the bytes is the same."""

from __future__ import annotations


class SseParser:
    def __init__(self) -> None:
        self._rest: list[bytes] = []  # pieces of an unfinished line
        self._data: list[bytes] = []  # data lines of an unfinished event

    def feed(self, chunk: bytes) -> list[bytes]:
        """Returns the data of each event that ended in this chunk."""
        if b"\n" not in chunk:
            self._rest.append(chunk)
            return []
        lines = b"".join([*self._rest, chunk]).split(b"\n")
        self._rest = [lines.pop()]
        done = []
        for line in lines:
            line = line.removesuffix(b"\r")
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line and self._data:
                done.append(b"\n".join(self._data))
                self._data = []
        return done
