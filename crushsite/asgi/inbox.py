"""The messages that a peer has sent and its application has not read, in bounded memory."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from typing_extensions import override

# Above this many unread bytes a peer waits.
INBOX_BYTES = 1024 * 1024


class Source(Protocol):
    """What stops reading from the peer, with the names that Twisted's transports have."""

    def pauseProducing(self) -> None: ...  # noqa: N802

    def resumeProducing(self) -> None: ...  # noqa: N802


class Inbox(asyncio.Queue[dict[str, Any]]):
    """A queue of ASGI messages.

    With a source, the socket is not read while the queue is full, until it is half empty.
    """

    def __init__(self, source: Source | None = None) -> None:
        super().__init__()
        self._source = source
        self._size = 0
        self._is_paused = False

    @override
    def _put(self, item: dict[str, Any]) -> None:
        super()._put(item)
        self._size += _size(item)
        if self._source is not None and self._size > INBOX_BYTES:
            self._is_paused = True
            self._source.pauseProducing()

    @override
    def _get(self) -> dict[str, Any]:
        item: dict[str, Any] = super()._get()
        self._size -= _size(item)
        if self._source is not None and self._is_paused and self._size <= INBOX_BYTES // 2:
            self._is_paused = False
            self._source.resumeProducing()
        return item


def _size(item: dict[str, Any]) -> int:
    # Small messages count as 32 KiB, so that not many of them wait either.
    return max(len(item.get("text") or item.get("bytes") or ""), INBOX_BYTES // 32)
