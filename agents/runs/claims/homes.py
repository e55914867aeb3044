"""The workspaces whose home this worker is: it alone has their tool servers, jobs and shells.

A worker becomes the home of a workspace when it claims a run of it, or performs a request for it.
It remembers its homes, so most claims store nothing. A home ends when nothing of the workspace
has run here for some seconds, and with the worker. A home that has as many runs as it may lets
other workers claim runs of workspaces of which it has nothing but runs.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple, Protocol

from django.db import connection

from agents.jobs.host import job_host
from agents.models import Run
from agents.runs.claims.claim_order import ClaimedHomes
from agents.runs.lease import Lease
from agents.runs.nudges import nudge_accepted
from agents.runs.rows import Claimed
from agents.runs.tool_servers.language_servers import language_host
from agents.runs.tool_servers.mcp_servers import mcp_host
from agents.states import RunState
from workspaces.actions.processes import (
    RegistrationLost,
    leave_homes,
    set_overflowing,
    take_home,
)
from workspaces.log.errors import ShuttingDown
from workspaces.log.reader import read
from workspaces.log.timestamps import now_ms
from workspaces.log.transaction import Transaction
from workspaces.log.writer import WriteFunction, writer
from workspaces.models import RegisteredProcess, WorkspaceHome
from workspaces.placement.roots import WorkerScope
from workspaces.queries.processes import count_homes, home_of, homes_elsewhere, peers_of

logger = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
RACE_SECONDS = 0.02  # until another worker has committed the homes that it takes
IDLE_SECONDS = 5.0  # a conversation's next prompt finds the same home, without a write


class _Stored(NamedTuple):
    paths: dict[str, str]  # of the workspaces whose home the worker is
    overflowing: frozenset[str]  # those of them whose runs others may claim
    most_runs: int
    peers: tuple[str, ...]
    fewest: int  # homes of one of them


class _HeldRun(Protocol):
    @property
    def held(self) -> Lease: ...


class WorkspaceHomes:
    def __init__(
        self,
        worker: str,
        scope: Callable[[], WorkerScope | None],
        runs: Mapping[int, _HeldRun],
        *,
        is_shared: bool,
        idle_seconds: float = IDLE_SECONDS,
        write: WriteFunction = writer.write,
    ) -> None:
        """``worker``: the registered process. ``runs``: its runs, by key.

        ``is_shared``: other workers may be homes. Without them nothing is stored.
        """
        self._idle_seconds = idle_seconds
        self._is_shared = is_shared and connection.vendor == "postgresql"
        self._worker = worker
        self._scope, self._runs, self._write = scope, runs, write
        self._held: set[str] = set()
        self._peers: tuple[str, ...] = ()
        self._fewest = 0  # homes of one of them, a moment ago
        self._used_at: dict[str, float] = {}
        self._requests: Counter[str] = Counter()
        self._was_full = False
        self._is_leaving = False

    # -- for claims

    def for_claim(self) -> ClaimedHomes | None:
        if not self._is_shared:
            return None
        # The set itself: what ends before the claim runs is held no more.
        is_ahead = len(self._held) > self._fewest
        return ClaimedHomes(self._worker, self._held, self._peers, is_ahead)

    async def note_claim(self, homes: ClaimedHomes | None, claimed: Collection[Claimed]) -> bool:
        """Remembers the homes of a claim that is committed; returns whether to look again.

        The runs that were dropped are for other workers, which could not see them during the claim.
        """
        if homes is None or homes.worker != self._worker:
            return False
        self._held.update({run.workspace_id for run in claimed} - homes.guests)
        if homes.has_dropped:
            await asyncio.sleep(RACE_SECONDS)
            await nudge_accepted()
        return homes.has_dropped

    # -- for requests

    async def take(self, workspace_id: str) -> str:
        """Makes this worker the home of a workspace, unless it has another one.

        Returns the home, empty if it may be taken again in a moment. Raises ``RegistrationLost``.
        """
        worker = self._worker
        if not self._is_shared or workspace_id in self._held:
            return worker
        take = partial(take_home, process_id=worker, workspace_id=workspace_id)
        if not self._is_leaving and await self._write("", take):
            if worker == self._worker:
                self._held.add(workspace_id)
            return worker
        return await read(home_of, workspace_id)

    async def is_home(self, workspace_id: str) -> bool:
        """Whether this worker is the home of a workspace, or could be made it."""
        try:
            return await self.take(workspace_id) == self._worker
        except RegistrationLost:
            return False

    @contextmanager
    def using(self, workspace_id: str) -> Iterator[None]:
        """Keeps a home during a request."""
        self._requests[workspace_id] += 1
        try:
            yield
        finally:
            self._requests[workspace_id] -= 1
            self._requests += Counter()  # drops zero counts

    # -- the worker's life

    async def keep(self) -> None:
        """Ends the homes of workspaces of which nothing runs here, as long as the worker lives."""
        while self._is_shared:
            try:
                await self._look()
            except ShuttingDown:
                return
            except Exception:
                logger.exception("homes could not be compared; the next round tries again")
            await asyncio.sleep(LOOK_SECONDS)

    async def leave(self) -> None:
        """Lets other workers continue what waits, at once, because this one drains."""
        self._is_leaving = True
        self._held.clear()
        if not self._is_shared:
            return
        try:
            await self._write("", lambda tx: leave_homes(tx, self._worker, None))
        except Exception as error:  # noqa: BLE001  a process that drains binds nothing
            logger.warning("homes end with the registration: %s", error)
        else:
            await nudge_accepted()

    def begin_again(self, worker: str) -> None:
        """Goes on under another registration: what was held under the old one is lost."""
        self._worker, self._held = worker, set()

    async def _look(self) -> None:
        worker, scope = self._worker, self._scope()
        stored = await read(_read_stored, worker)
        if worker != self._worker or self._is_leaving:
            return
        self._peers, self._fewest = stored.peers, stored.fewest
        # Not more: a home that was taken just now is only taken again.
        self._held.intersection_update(stored.paths)
        self._held.update(stored.paths)
        if due := self._unused(stored.paths, scope):
            self._held.difference_update(due)  # first: a claim from now on takes it again
            await self._write("", lambda tx: _leave_unused(tx, worker, due))
        await self._share(worker, stored)
        await self._stop_strays(worker)

    async def _share(self, worker: str, stored: _Stored) -> None:
        """Lets other workers claim runs for which there is no place here, and ends that again.

        Not of workspaces with tool servers, jobs or shells here: these have one state.
        """
        is_full = bool(stored.most_runs) and len(self._runs) >= stored.most_runs
        overflowing = set[str]()
        if is_full and self._was_full:
            overflowing = self._held - self._requests.keys() - job_host().hosted() - _with_servers()
        self._was_full = is_full
        more, less = overflowing - stored.overflowing, stored.overflowing - overflowing
        if not more and not less:
            return

        def job(tx: Transaction) -> None:
            set_overflowing(tx, worker, more, is_overflowing=True)
            set_overflowing(tx, worker, less, is_overflowing=False)

        await self._write("", job)
        if more:
            await nudge_accepted()

    def _unused(self, paths: dict[str, str], scope: WorkerScope | None) -> list[str]:
        """Returns the homes that end: idle ones, and those whose folder is no longer served."""
        now = asyncio.get_running_loop().time()
        with_runs = {run.held.workspace_id for run in self._runs.values()}
        used = {*with_runs, *self._requests, *job_host().hosted(), *_with_servers()}
        self._used_at = {
            each: now if each in used else self._used_at.get(each, now) for each in paths
        }
        return sorted(
            each
            for each, path in paths.items()
            if (each not in used and now - self._used_at[each] >= self._idle_seconds)
            or (scope is not None and not scope.serves(path) and each not in with_runs)
        )

    async def _stop_strays(self, worker: str) -> None:
        """Stops the tool servers of workspaces that have their home in another worker now."""
        strays = _with_servers() - self._held
        for workspace_id in await read(homes_elsewhere, worker, strays) if strays else ():
            logger.info("tool servers end here: another worker is the home of their workspace")
            await mcp_host().leave(workspace_id)
            await language_host().leave(workspace_id)


def _with_servers() -> frozenset[str]:
    return mcp_host().hosted() | language_host().running()


def _read_stored(worker: str) -> _Stored:
    homes = WorkspaceHome.objects.filter(process_id=worker).order_by()
    rows = list(homes.values_list("workspace_id", "workspace__path", "is_overflowing"))
    peers, counts = peers_of(worker, now_ms()), count_homes()
    own = RegisteredProcess.objects.filter(pk=worker).values_list("most_runs", flat=True).first()
    return _Stored(
        {key: path for key, path, _ in rows},
        frozenset(key for key, _, is_overflowing in rows if is_overflowing),
        own or 0,
        peers,
        min((counts.get(peer, 0) for peer in peers), default=0),
    )


def _leave_unused(tx: Transaction, worker: str, workspace_ids: list[str]) -> None:
    """Ends homes, except where a run was claimed meanwhile."""
    runs = Run.objects.filter(state=RunState.RUNNING, worker=worker).order_by()
    used = set(runs.filter(workspace_id__in=workspace_ids).values_list("workspace_id", flat=True))
    leave_homes(tx, worker, set(workspace_ids) - used)
