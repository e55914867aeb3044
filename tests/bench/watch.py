"""What one subscriber sees: the lag of each new word, and when each run began and ended.

A stamped word is `@` and sixteen digits, the microsecond at which the model sent it, and a space:
always 18 bytes. So a stream is read with byte searches, and nothing is decoded.
"""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, field

STAMP = re.compile(rb"@(\d{16})")
_WORD_BYTES = 18


@dataclass(slots=True)
class Watch:
    """Filled by a wire's reader, waited on by a scenario."""

    lags_ms: list[float] = field(default_factory=list)
    words: dict[str, int] = field(default_factory=dict)  # by session
    first: dict[str, float] = field(default_factory=dict)  # time.time() of the first word
    done: dict[str, float] = field(default_factory=dict)
    payload_bytes: int = 0
    broken: int = 0
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def snapshot(self, session: str, line: bytes, at: float) -> None:
        """`line` holds the whole text so far; words already seen are skipped."""
        start, last = line.find(b"@"), line.rfind(b"@")
        if start < 0:
            return
        seen = self.words.get(session, 0)
        if (last - start) % _WORD_BYTES == 0:
            count = (last - start) // _WORD_BYTES + 1
            stamps = [
                line[start + _WORD_BYTES * i + 1 : start + _WORD_BYTES * i + 17]
                for i in range(seen, count)
            ]
        else:  # something between the words: look at each
            stamps = STAMP.findall(line)[seen:]
        self.new_words(session, stamps, at)

    def new_words(self, session: str, stamps: list[bytes], at: float) -> None:
        """Stamps that were not seen before."""
        if not stamps:
            return
        try:
            self.lags_ms += [(at - int(stamp) / 1e6) * 1000 for stamp in stamps]
        except ValueError:
            self.broken += 1
            return
        self.words[session] = self.words.get(session, 0) + len(stamps)
        if session not in self.first:
            self.first[session] = at
            self._news.set()

    def run_ended(self, session: str, at: float) -> None:
        self.done.setdefault(session, at)
        self._news.set()

    async def wait(self, ready: Callable[["Watch"], bool], timeout: float) -> bool:
        """Whether it became so in time."""
        try:
            async with asyncio.timeout(timeout):
                while not ready(self):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return False
        return True

    @property
    def word_count(self) -> int:
        return sum(self.words.values())
