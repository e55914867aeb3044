"""What a connection has sent and its application has not yet taken, bounded.

Above the limits the socket is not read any more, until half of it was taken.
"""

from __future__ import annotations

import asyncio
from typing import Any

from typing_extensions import override

MESSAGES = 32
BYTES = 1024 * 1024


class Inbox(asyncio.Queue[dict[str, Any]]):
    """``transport`` is set by a protocol whose peer may send at any time."""

    transport: Any = None
    _held = 0
    _is_paused = False

    @override
    def _put(self, item: dict[str, Any]) -> None:
        super()._put(item)
        self._held += _size(item)
        if self.transport is not None and (self.qsize() > MESSAGES or self._held > BYTES):
            self._is_paused = True
            self.transport.pauseProducing()

    @override
    def _get(self) -> dict[str, Any]:
        item: dict[str, Any] = super()._get()
        self._held -= _size(item)
        if self._is_paused and self.qsize() <= MESSAGES // 2 and self._held <= BYTES // 2:
            self._is_paused = False
            self.transport.resumeProducing()
        return item


def _size(item: dict[str, Any]) -> int:
    return len(item.get("text") or item.get("bytes") or "")
