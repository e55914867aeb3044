"""Keeps connected children for their next assignment: a few per workspace and kind.

A child is reused only for an equal provisioning document, apart from the fields that
identify one child. Ends idle children, those of a closed workspace, and all at the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from agents.fleet.parent.child import RunningChild
from agents.fleet.parent.errors import SpawnFailed, TooManyChildren
from agents.fleet.provisioning.codec import write_spec
from agents.fleet.provisioning.spec import ProvisionSpec

logger = logging.getLogger(__name__)

Spawn = Callable[[ProvisionSpec], Awaitable[RunningChild]]


@dataclass(frozen=True, slots=True)
class _PooledChild:
    workspace_id: str
    kind: str
    child: RunningChild
    since: float


class ChildPool:
    """All children that this process started, active and waiting."""

    def __init__(
        self,
        spawn: Spawn,
        *,
        idle_seconds: float = 120.0,
        most_waiting: int = 2,
        most_children: int = 32,
    ) -> None:
        self._spawn = spawn
        self._idle_seconds = idle_seconds
        self._most_waiting = most_waiting  # per workspace and kind
        self._most_children = most_children
        self._waiting: list[_PooledChild] = []
        self._at_work: dict[str, _PooledChild] = {}
        self._spawning: dict[asyncio.Task[RunningChild], str] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._reaper: asyncio.Task[None] | None = None

    async def take(self, workspace_id: str, spec: ProvisionSpec) -> RunningChild:
        """Returns a waiting child of that kind, or a new one.

        Raises ``TooManyChildren``, and the errors of ``spawn``.
        """
        kind = _kind(spec)
        while (kept := self._pick(workspace_id, kind)) is not None:
            self._at_work[kept.child.key] = kept  # reserved during the check
            is_well = False
            try:
                is_well = await kept.child.is_well()
            finally:
                if not is_well:
                    self._forget(kept)
                    self._end_soon(kept.child)
            if is_well:
                return kept.child
        if self._count() >= self._most_children and not self._make_room():
            raise TooManyChildren
        child = await self._started(workspace_id, spec)
        self._at_work[child.key] = _PooledChild(workspace_id, kind, child, self._now())
        return child

    async def _started(self, workspace_id: str, spec: ProvisionSpec) -> RunningChild:
        spawning = asyncio.ensure_future(self._spawn(spec))
        self._spawning[spawning] = workspace_id
        spawning.add_done_callback(self._spawning.pop)
        try:
            return await asyncio.shield(spawning)
        except asyncio.CancelledError:
            if spawning.cancelled():
                raise SpawnFailed("The workspace was closed while its sub-agent started.") from None
            # The caller has gone, but the child may still start.
            spawning.add_done_callback(self._unwanted)
            spawning.cancel()
            raise

    def _unwanted(self, spawned: asyncio.Task[RunningChild]) -> None:
        if not spawned.cancelled() and spawned.exception() is None:
            self._end_soon(spawned.result())

    def give_back(self, child: RunningChild, *, is_usable: bool) -> None:
        """Takes a child back after its assignment, to wait or to end. Callable twice."""
        kept = self._at_work.pop(child.key, None)
        if kept is None:
            return
        alike = [
            k for k in self._waiting if (k.workspace_id, k.kind) == (kept.workspace_id, kept.kind)
        ]
        if not is_usable or not child.is_reusable or len(alike) >= self._most_waiting:
            self._end_soon(child)
            return
        self._waiting.append(replace(kept, since=self._now()))
        if self._reaper is None or self._reaper.done():
            self._reaper = asyncio.create_task(self._reap())

    def hosted(self) -> frozenset[str]:
        """Returns the workspaces that have children here."""
        kept = [*self._waiting, *self._at_work.values()]
        return frozenset({each.workspace_id for each in kept} | set(self._spawning.values()))

    def children(self) -> list[tuple[str, RunningChild, bool]]:
        """Returns workspace, child, and whether it has an assignment, for each child."""
        at_work = [(kept.workspace_id, kept.child, True) for kept in self._at_work.values()]
        return at_work + [(kept.workspace_id, kept.child, False) for kept in self._waiting]

    async def close(self, workspace_id: str) -> None:
        """Ends every child of a workspace, active or waiting. Callable twice."""
        spawning = [task for task, of in self._spawning.items() if of == workspace_id]
        for task in spawning:
            if not task.cancelling():  # a second cancel would cut the end of the process
                task.cancel()
        if spawning:
            await asyncio.wait(spawning)
        for kept in self._waiting + list(self._at_work.values()):
            if kept.workspace_id == workspace_id:
                self._forget(kept)
                self._end_soon(kept.child)
        await self._ended()

    async def stop(self) -> None:
        """Ends all children."""
        for workspace_id in self.hosted():
            await self.close(workspace_id)
        if self._reaper is not None:
            self._reaper.cancel()
            await asyncio.gather(self._reaper, return_exceptions=True)
        await self._ended()

    # -- internals

    def _pick(self, workspace_id: str, kind: str) -> _PooledChild | None:
        for kept in reversed(self._waiting):  # the most recently used first
            if (kept.workspace_id, kept.kind) == (workspace_id, kind):
                self._waiting.remove(kept)
                return kept
        return None

    def _make_room(self) -> bool:
        """Ends the child that has waited longest, in any workspace; False if none waits."""
        if not self._waiting:
            return False
        oldest = min(self._waiting, key=lambda kept: kept.since)
        self._waiting.remove(oldest)
        self._end_soon(oldest.child)
        return True

    def _count(self) -> int:
        return len(self._waiting) + len(self._at_work) + len(self._spawning)

    def _forget(self, kept: _PooledChild) -> None:
        self._at_work.pop(kept.child.key, None)
        with contextlib.suppress(ValueError):
            self._waiting.remove(kept)

    async def _reap(self) -> None:
        while self._waiting:
            due = min(kept.since for kept in self._waiting) + self._idle_seconds
            await asyncio.sleep(max(0.01, due - self._now()))
            for kept in list(self._waiting):
                if kept.since + self._idle_seconds <= self._now():
                    self._waiting.remove(kept)
                    self._end_soon(kept.child)

    def _end_soon(self, child: RunningChild) -> None:
        task = asyncio.create_task(self._end(child))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _end(self, child: RunningChild) -> None:
        try:
            await child.end()
        except Exception:
            logger.exception("a sub-agent did not end in order; its process is killed")
            if child.process is not None:
                child.process.kill()

    async def _ended(self) -> None:
        if self._ending:
            await asyncio.wait(set(self._ending))

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _kind(spec: ProvisionSpec) -> str:
    anonymous = replace(spec.identity, child_id="any", parent_id=None)
    alike = replace(spec, identity=anonymous, storage_dir=None, owner={})
    return hashlib.blake2b(write_spec(alike), digest_size=16).hexdigest()
