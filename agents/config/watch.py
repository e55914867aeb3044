"""Sees that a configuration file of an open workspace has changed, and has clients told.

One watch for a process. Where the kernel gives none, and now and then anyway, files
are looked at: a look is a stat of each. What a change means is found by the cache.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable

from agents.config.cache import configs
from agents.config.file_watch import CannotWatch, FileWatch
from agents.config.stored.changes import announce, open_ids
from agents.config.trust.requests import keep_trust_request
from agents.config.watched import Watched, watched
from workspaces.storage.errors import ShuttingDown, WorkspaceUnknown
from workspaces.storage.reader import read
from workspaces.waiting import wait_until_set

logger = logging.getLogger(__name__)

ROUND_SECONDS = 2.0  # workspaces are also opened by other processes
LOOK_SECONDS = 15.0  # at all files, watched or not: some file systems tell nothing
RETRY_SECONDS = 60.0  # a kernel that refused a watch may give one later

MakeWatch = Callable[[Iterable[str], Callable[[frozenset[str]], None]], FileWatch]
_NOTHING = Watched(frozenset(), {}, frozenset())


class ConfigWatch:
    """Runs in the process that works; hears of openings from whoever calls ``open``."""

    def __init__(self, *, polls: bool = False, make_watch: MakeWatch = FileWatch) -> None:
        self._polls = polls
        self._make_watch = make_watch
        self._watch: FileWatch | None = None
        self._watched = _NOTHING
        self._known: set[str] = set()
        self._files_of: dict[str, tuple[str, ...]] = {}
        self._changed: set[str] = set()  # paths
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._looked_at = 0.0
        self._refused_at: float | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="config-watch")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._watch is not None:
            await asyncio.to_thread(self._watch.stop)

    def wake(self) -> None:
        """Looks at once. The cache of configurations calls it for a change that it has found."""
        self._wake.set()

    # -- what a process tells its services

    async def open(self, workspace_id: str) -> None:
        if workspace_id not in self._known:
            self._wake.set()

    async def close(self, workspace_id: str) -> None:
        if workspace_id in self._known:
            self._wake.set()

    def hosted(self) -> frozenset[str]:
        return frozenset()  # it finds by itself which are closed

    # -- the rounds

    async def _run(self) -> None:
        while True:
            try:
                await self._round()
            except ShuttingDown:
                return
            except Exception:
                logger.exception("looking after configuration files failed; it is tried again")
            await wait_until_set(self._wake, seconds=ROUND_SECONDS)

    async def _round(self) -> None:
        self._wake.clear()
        now = time.monotonic()
        ids = set(await read(open_ids))
        new = ids - self._known
        self._known = ids
        for workspace_id in new:
            await self._look(workspace_id, newest=False)  # what its clients were shown
        changed, self._changed = self._changed, set()
        due = self._concerned(changed) & ids
        is_due = now - self._looked_at >= (LOOK_SECONDS if self._watch else ROUND_SECONDS)
        turned = bool(changed & self._watched.turning_points)
        await self._rewatch(turned=turned, force=is_due)
        due |= new  # they may have changed while nothing watched them
        if is_due:
            self._looked_at = now
            due = ids
        for workspace_id in due:
            await self._look(workspace_id)
        await self._announce()

    def _concerned(self, paths: set[str]) -> set[str]:
        concerned: set[str] = set()
        for path in paths:
            concerned |= self._watched.files.get(path, frozenset())
        if paths & self._watched.turning_points:
            return set(self._known)
        return concerned

    async def _look(self, workspace_id: str, *, newest: bool = True) -> None:
        try:
            cache = configs()
            look = cache.newest_config_of if newest else cache.config_of
            await keep_trust_request(workspace_id, await look(workspace_id))
        except WorkspaceUnknown:
            return  # its row is gone
        except ShuttingDown:
            raise
        except Exception:
            # The others are looked at all the same.
            logger.exception("a configuration failed to load", extra={"workspace": workspace_id})

    async def _announce(self) -> None:
        if not configs().untold:
            return
        # Not while somebody changes stored files: they tell of it themselves.
        async with configs().changing:
            await announce(sorted(configs().untold))

    # -- the watch

    async def _rewatch(self, *, turned: bool, force: bool) -> None:
        """Watches the folders of what is known now. ``turned``: one of them may be another."""
        files_of = {one: configs().files_of(one) for one in self._known}
        if files_of == self._files_of and not turned and not force:
            return
        self._files_of = files_of
        if self._polls:
            return
        before = self._watch
        folders = self._watched.folders
        self._watched = await asyncio.to_thread(watched, files_of)
        is_watching = before is not None and before.is_alive and not turned
        if self._watched.folders == folders and (is_watching or not folders):
            return
        if self._refused_at is not None and time.monotonic() - self._refused_at < RETRY_SECONDS:
            return
        # The new one first: there is no moment in which nothing watches.
        self._watch = None
        if self._watched.folders:
            self._watch = await self._new_watch(self._watched.folders)
        if before is not None:
            await asyncio.to_thread(before.stop)

    async def _new_watch(self, folders: frozenset[str]) -> FileWatch | None:
        loop = asyncio.get_running_loop()

        def heard(paths: frozenset[str]) -> None:
            try:
                loop.call_soon_threadsafe(self._hear, paths)
            except RuntimeError:
                return  # the loop has ended

        try:
            watch = await asyncio.to_thread(self._make_watch, folders, heard)
        except CannotWatch as reason:
            if self._refused_at is None:
                message = (
                    "configuration files cannot be watched (%s): they are looked at every %g s"
                )
                logger.warning(message, reason, ROUND_SECONDS)
            self._refused_at = time.monotonic()
            return None
        self._refused_at = None
        return watch

    def _hear(self, paths: frozenset[str]) -> None:
        """In the loop. Folders such as the user's home are busy: most paths concern nobody."""
        mine = {
            path
            for path in paths
            if path in self._watched.files or path in self._watched.turning_points
        }
        if mine:
            self._changed |= mine
            self._wake.set()
