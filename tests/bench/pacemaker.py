"""How late this process itself is: a figure below that is noise."""

import asyncio
import time
from types import TracebackType
from typing import Self

from tests.bench.distribution import Distribution, distribution

_EVERY_SECONDS = 0.005


class Pacemaker:
    """Wakes 200 times a second while it is entered, and notes by how much it overslept."""

    def __init__(self) -> None:
        self._late_ms: list[float] = []
        self._due = 0.0
        self._handle: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Self:
        self._next()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._handle is not None:
            self._handle.cancel()

    def _next(self) -> None:
        self._due = time.perf_counter() + _EVERY_SECONDS
        self._handle = asyncio.get_running_loop().call_later(_EVERY_SECONDS, self._beat)

    def _beat(self) -> None:
        self._late_ms.append((time.perf_counter() - self._due) * 1000)
        self._next()

    @property
    def lateness(self) -> Distribution | None:
        return distribution(self._late_ms)
