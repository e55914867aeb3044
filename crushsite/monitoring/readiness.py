"""Whether this process can do its work now: the checks behind ``/readyz``.

Each check takes a bounded time and runs at most once at a time, however many requests there are. A
result counts for a moment, so that these requests cannot keep the database busy.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path

from django.conf import settings
from django.db.migrations.recorder import MigrationRecorder

from crushsite.storage import migration_state
from workspaces.log.deadlines import wait_at_most
from workspaces.log.reader import read

logger = logging.getLogger(__name__)

CHECK_SECONDS = 2.0
KEPT_SECONDS = 1.0  # a result is used again for so long

# Returns what fails; nothing if all is well. An exception means that the check itself fails.
Check = Callable[[], Awaitable[Collection[str]]]

DRAINING = "draining"
DATABASE = "database"
MIGRATIONS = "migrations"
CHANNEL_LAYER = "channel_layer"
WORK_FOLDERS = "work_folders"
ROOTS = "roots"


async def _nothing() -> None:
    return None


def _never() -> bool:
    return False


def _none() -> Collection[str]:
    return ()


class BoundedCheck:
    """A check that answers within ``seconds``; after that it fails until it has ended."""

    def __init__(
        self,
        name: str,
        check: Check,
        *,
        seconds: float = CHECK_SECONDS,
        kept_seconds: float = KEPT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._check = check
        self._seconds = seconds
        self._kept_seconds = kept_seconds
        self._clock = clock
        self._running: asyncio.Task[Collection[str]] | None = None
        self._known: tuple[float, Collection[str]] | None = None

    async def failing(self) -> Collection[str]:
        """Returns the names of what fails."""
        if self._known is not None and self._clock() - self._known[0] < self._kept_seconds:
            return self._known[1]
        if self._running is None:
            self._running = asyncio.create_task(self._run(), name=f"check-{self._name}")
        task = self._running
        await asyncio.wait({task}, timeout=self._seconds)
        return task.result() if task.done() else (self._name,)

    async def _run(self) -> Collection[str]:
        try:
            with wait_at_most(self._seconds):
                found: Collection[str] = await self._check()
        except Exception as error:  # noqa: BLE001  whatever it is: this does not work now
            logger.debug("the check of %s failed: %s", self._name, error)
            found = (self._name,)
        finally:
            self._running = None
        self._known = self._clock(), found
        return found


class DatabaseCheck:
    """The database answers, and has the migrations of this program."""

    def __init__(self) -> None:
        self._needed: frozenset[tuple[str, str]] | None = None  # once they were all applied

    async def __call__(self) -> Collection[str]:
        return () if await read(self._is_migrated) else (MIGRATIONS,)

    def _is_migrated(self) -> bool:
        if self._needed is None:
            # Reads the files of all migrations: once.
            if migration_state().missing:
                return False
            self._needed = _applied()
            return True
        return self._needed <= _applied()


def _applied() -> frozenset[tuple[str, str]]:
    from django.db import connection  # noqa: PLC0415  this thread's

    rows = MigrationRecorder(connection).migration_qs.values_list("app", "name")
    return frozenset((app, name) for app, name in rows)


class Readiness:
    """The checks of this process. ``watch`` connects those that a running server adds."""

    def __init__(self, folders: Callable[[], Sequence[str]]) -> None:
        """``folders``: those that must exist, because work folders lie below them."""
        self._folders = folders
        self._is_draining: Callable[[], bool] = _never
        self._layer: Callable[[], Awaitable[None]] = _nothing
        self._missing_roots: Callable[[], Collection[str]] = _none
        self._checks = self._new_checks()

    def watch(
        self,
        *,
        is_draining: Callable[[], bool],
        layer: Callable[[], Awaitable[None]],
        missing_roots: Callable[[], Collection[str]] = _none,
    ) -> None:
        """``layer`` raises an error if the channel layer does not pass messages on."""
        self._is_draining, self._layer, self._missing_roots = is_draining, layer, missing_roots
        self._checks = self._new_checks()

    def watch_no_more(self) -> None:
        self.watch(is_draining=_never, layer=_nothing)

    def _new_checks(self) -> Mapping[str, BoundedCheck]:
        checks: Mapping[str, Check] = {
            DATABASE: DatabaseCheck(),
            CHANNEL_LAYER: self._check_layer,
            WORK_FOLDERS: self._check_folders,
        }
        return {name: BoundedCheck(name, check) for name, check in checks.items()}

    async def failing(self) -> list[str]:
        """Returns the names of the checks that fail, within ``CHECK_SECONDS``."""
        found = await asyncio.gather(*(check.failing() for check in self._checks.values()))
        draining = [DRAINING] if self._is_draining() else []
        roots = [ROOTS] if self._missing_roots() else []
        return [*draining, *(name for names in found for name in names), *roots]

    async def _check_layer(self) -> Collection[str]:
        await self._layer()
        return ()

    async def _check_folders(self) -> Collection[str]:
        # In a thread: a file system of another machine may hang.
        exist = await asyncio.to_thread(lambda: [Path(name).is_dir() for name in self._folders()])
        return () if all(exist) else (WORK_FOLDERS,)


READINESS = Readiness(lambda: settings.CRUSH_WORK_ROOTS)
