"""Notices changed configuration files of open workspaces, and has clients notified.

One kernel watch for the process, with a thread of its own. Its reports are hints: files are
also checked now and then, and always where the kernel gives no watch; a check is one stat a
file. The cache decides what a change means.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from agents.config.cache import configs
from agents.config.edits.changes import announce, open_ids
from agents.config.edits.trust_requests import keep_trust_request
from workspaces.log.errors import ShuttingDown, WorkspaceUnknown
from workspaces.log.reader import read
from workspaces.tasks import wait_until_set

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify

logger = logging.getLogger(__name__)

ROUND_SECONDS = 2.0  # other processes open workspaces too
LOOK_SECONDS = 15.0  # checks all files this often: some file systems report no changes
RETRY_SECONDS = 60.0  # after the kernel refused a watch
STEP_MS = 60  # changes are reported after this long without another one,
DEBOUNCE_MS = 300  # and after this long at the latest
_TRIES = 5


@dataclass(frozen=True, slots=True)
class Watched:
    folders: frozenset[str]  # they exist
    # By changed path, the workspaces that it may concern.
    files: Mapping[str, frozenset[str]]
    # When one of these appears or disappears, the watched folders change.
    turning_points: frozenset[str]


def watched(files_of: Mapping[str, Iterable[str]]) -> Watched:
    """``files_of``: by workspace, the files that may make its configuration."""
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
    """Editors of a linked file write the file that the link names."""
    try:
        if Path(file).is_symlink():
            return os.path.realpath(file)
    except (OSError, ValueError):
        pass
    return str(PurePath(file))


class CannotWatch(Exception):
    """The kernel takes no more watches, or the file system has none."""


def _notify(folders: Sequence[str]) -> RustNotify:
    from watchfiles._rust_notify import RustNotify  # noqa: PLC0415  a server's start must not wait for it

    for _ in range(_TRIES):
        # Its own way to leave out what may not be read would swallow every other error too.
        readable = [folder for folder in folders if os.access(folder, os.R_OK)]
        try:
            return RustNotify(readable, False, False, 300, False, False)
        except FileNotFoundError:
            continue  # one went away just now
        except (OSError, RuntimeError) as error:
            # Its texts name folders and the kernel's reason.
            raise CannotWatch(str(error)) from None
    raise CannotWatch("folders appear and disappear too often")


class FileWatch:
    """Watches folders in a thread of its own, and calls ``on_change`` there.

    Construct it in a thread: it loads a library and calls the kernel. Raises ``CannotWatch``.
    """

    def __init__(self, folders: Iterable[str], on_change: Callable[[frozenset[str]], None]) -> None:
        self._on_change = on_change
        self._stopping = threading.Event()
        self._notify = _notify(sorted(folders))
        self._thread = threading.Thread(target=self._listen, name="config-watch", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        """Blocks until its thread has ended. Callable twice."""
        self._stopping.set()
        self._thread.join()

    def _listen(self) -> None:
        try:
            self._report_all(self._notify)
        except Exception as error:  # noqa: BLE001  ``is_alive`` shows whatever ends it
            logger.warning("watching configuration files ended: %s", error)
        finally:
            self._notify.close()

    def _report_all(self, notify: RustNotify) -> None:
        while not self._stopping.is_set():
            changes = notify.watch(DEBOUNCE_MS, STEP_MS, 0, self._stopping)
            if not isinstance(changes, str):
                self._on_change(frozenset(path for _, path in changes))
            elif changes == "signal":
                return


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
        """Looks at once. The cache of configurations calls it for a change that it has found."""
        self._wake.set()

    # -- the interface of a service

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
                logger.exception("checking configuration files failed; the next round tries again")
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
        if not configs().unannounced:
            return
        # Waits while somebody changes stored files, who notifies clients themselves.
        async with configs().changing:
            await announce(sorted(configs().unannounced))

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
