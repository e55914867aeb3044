"""The commands that go on in the background of this process, whoever began them.

One host a process. Each command is recorded with pid, start time and mark before
it does anything; it ends with its workspace, with its row, and with this
process. What a server that died left is found at the next one's start.
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
from agents.tools.shell.running import Running
from agents.tools.shell.watched import WatchedOutput
from workspaces.log.errors import ShuttingDown
from workspaces.log.reader import read
from workspaces.log.writer import writer
from workspaces.tasks import wait_until_set

logger = logging.getLogger(__name__)

# Tells of new output, and of the end with its exit code. Called one after the other.
OnOutput: TypeAlias = Callable[[], Awaitable[None]]
OnEnd: TypeAlias = Callable[[int], Awaitable[None]]


@dataclass(slots=True)
class Hosted:
    row: JobRow
    running: Running
    output: WatchedOutput
    is_users: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)  # and its end is stored
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def id(self) -> str:
        return self.row.id

    @property
    def workspace_id(self) -> str:
        return self.row.workspace_id

    async def follow(self, *, on_output: OnOutput, on_end: OnEnd, every_seconds: float) -> None:
        """Until it is gone and its end is told. Cancelling ends it."""
        self.output.watch(self.changed.set, every_seconds=every_seconds)
        telling = asyncio.create_task(self._tell(on_output, every_seconds))
        exit_code = 137
        try:
            exit_code = await self.running.finish()
        finally:
            self.output.unwatch()
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)
            try:
                await on_end(exit_code)
            finally:
                self.ended.set()

    async def _tell(self, on_output: OnOutput, every_seconds: float) -> None:
        while True:
            await self.changed.wait()
            self.changed.clear()
            try:
                await on_output()
            except Exception as error:  # noqa: BLE001  its end tells everything again
                logger.warning("a command's output was not kept: %s", type(error).__name__)
            await asyncio.sleep(every_seconds)


T = TypeVar("T")

LOOK_SECONDS = 0.5  # while something runs: for what other processes wrote into the rows
LOST_SECONDS = 5.0  # how often it is looked for what died servers left


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
        """Before the first command. ``is_alone``: whoever else hosted one has died."""
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
        """Work that will ``take`` a command; it goes on when whoever asked is cancelled."""

        async def begun() -> T:
            self._beginning[workspace_id, is_users] += 1
            try:
                return await work
            finally:
                self._beginning[workspace_id, is_users] -= 1
                self._beginning += Counter()  # without those that are none any more

        return self.spawn(begun())

    def find(self, job_id: str) -> Hosted | None:
        return self._hosted.get(job_id)

    def take(self, job: Hosted, *, on_output: OnOutput, on_end: OnEnd, every: float) -> None:
        """The command is recorded: follow it to its end."""
        self._hosted[job.id] = job
        work = job.follow(on_output=on_output, on_end=on_end, every_seconds=every)
        _ = self.spawn(self._follow(job, work))
        if self._looking is None or self._looking.done():
            self._looking = self.spawn(self._look_forever())
        if self._is_stopping:
            job.running.end()

    def look_soon(self) -> None:
        """Rows were changed."""
        self._soon.set()

    # -- as a workspace's service

    async def open(self, workspace_id: str) -> None:
        """Nothing runs by itself."""

    def hosted(self) -> frozenset[str]:
        return frozenset(job.workspace_id for job in self._hosted.values())

    async def close(self, workspace_id: str) -> None:
        jobs = [job for job in self._hosted.values() if job.workspace_id == workspace_id]
        if jobs:
            await self._kill_all(jobs)

    async def stop(self) -> None:
        """The process stops: its commands with it."""
        self._is_stopping = True
        await self._kill_all(list(self._hosted.values()))
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def users_commands(self) -> list[Hosted]:
        """Those that run here."""
        return [job for job in self._hosted.values() if job.is_users]

    async def end_users_commands(self) -> None:
        """The process stops soon, and requests wait for these."""
        self._is_stopping = True
        await self._kill_all(self.users_commands())

    async def kill(self, job: Hosted) -> None:
        """Returns when it is gone and its end is stored."""
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
                if is_alone:  # nobody else will ever leave any
                    return
            await asyncio.sleep(LOST_SECONDS)

    async def end_lost(self, *, is_alone: bool) -> None:
        """Ends what is left of commands whose server died, and tells their end."""
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
    """The process's own."""
    return JobHost()
