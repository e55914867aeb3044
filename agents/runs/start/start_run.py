"""The interface between the pool and what performs a run, and the runs of this machine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class RunMeans:
    """What every run of a process uses."""

    server_mark: str
    hub: Hub
    checkpoints: Checkpoints
    side: Side  # begins work that may outlive a run


class StartHere:
    """Performs runs in this process, and delegated ones in a sub-agent's process."""

    def __init__(
        self,
        means: RunMeans,
        *,
        outputs: CallOutputs,
        setup_of: Callable[[Claimed], Awaitable[RunSetup]],
    ) -> None:
        """``setup_of`` returns the setup of a run."""
        self._means = means
        self._outputs = outputs
        self._setup_of = setup_of

    def __call__(self, claimed: Claimed) -> StartedRun:
        means = self._means
        if claimed.kind == RunKind.FLEET:
            return FleetRun(
                claimed,
                hub=means.hub,
                checkpoints=means.checkpoints,
                server_mark=means.server_mark,
            )
        return RunTask(
            claimed,
            hub=means.hub,
            checkpoints=means.checkpoints,
            outputs=self._outputs,
            server_mark=means.server_mark,
            setup_of=self._setup_of,
            side=means.side,
        )
