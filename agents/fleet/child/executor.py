"""What performs an assignment, and what it may count on."""

from __future__ import annotations

from typing import Protocol

from agents.fleet.child.run_context import RunContext
from agents.fleet.wire import Terminal


class ExecutorFailed(Exception):
    """The assignment cannot be carried out; the sentence is told to the parent."""


class RunExecutor(Protocol):
    """One for a process; ``run`` is called for many assignments at once."""

    async def start(self) -> None:
        """Called once, while the first parents may be served already. May raise."""

    async def run(self, desk: RunContext) -> Terminal:
        """One assignment. Lets ``RunCancelled`` pass, and ends soon after it is cancelled.

        It is aborted by ``asyncio``'s cancel when it does not, and must then leave
        nothing running.
        """

    async def stop(self) -> None:
        """Ends everything that was started. Callable without ``start``."""
