"""The interface of background jobs for tools. Independent of their host and their storage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from agents.states import JobState
from agents.tools.shell.command import Running
from agents.tools.shell.output import WatchedOutput


class JobRefused(Exception):
    """The request failed. The message gives the reason and returns to the model."""


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
    state: str  # of ``JobState``
    exit_code: int | None
    output: str

    @property
    def is_running(self) -> bool:
        return self.state == JobState.RUNNING


class Jobs(Protocol):
    """The background jobs of one workspace."""

    async def start(self, order: JobOrder) -> str:
        """Starts a job and returns its id. A cancel ends the job.

        Raises ``JobRefused`` or ``ProcessFailed``.
        """
        ...

    async def adopt(self, order: JobOrder, running: Running, output: WatchedOutput) -> str:
        """Turns a running command into a job and returns its id.

        Raises ``JobRefused``; the caller then still owns the command.
        """
        ...

    async def report(self, shell_id: str, *, wait_seconds: float = 0.0) -> JobReport:
        """Reports on a job, after waiting for its end. Raises ``JobRefused`` for an unknown id."""
        ...

    async def kill(self, shell_id: str) -> JobReport:
        """Ends a job and returns its state before the call. Raises ``JobRefused``."""
        ...


class NoJobs:
    """A ``Jobs`` that refuses every job, for contexts without background jobs."""

    _WHY = "Background jobs are not available here: run the command without run_in_background."

    async def start(self, order: JobOrder) -> str:  # noqa: ARG002  as `Jobs` has it
        raise JobRefused(self._WHY)

    async def adopt(self, order: JobOrder, running: Running, output: WatchedOutput) -> str:  # noqa: ARG002  as `Jobs` has it
        raise JobRefused(self._WHY)

    async def report(self, shell_id: str, *, wait_seconds: float = 0.0) -> JobReport:  # noqa: ARG002  as `Jobs` has it
        raise JobRefused(self._WHY)

    async def kill(self, shell_id: str) -> JobReport:  # noqa: ARG002  as `Jobs` has it
        raise JobRefused(self._WHY)
