"""The Channels worker: hears nudges and wakes the pool. It carries no work itself.

Channels hands messages to a consumer one after another and loses the one in
hand when it dies, so a handler only wakes the claimer, which spawns tasks.
"""

from __future__ import annotations

from typing import Any

from channels.consumer import AsyncConsumer

from agents.runs.pool import RunPool


class NudgeConsumer(AsyncConsumer):
    def __init__(self, *, pool: RunPool) -> None:
        self.pool = pool

    async def run_accepted(self, message: dict[str, Any]) -> None:
        self.pool.hear(message)

    async def run_cancelled(self, message: dict[str, Any]) -> None:
        self.pool.hear(message)
