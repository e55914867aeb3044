"""Keeps what a searcher prints up to a bound, then says that it is enough."""

from __future__ import annotations


class Collector:
    def __init__(self, limit_bytes: int) -> None:
        self._rest = limit_bytes
        self._chunks: list[bytes] = []

    def feed(self, chunk: bytes) -> bool:
        self._chunks.append(chunk[: self._rest])
        self._rest -= len(chunk)
        return self._rest > 0

    def content(self) -> bytes:
        return b"".join(self._chunks)
