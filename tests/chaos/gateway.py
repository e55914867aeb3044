"""Requests of clients that go to another web process where one does not answer."""

import asyncio
import random
import time
from types import TracebackType
from typing import Any, Self

import aiohttp

from tests.acceptance.harness.http import Http, UnexpectedStatus
from tests.chaos.findings import Findings

TROUBLE = (aiohttp.ClientError, ConnectionError, TimeoutError)
AWAY = (502, 503, 504, 507)
_REQUEST_SECONDS = 20.0
_PATIENCE_SECONDS = 400.0
_PAUSE_SECONDS = 0.2


class Gateway:
    def __init__(self, urls: list[str], findings: Findings, chance: random.Random) -> None:
        self.webs = [Http(url) for url in urls]
        self._findings = findings
        self._chance = chance
        self.refused = 0
        self.unanswered = 0

    def any_web(self) -> Http:
        return self._chance.choice(self.webs)

    async def call(self, method: str, path: str, body: Any = None, *, expect: int = 200) -> Any:
        """Repeats the request until a web process answers it; it must be one that may be repeated.

        Raises ``UnexpectedStatus`` for other statuses than those of an outage.
        """
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                return await self.any_web().call(
                    method, path, body, expect=expect, timeout=_REQUEST_SECONDS
                )
            except UnexpectedStatus as error:
                if error.status == 500:
                    self._findings.violated("internal error", str(error))
                elif error.status not in AWAY:
                    raise
                self.refused += 1
            except TROUBLE:
                self.unanswered += 1
            if time.monotonic() > deadline:
                raise TimeoutError(f"{method} {path}: no answer within {_PATIENCE_SECONDS:g} s")
            await asyncio.sleep(_PAUSE_SECONDS)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for web in self.webs:
            await web.close()
