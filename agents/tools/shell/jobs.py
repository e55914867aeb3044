"""Background jobs as tools know them. Who hosts them, and where they are stored, is not known here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from agents.tools.shell.running import Running
from agents.tools.shell.watched import WatchedOutput


class JobRefused(Exception):
    """The sentence says why; it goes back to the model."""


@dataclass(frozen=True, slots=True)
class JobOrder:
    command: str
    description: str
    folder: Path
    argv: Sequence[str]
    env: Mapping[str, str] = field(repr=False)
    process_mark: str


@dataclass(frozen=True, slots=True)
class JobReport:
    shell_id: str
    command: str
    description: str
    working_dir: str
    state: str  # running, ended, killed, lost
    exit_code: int | None
    output: str

    @property
    def is_running(self) -> bool:
        return self.state == "running"


class Jobs(Protocol):
    """Those of one workspace."""

    async def start(self, order: JobOrder) -> str:
        """Its id. Raises ``JobRefused`` or ``ProcessFailed``. Cancelling this ends the job."""
        ...

    async def adopt(self, order: JobOrder, running: Running, output: WatchedOutput) -> str:
        """A command that runs already goes on as a job. Raises ``JobRefused``; it stays the caller's."""
        ...

    async def report(self, shell_id: str, *, wait_seconds: float = 0.0) -> JobReport:
        """Waits so long for its end. Raises ``JobRefused`` for an id that is not known."""
        ...

    async def kill(self, shell_id: str) -> JobReport:
        """Ends it; what it was before, when it had ended already. Raises ``JobRefused``."""
        ...


class NoJobs:
    """Where nothing can go on in the background."""

    _WHY = "Background jobs are not available here: run the command without run_in_background."

    async def start(self, order: JobOrder) -> str:  # noqa: ARG002  as `Jobs` has it
        raise JobRefused(self._WHY)

    async def adopt(self, order: JobOrder, running: Running, output: WatchedOutput) -> str:  # noqa: ARG002  as `Jobs` has it
        raise JobRefused(self._WHY)

    async def report(self, shell_id: str, *, wait_seconds: float = 0.0) -> JobReport:  # noqa: ARG002  as `Jobs` has it
        raise JobRefused(self._WHY)

    async def kill(self, shell_id: str) -> JobReport:  # noqa: ARG002  as `Jobs` has it
        raise JobRefused(self._WHY)
