"""A child that accepts work: its connection, and its process if this process started it."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from dataclasses import dataclass, field, replace
from pathlib import Path

from agents.fleet import records
from agents.fleet.parent.assignment import ChildAssignment
from agents.fleet.parent.connection import FrameConnection
from agents.fleet.parent.outcome import ChildOutcome, Ending, Listener, Order, RunLimits
from agents.fleet.parent.process import ChildProcess

_EXIT_SECONDS = 1.0
_STDERR_SHOWN = 1000


@dataclass(slots=True)
class RunningChild:
    """A connected child, which performs one assignment at a time."""

    agent_id: str
    role: str
    endpoint: str
    connection: FrameConnection
    process: ChildProcess | None = None
    fabric: Path | None = None  # the folder of its record, if we remove it
    is_reusable: bool = False
    runs: int = 0
    key: str = field(default_factory=lambda: uuid.uuid4().hex)

    def assignment(
        self, order: Order, *, listener: Listener, limits: RunLimits | None = None
    ) -> ChildAssignment:
        """Returns an assignment for ``run``, through which callers can steer or cancel it."""
        return ChildAssignment(self.connection, order, listener=listener, limits=limits)

    async def run(self, assignment: ChildAssignment) -> ChildOutcome:
        """Returns the assignment's outcome, and how the child ended if it died."""
        self.runs += 1
        outcome = await assignment.run()
        process = self.process
        if outcome.ending is not Ending.LOST or process is None:
            return outcome
        if not await process.wait(within_seconds=_EXIT_SECONDS):
            return outcome
        sentence = f"The sub-agent's process ended with code {process.exit_code}."
        output = (await process.stderr_end())[-_STDERR_SHOWN:]
        return replace(
            outcome, error=f"{sentence} Its last output: {output}" if output else sentence
        )

    async def is_well(self, *, within_seconds: float = 1.0) -> bool:
        """Whether it would accept an assignment. Must not be called while one is running."""
        if self.process is not None and self.process.exit_code is not None:
            return False
        if not self.connection.is_open:
            return False
        return await self.connection.is_answering(within_seconds=within_seconds)

    async def end(self) -> None:
        """Closes the connection, ends our process and removes its record. Callable twice."""
        await self.connection.close()
        if self.process is not None:
            if not self.is_reusable:  # a child for one connection exits by itself
                await self.process.wait(within_seconds=_EXIT_SECONDS)
            await self.process.end()
        if self.fabric is not None:
            with contextlib.suppress(OSError, records.BadRecord):
                await asyncio.to_thread(records.withdraw, self.fabric, self.agent_id)
