"""Hosts the commands that run in the background of this process, jobs and user commands.

There is one host in a process. Each command is recorded with pid, start time and mark
before it does anything. It ends with its workspace and with its row. When this process
ends, its supervisor keeps it where that is possible (``adoption.py``), for the next server.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from agents.jobs.rows import (
    JobRow,
    kill_job,
    messages_gone,
    running_elsewhere,
    to_be_ended,
    unended_tokens,
)
from agents.tools.shell import identity, kept
from agents.tools.shell.command import CommandLeft, Running
from agents.tools.shell.output import WatchedOutput
from workspaces.log.errors import ShuttingDown
from workspaces.log.reader import read
from workspaces.log.timestamps import now_ms
from workspaces.log.writer import writer
from workspaces.placement.hosts import AbandonedHosts
from workspaces.queries.processes import live_hosts
from workspaces.tasks import wait_until_set

logger = logging.getLogger(__name__)

# Called with new output, and at the end with the exit code. The calls never overlap.
OnOutput: TypeAlias = Callable[[], Awaitable[None]]
OnEnd: TypeAlias = Callable[[int], Awaitable[None]]
# Takes a job of a dead server, or stores that it has ended.
Settle: TypeAlias = Callable[[JobRow], Awaitable[None]]


@dataclass(slots=True)
class Hosted:
    row: JobRow
    running: Running
    output: WatchedOutput
    is_users: bool = False
    kept_path: str = ""  # of the file that the supervisor continues; empty if it does not
    is_left: bool = False  # it continues without this process
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
        except CommandLeft:
            self.is_left = True
        finally:
            self.output.unwatch()
            reporting.cancel()
            await asyncio.gather(reporting, return_exceptions=True)
            try:
                await (self._leave(on_output) if self.is_left else on_end(exit_code))
                if self.kept_path and not self.is_left:
                    await asyncio.to_thread(kept.delete, self.kept_path)
            finally:
                self.ended.set()

    async def _leave(self, on_output: OnOutput) -> None:
        try:
            await self.save()
            await on_output()
        finally:
            self.running.hand_over()

    async def save(self) -> None:
        """Stores the output for the supervisor, which continues it after this process."""
        if self.kept_path:
            with contextlib.suppress(OSError):
                encoded = self.output.kept.encode()
                await asyncio.to_thread(kept.save, self.kept_path, encoded)

    async def _report(self, on_output: OnOutput, every_seconds: float) -> None:
        while True:
            await self.changed.wait()
            self.changed.clear()
            try:
                await self.save()  # first, so that nothing is shown that a crash could lose
                await on_output()
            except Exception as error:  # noqa: BLE001  the end stores the whole output again
                logger.warning("a command's output was not kept: %s", type(error).__name__)
            await asyncio.sleep(every_seconds)


T = TypeVar("T")

LOOK_SECONDS = 0.5  # between two reads of the rows, which other processes change
LOST_SECONDS = 5.0  # between two searches for the commands of dead servers


@dataclass(frozen=True, slots=True)
class Keeping:
    """Whether the commands of this process outlive it."""

    folder: Path = Path()  # of their files
    seconds: float = 0.0  # without a server, after which they end; 0: they end with the process
    is_temporary: bool = False  # only commands of other processes outlive this one, too


class JobHost:
    def __init__(self) -> None:
        self._abandoned = AbandonedHosts(0.0)
        self._keeping = Keeping()
        self._settle: Settle | None = None
        self._hosted: dict[str, Hosted] = {}
        self._beginning: Counter[tuple[str, bool]] = Counter()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._looking: asyncio.Task[None] | None = None
        self._soon = asyncio.Event()
        self._settling = asyncio.Lock()
        self._is_stopping = False
        self.instance = ""
        self.server_mark = ""

    async def start(
        self,
        *,
        server_mark: str,
        is_alone: bool,
        settle: Settle,
        keeping: Keeping | None = None,
        lost_after_seconds: float = 300.0,
    ) -> None:
        """Prepares the host for its first command.

        ``is_alone``: no other server works on this data, so commands of others are leftovers.
        ``lost_after_seconds``: of other hosts without a process.
        """
        self._abandoned = AbandonedHosts(lost_after_seconds)
        self._is_stopping = False
        self._settle = settle
        self._keeping = keeping or Keeping()
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
            if job.kept_path:
                job.running.leave()
            else:
                job.running.end()

    @property
    def kept_folder(self) -> Path:
        return self._keeping.folder

    def kept_path(self, token: str) -> str:
        """Returns the file of a command of another process; empty if it ends with this one."""
        return str(self._keeping.folder / token) if token and self._keeping.seconds else ""

    def new_token(self) -> str:
        return secrets.token_hex(16) if self._keeps_new else ""

    @property
    def _keeps_new(self) -> bool:
        return bool(self._keeping.seconds) and not self._keeping.is_temporary and kept.AVAILABLE

    async def keep(self, job: Hosted) -> None:
        """Lets a command outlive this process, where its supervisor can keep it."""
        if not job.row.token or not job.running.pid:
            return
        path = self.kept_path(job.row.token)
        order = kept.KeepOrder(job.row.token, job.row.process_mark, self._keeping.seconds)
        try:
            file = await asyncio.to_thread(kept.create, path)
        except OSError as error:
            logger.warning("a command cannot outlive the server: %s", error.strerror)
            return
        try:
            await asyncio.to_thread(kept.overwrite, file, job.output.kept.encode())
            if await job.running.keep(order, file):
                job.kept_path = path
        except OSError as error:
            logger.warning("a command cannot outlive the server: %s", error.strerror)
        finally:
            os.close(file)

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
        """Leaves or ends all commands, and ends all tasks, because the process stops."""
        self._is_stopping = True
        await self._part_with(list(self._hosted.values()))
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def users_commands(self) -> list[Hosted]:
        """Returns the user commands that run in this process."""
        return [job for job in self._hosted.values() if job.is_users]

    async def stop_users_commands(self) -> None:
        """Leaves or ends the user commands before the process stops: requests wait for them."""
        self._is_stopping = True
        await self._part_with(self.users_commands())

    async def _part_with(self, jobs: list[Hosted]) -> None:
        for job in jobs:
            if job.kept_path:
                job.running.leave()
        ends = [job.ended.wait() for job in jobs if job.kept_path]
        await asyncio.gather(self._kill_all([job for job in jobs if not job.kept_path]), *ends)

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
        ended = await read(to_be_ended, self.instance, list(self._hosted))
        ids = {*ended, *await read(messages_gone, users)}
        await self._kill_all([job for job in self._hosted.values() if job.id in ids])

    async def _end_lost_forever(self, *, is_alone: bool) -> None:
        while True:
            try:
                await self.end_lost(is_alone=is_alone)
                await self._forget_ended()
            except ShuttingDown:
                return
            except Exception:
                logger.exception("looking for lost commands failed; the next round tries again")
            else:
                if is_alone:  # no other server can leave more
                    return
            await asyncio.sleep(LOST_SECONDS)

    async def end_lost(self, *, is_alone: bool) -> None:
        """Takes the commands of servers that died, or writes their ends."""
        async with self._settling:
            jobs = await read(running_elsewhere, self.instance)
            abandoned = frozenset[str]()
            if not is_alone:
                here = await asyncio.to_thread(identity.this_host)
                others = {job.host for job in jobs} - {here}
                live = await read(live_hosts, now_ms()) if others else ()
                now = asyncio.get_running_loop().time()
                abandoned = self._abandoned.find(others, live, now)
            for job in jobs:
                if is_alone or job.host in abandoned or await asyncio.to_thread(_is_lost, job):
                    await self._settle_job(job)

    async def _forget_ended(self) -> None:
        """Deletes the files of commands without an unended row, which ends those that still run.

        The row of a command is older than its file.
        """
        folder = str(self.kept_folder)
        found = await asyncio.to_thread(kept.tokens, folder) if self._keeping.seconds else set()
        for token in found - await read(unended_tokens) if found else ():
            await asyncio.to_thread(kept.delete, str(self.kept_folder / token))

    async def _settle_job(self, job: JobRow) -> None:
        if self._settle is not None and not self._is_stopping:
            await self._settle(job)


def _is_lost(job: JobRow) -> bool:
    return job.host == identity.this_host() and not identity.is_server_alive(job.instance)


@cache
def job_host() -> JobHost:
    """Returns the job host of this process."""
    return JobHost()
