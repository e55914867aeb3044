"""The interface between the pool and what performs a run, and the runs of this machine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from agents.models import RunKind
from agents.runs.calls.outputs import CallOutputs
from agents.runs.children.child_run import FleetRun
from agents.runs.lease import Lease
from agents.runs.reply import Checkpoints
from agents.runs.rows import Claimed
from agents.runs.run import RunTask
from agents.runs.setup import RunSetup
from agents.runs.steps import OfferedEnd
from agents.runs.title import Side
from workspaces.delivery.hub import Hub


class StartedRun(Protocol):
    """A claimed run that is performed somewhere. Everything is called in the event loop."""

    @property
    def claimed(self) -> Claimed: ...

    @property
    def held(self) -> Lease: ...

    @property
    def is_cancelled(self) -> bool: ...

    def cancel(self) -> None:
        """Cancels the run, also before ``perform``. May be called repeatedly."""

    def hand_over(self) -> None:
        """Releases the run at its next step boundary, if another process can continue it."""

    def offer_end(self) -> OfferedEnd | None:
        """Returns the end of the run for the transaction that cancels it, if the run offers it."""

    def receive_answer(self, call_id: str, *, granted: bool) -> None:
        """Takes the answer to a permission request. A run that is parked meanwhile ignores it."""

    async def perform(self) -> None:
        """Performs the run until it ends, parks or is handed over.

        Raises ``LeaseLost`` when another worker has taken over. If this task is cancelled, it
        leaves nothing running.
        """


class StartRun(Protocol):
    """A place where runs are performed."""

    def __call__(self, claimed: Claimed) -> StartedRun:
        """Returns the run. Its work begins with ``perform``."""


class StartHere:
    """Performs runs in this process, and delegated ones in a sub-agent's process."""

    def __init__(
        self,
        server_mark: str,
        *,
        hub: Hub,
        checkpoints: Checkpoints,
        outputs: CallOutputs,
        setup_of: Callable[[Claimed], Awaitable[RunSetup]],
        side: Side,
    ) -> None:
        """``setup_of`` returns the setup of a run; ``side`` begins work that may outlive it."""
        self._server_mark = server_mark
        self._hub = hub
        self._checkpoints = checkpoints
        self._outputs = outputs
        self._setup_of = setup_of
        self._side = side

    def __call__(self, claimed: Claimed) -> StartedRun:
        if claimed.kind == RunKind.FLEET:
            return FleetRun(
                claimed,
                hub=self._hub,
                checkpoints=self._checkpoints,
                server_mark=self._server_mark,
            )
        return RunTask(
            claimed,
            hub=self._hub,
            checkpoints=self._checkpoints,
            outputs=self._outputs,
            server_mark=self._server_mark,
            setup_of=self._setup_of,
            side=self._side,
        )
