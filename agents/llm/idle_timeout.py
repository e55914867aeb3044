"""Gives up a response that has begun and then says nothing for too long.

aiohttp's own limit sets a timer anew at each read, which was a tenth of what a
word cost. This one looks from time to time whether bytes have come since.
"""

from __future__ import annotations

import asyncio

import aiohttp

LOOKS = 4  # within the time allowed: so much later than it, at most, silence is noticed


class SilenceWatch:
    """From its making to ``stop``: silence is a ``TimeoutError`` of whoever reads the body."""

    __slots__ = ("_content", "_heard", "_loop", "_pause", "_quiet_looks", "_timer")

    def __init__(self, response: aiohttp.ClientResponse, seconds: float) -> None:
        connection = response.connection
        if connection is not None and connection.protocol is not None:
            connection.protocol.read_timeout = None  # its next request sets its own
        self._content = response.content
        self._heard = self._content.total_bytes
        self._quiet_looks = 0
        self._pause = seconds / LOOKS
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(self._pause, self._look)

    def stop(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        heard = self._content.total_bytes
        self._quiet_looks = self._quiet_looks + 1 if heard == self._heard else 0
        self._heard = heard
        if self._quiet_looks < LOOKS:
            self._timer = self._loop.call_later(self._pause, self._look)
        else:
            self._content.set_exception(TimeoutError())
