"""A person's side of a terminal within the test's process: what is shown there, and keys for it."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import struct
import termios

from crushsite.cli.terminal import UserTerminal


class Seat:
    """A context manager."""

    def __init__(self, *, columns: int = 80, rows: int = 24) -> None:
        self._controller, self._terminal_end = pty.openpty()
        self.resize(columns=columns, rows=rows)
        self.terminal = UserTerminal(self._terminal_end, self._terminal_end)
        self.shown = ""
        self._seen = 0  # up to here ``wait_for`` has looked

    def resize(self, *, columns: int, rows: int) -> None:
        fcntl.ioctl(
            self._terminal_end, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0)
        )

    def type(self, keys: str) -> None:
        os.write(self._controller, keys.encode())

    async def wait_for(self, *texts: str) -> str:
        """What was shown since the last call, up to the first of these that comes."""
        async with asyncio.timeout(10):
            while not (found := self._first_of(texts)):
                await self._read()
        start, self._seen = self._seen, found[1]
        return self.shown[start : found[0]]

    def _first_of(self, texts: tuple[str, ...]) -> tuple[int, int] | None:
        places = ((self.shown.find(text, self._seen), len(text)) for text in texts)
        return min(((at, at + size) for at, size in places if at >= 0), default=None)

    async def answer(self, prompt: str, keys: str) -> str:
        """Types after the prompt has appeared; returns what stood before it."""
        before = await self.wait_for(prompt)
        self.type(keys)
        return before

    def hang_up(self) -> None:
        os.close(self._controller)
        self._controller = os.open(os.devnull, os.O_RDWR)

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        ready = loop.create_future()
        loop.add_reader(self._controller, ready.set_result, None)
        try:
            await ready
        finally:
            loop.remove_reader(self._controller)
        self.shown += (
            os.read(self._controller, 65_536).decode(errors="replace").replace("\r\n", "\n")
        )

    def __enter__(self) -> Seat:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._controller)
        os.close(self._terminal_end)
