"""Hosts the commands that run in the background of this process, jobs and user commands.

There is one host in a process. Each command is recorded with pid, start time and mark
before it does anything. It ends with its workspace, with its row, and with this process.
Commands that a dead server left are ended by another server, or at the next start.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias, TypeVar

from agents.jobs.rows import (
    JobRow,
    RecordedJob,
    kill_job,
    messages_gone,
    running_elsewhere,
    to_be_ended,
)
from agents.jobs.shell_command import settle_lost
from agents.tools.shell import identity
from agents.tools.shell.command import Running
from agents.tools.shell.output import WatchedOutput
from workspaces.log.errors import ShuttingDown
from workspaces.log.reader import read
from workspaces.log.writer import writer
from workspaces.tasks import wait_until_set

logger = logging.getLogger(__name__)

# Called with new output, and at the end with the exit code. The calls never overlap.
OnOutput: TypeAlias = Callable[[], Awaitable[None]]
OnEnd: TypeAlias = Callable[[int], Awaitable[None]]


@dataclass(slots=True)
class Hosted:
    row: JobRow
    running: Running
    output: WatchedOutput
    is_users: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)  # set when its end is stored
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def id(self) -> str:
        return self.row.id

    @property
    def workspace_id(self) -> str:
        return self.row.workspace_id

    async def follow(self, *, on_output: OnOutput, on_end: OnEnd, every_seconds: float) -> None:
        """Follows the command until ``on_end`` has returned. Cancelling ends the command."""
        self.output.watch(self.changed.set, every_seconds=every_seconds)
        reporting = asyncio.create_task(self._report(on_output, every_seconds))
        exit_code = 137
        try:
            exit_code = await self.running.finish()
        finally:
            self.output.unwatch()
            reporting.cancel()
            await asyncio.gather(reporting, return_exceptions=True)
            try:
                await on_end(exit_code)
            finally:
                self.ended.set()

    async def _report(self, on_output: OnOutput, every_seconds: float) -> None:
        while True:
            await self.changed.wait()
            self.changed.clear()
            try:
                await on_output()
            except Exception as error:  # noqa: BLE001  the end stores the whole output again
                logger.warning("a command's output was not kept: %s", type(error).__name__)
            await asyncio.sleep(every_seconds)


T = TypeVar("T")

LOOK_SECONDS = 0.5  # between two reads of the rows, which other processes change
LOST_SECONDS = 5.0  # between two searches for the commands of dead servers


class JobHost:
    def __init__(self) -> None:
        self._hosted: dict[str, Hosted] = {}
        self._beginning: Counter[tuple[str, bool]] = Counter()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._looking: asyncio.Task[None] | None = None
        self._soon = asyncio.Event()
        self._is_stopping = False
        self.instance = ""
        self.server_mark = ""

    async def start(self, *, server_mark: str, is_alone: bool) -> None:
        """Prepares the host for its first command.

        ``is_alone``: no other server works on this data, so commands of others are leftovers.
        """
        self._is_stopping = False
        self.server_mark = server_mark
        self.instance, _ = await asyncio.gather(
            asyncio.to_thread(identity.this_server), asyncio.to_thread(identity.this_host)
        )
        _ = self.spawn(self._end_lost_forever(is_alone=is_alone))

    @property
    def is_stopping(self) -> bool:
        return self._is_stopping

    def has_room(self, workspace_id: str, *, is_users: bool = False, most: int) -> bool:
        running = sum(
            job.workspace_id == workspace_id and job.is_users is is_users
            for job in self._hosted.values()
        )
        return running + self._beginning[workspace_id, is_users] < most

    def begin(
        self, workspace_id: str, work: Coroutine[Any, Any, T], *, is_users: bool = False
    ) -> asyncio.Task[T]:
        """Starts work that will ``take`` a command, in a task that outlives its caller."""

        async def begun() -> T:
            self._beginning[workspace_id, is_users] += 1
            try:
                return await work
            finally:
                self._beginning[workspace_id, is_users] -= 1
                self._beginning += Counter()  # drops zero counts

        return self.spawn(begun())

    def find(self, job_id: str) -> Hosted | None:
        return self._hosted.get(job_id)

    def take(self, job: Hosted, *, on_output: OnOutput, on_end: OnEnd, every: float) -> None:
        """Follows a recorded command to its end."""
        self._hosted[job.id] = job
        work = job.follow(on_output=on_output, on_end=on_end, every_seconds=every)
        _ = self.spawn(self._follow(job, work))
        if self._looking is None or self._looking.done():
            self._looking = self.spawn(self._look_forever())
        if self._is_stopping:
            job.running.end()

    def look_soon(self) -> None:
        """Makes the host read the rows now, because they were changed."""
        self._soon.set()

    # -- as a workspace's service

    async def open(self, workspace_id: str) -> None:
        """Does nothing: no command starts with a workspace."""

    def hosted(self) -> frozenset[str]:
        return frozenset(job.workspace_id for job in self._hosted.values())

    async def close(self, workspace_id: str) -> None:
        jobs = [job for job in self._hosted.values() if job.workspace_id == workspace_id]
        if jobs:
            await self._kill_all(jobs)

    async def stop(self) -> None:
        """Ends all commands and tasks, because the process stops."""
        self._is_stopping = True
        await self._kill_all(list(self._hosted.values()))
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def users_commands(self) -> list[Hosted]:
        """Returns the user commands that run in this process."""
        return [job for job in self._hosted.values() if job.is_users]

    async def end_users_commands(self) -> None:
        """Ends the user commands before the process stops, because requests wait for them."""
        self._is_stopping = True
        await self._kill_all(self.users_commands())

    async def kill(self, job: Hosted) -> None:
        """Ends the command and returns when its end is stored."""
        try:
            await writer.write(job.workspace_id, lambda tx: kill_job(tx, job.id))
        finally:
            job.running.end()
        await job.ended.wait()

    async def _kill_all(self, jobs: list[Hosted]) -> None:
        for outcome in await asyncio.gather(*map(self.kill, jobs), return_exceptions=True):
            if isinstance(outcome, Exception):
                logger.error("a command's end could not be stored", exc_info=outcome)

    # -- in the background

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _follow(self, job: Hosted, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except ShuttingDown:
            logger.info("the end of a command is left for the next start", extra={"job": job.id})
        except Exception:
            logger.exception("the end of a command could not be stored", extra={"job": job.id})
        finally:
            self._hosted.pop(job.id, None)

    async def _look_forever(self) -> None:
        while self._hosted:
            await wait_until_set(self._soon, seconds=LOOK_SECONDS)
            self._soon.clear()
            try:
                await self._look()
            except Exception:
                logger.exception("looking for ended commands failed; the next round tries again")

    async def _look(self) -> None:
        users = [job.id for job in self._hosted.values() if job.is_users]
        ids = {*await read(to_be_ended, self.instance), *await read(messages_gone, users)}
        await self._kill_all([job for job in self._hosted.values() if job.id in ids])

    async def _end_lost_forever(self, *, is_alone: bool) -> None:
        while True:
            try:
                await self.end_lost(is_alone=is_alone)
            except ShuttingDown:
                return
            except Exception:
                logger.exception("looking for lost commands failed; the next round tries again")
            else:
                if is_alone:  # no other server can leave more
                    return
            await asyncio.sleep(LOST_SECONDS)

    async def end_lost(self, *, is_alone: bool) -> None:
        """Ends the processes of commands whose server died, and writes their ends."""
        for job in await read(running_elsewhere, self.instance):
            if is_alone or await asyncio.to_thread(_is_lost, job):
                await self.settle(job)

    async def settle(self, job: RecordedJob) -> None:
        is_here = job.host == await asyncio.to_thread(identity.this_host)
        if is_here and await asyncio.to_thread(
            identity.end_recorded, job.pid, job.pid_started, job.process_mark
        ):
            logger.warning("a command of a server that died was ended", extra={"job": job.id})
        await writer.write(job.workspace_id, lambda tx: settle_lost(tx, job.workspace_id, job.id))


def _is_lost(job: RecordedJob) -> bool:
    return job.host == identity.this_host() and not identity.is_server_alive(job.instance)


@cache
def job_host() -> JobHost:
    """Returns the job host of this process."""
    return JobHost()
