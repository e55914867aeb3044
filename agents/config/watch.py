"""Notices changed configuration files of open workspaces, and has clients notified.

The process has one kernel watch, in a thread of its own. Its reports are hints: files are also
polled at a longer interval, which suffices if the kernel offers no watch. A check takes one stat
for each file. The cache decides whether a change matters.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePath
from typing import Any

from agents.config.cache import configs
from agents.config.edits.changes import announce, open_ids
from agents.config.edits.trust_requests import keep_trust_request
from workspaces.log.errors import ShuttingDown, WorkspaceUnknown
from workspaces.log.reader import read
from workspaces.tasks import wait_until_set

logger = logging.getLogger(__name__)

ROUND_SECONDS = 2.0  # other processes open workspaces too
POLL_SECONDS = 15.0  # checks all files this often: some file systems report no changes
RETRY_SECONDS = 60.0  # after the kernel refused a watch
STEP_MS = 60  # changes are reported after this long without another one,
DEBOUNCE_MS = 300  # and after this long at the latest
BEGIN_MS = 60  # the library reports after this long without a change that it watches
_TRIES = 5


Changes = set[tuple[Any, str]]  # the kind of a change, and the path


@dataclass(frozen=True, slots=True)
class Watched:
    folders: frozenset[str]  # they exist
    # By changed path, the workspaces that it may concern.
    files: Mapping[str, frozenset[str]]
    # When one of these appears or disappears, the watched folders change.
    turning_points: frozenset[str]


def watched(files_of: Mapping[str, Iterable[str]]) -> Watched:
    """Returns what to watch. ``files_of``: the possible configuration files of each workspace."""
    owners: dict[str, set[str]] = {}
    for workspace_id, files in files_of.items():
        for file in files:
            owners.setdefault(file, set()).add(workspace_id)
    for file, ids in list(owners.items()):
        real = _real(file)
        if real != file:
            owners.setdefault(real, set()).update(ids)
    folders: set[str] = set()
    turning_points: set[str] = set()
    for file in owners:
        folder = os.path.dirname(file)  # noqa: PTH120  "" above a bare name
        turning_points.add(folder)
        while not os.path.isdir(folder) and folder not in {"", "/"}:  # noqa: PTH112  pathlib's raises where it may not look
            folder = os.path.dirname(folder)  # noqa: PTH120  the same
            turning_points.add(folder)
        if folder:
            folders.add(folder)
    files = {file: frozenset(ids) for file, ids in owners.items()}
    return Watched(frozenset(folders), files, frozenset(turning_points) - {"/"})


def _real(file: str) -> str:
    """Returns the target of a linked file, because editors write the target."""
    try:
        if Path(file).is_symlink():
            return os.path.realpath(file)
    except (OSError, ValueError):
        pass
    return str(PurePath(file))


class CannotWatch(Exception):
    """The kernel takes no more watches, or the file system has none."""


class FileWatch:
    """Watches folders in a thread of its own, and calls ``on_change`` there.

    Construct it in a thread: it loads a library and calls the kernel. Raises ``CannotWatch``.
    """

    def __init__(self, folders: Iterable[str], on_change: Callable[[frozenset[str]], None]) -> None:
        self._on_change = on_change
        self._stopping = threading.Event()
        self._first, self._changes = self._begin(sorted(folders))
        self._thread = threading.Thread(target=self._listen, name="config-watch", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        """Blocks until its thread has ended. Callable twice."""
        self._stopping.set()
        self._thread.join()

    def _begin(self, folders: Sequence[str]) -> tuple[Changes, Iterator[Changes]]:
        """Returns the first changes, which may be none, once the kernel watches the folders."""
        from watchfiles import watch  # noqa: PLC0415  a server's start must not wait for it

        for _ in range(_TRIES):
            changes = watch(
                # Its own way to leave out what may not be read would swallow other errors too.
                *(folder for folder in folders if os.access(folder, os.R_OK)),
                watch_filter=None,
                debounce=DEBOUNCE_MS,
                step=STEP_MS,
                stop_event=self._stopping,
                rust_timeout=BEGIN_MS,
                yield_on_timeout=True,
                recursive=False,
                raise_interrupt=False,
                debug=False,
                force_polling=False,
                ignore_permission_denied=False,
            )
            try:
                return next(changes, set()), changes
            except FileNotFoundError:
                continue  # a folder was removed just now
            except (OSError, RuntimeError) as error:
                # Its texts name folders and the kernel's reason.
                raise CannotWatch(str(error)) from None
        raise CannotWatch("folders appear and disappear too often")

    def _listen(self) -> None:
        try:
            for changes in chain([self._first], self._changes):
                if changes:
                    self._on_change(frozenset(path for _, path in changes))
        except Exception as error:  # noqa: BLE001  ``is_alive`` shows whatever ends it
            logger.warning("watching configuration files ended: %s", error)


MakeWatch = Callable[[Iterable[str], Callable[[frozenset[str]], None]], FileWatch]
_NOTHING = Watched(frozenset(), {}, frozenset())


class ConfigWatch:
    """Runs in the process that works; other services call ``open`` and ``close``."""

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
        """Starts a check at once. The cache calls this when it has found a change."""
        self._wake.set()

    # -- the interface of a service

    async def open(self, workspace_id: str) -> None:
        if workspace_id not in self._known:
            self._wake.set()

    async def close(self, workspace_id: str) -> None:
        if workspace_id in self._known:
            self._wake.set()

    def hosted(self) -> frozenset[str]:
        return frozenset()  # the rounds find closed workspaces themselves

    # -- the rounds

    async def _run(self) -> None:
        while True:
            try:
                await self._round()
            except ShuttingDown:
                return
            except Exception:
                logger.exception("checking configuration files failed; the next round tries again")
            await wait_until_set(self._wake, seconds=ROUND_SECONDS)

    async def _round(self) -> None:
        self._wake.clear()
        now = time.monotonic()
        ids = set(await read(open_ids))
        new = ids - self._known
        self._known = ids
        for workspace_id in new:
            await self._look(workspace_id, newest=False)  # the configuration that its clients have
        changed, self._changed = self._changed, set()
        due = self._concerned(changed) & ids
        is_due = now - self._looked_at >= (POLL_SECONDS if self._watch else ROUND_SECONDS)
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
            # The other workspaces are checked in any case.
            logger.exception("a configuration failed to load", extra={"workspace": workspace_id})

    async def _announce(self) -> None:
        if not configs().unannounced:
            return
        # Waits while a client changes stored files, because that change notifies clients itself.
        async with configs().changing:
            await announce(sorted(configs().unannounced))

    # -- the watch

    async def _rewatch(self, *, turned: bool, force: bool) -> None:
        """Watches the folders of the known files. ``turned``: a folder may have been replaced."""
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
        # The new watch starts before the old one stops, so that no change is missed.
        self._watch = None
        if self._watched.folders:
            self._watch = await self._new_watch(self._watched.folders)
        if before is not None:
            await asyncio.to_thread(before.stop)

    async def _new_watch(self, folders: frozenset[str]) -> FileWatch | None:
        loop = asyncio.get_running_loop()

        def on_change(paths: frozenset[str]) -> None:
            try:
                loop.call_soon_threadsafe(self._note, paths)
            except RuntimeError:
                return  # the loop has ended

        try:
            watch = await asyncio.to_thread(self._make_watch, folders, on_change)
        except CannotWatch as reason:
            if self._refused_at is None:
                message = "configuration files cannot be watched (%s): they are checked every %g s"
                logger.warning(message, reason, ROUND_SECONDS)
            self._refused_at = time.monotonic()
            return None
        self._refused_at = None
        return watch

    def _note(self, paths: frozenset[str]) -> None:
        """Runs in the loop. Folders such as the user's home are busy: most paths are irrelevant."""
        mine = {
            path
            for path in paths
            if path in self._watched.files or path in self._watched.turning_points
        }
        if mine:
            self._changed |= mine
            self._wake.set()
