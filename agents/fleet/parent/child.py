"""A child that can be given work: its connection, and its process if it is ours."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from dataclasses import dataclass, field, replace
from pathlib import Path

from agents.fleet import records
from agents.fleet.parent.assignment import ChildAssignment
from agents.fleet.parent.connection import ChildConnection
from agents.fleet.parent.outcome import ChildOutcome, Ending, Listener, Order, RunLimits
from agents.fleet.parent.process import ChildProcess

_LEAVES_SECONDS = 1.0
_LAST_WORDS = 1000


@dataclass(slots=True)
class RunningChild:
    """One connection carries one assignment at a time, and many in turn."""

    agent_id: str
    role: str
    endpoint: str
    connection: ChildConnection
    process: ChildProcess | None = None
    fabric: Path | None = None  # where its record lies, if we see to it
    is_reusable: bool = False
    runs: int = 0
    key: str = field(default_factory=lambda: uuid.uuid4().hex)

    def assignment(
        self, order: Order, *, listener: Listener, limits: RunLimits | None = None
    ) -> ChildAssignment:
        """To be run by ``run``; kept by who wants to steer or cancel it."""
        return ChildAssignment(self.connection, order, listener=listener, limits=limits)

    async def run(self, assignment: ChildAssignment) -> ChildOutcome:
        """Its outcome, and if the child died, how."""
        self.runs += 1
        outcome = await assignment.run()
        process = self.process
        if outcome.ending is not Ending.LOST or process is None:
            return outcome
        if not await process.wait(within_seconds=_LEAVES_SECONDS):
            return outcome
        told = f"The sub-agent's process ended with code {process.exit_code}."
        words = (await process.last_words())[-_LAST_WORDS:]
        return replace(outcome, error=f"{told} It said: {words}" if words else told)

    async def is_well(self, *, within_seconds: float = 1.0) -> bool:
        """Whether it would take an assignment now. Not while one is running."""
        if self.process is not None and self.process.exit_code is not None:
            return False
        if not self.connection.is_open:
            return False
        return await self.connection.is_answering(within_seconds=within_seconds)

    async def end(self) -> None:
        """Hangs up; a process of ours is ended, its record withdrawn. Callable twice."""
        await self.connection.close()
        if self.process is not None:
            if not self.is_reusable:  # one that serves one connection leaves by itself
                await self.process.wait(within_seconds=_LEAVES_SECONDS)
            await self.process.end()
        if self.fabric is not None:
            with contextlib.suppress(OSError, records.BadRecord):
                await asyncio.to_thread(records.withdraw, self.fabric, self.agent_id)
