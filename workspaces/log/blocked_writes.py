"""Keeps writes that failed temporarily, in order, with the time of the next attempt.

A workspace whose rows another process holds blocks only its own writes. An unreachable database
blocks all.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Hashable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from workspaces.backoff import Backoff
from workspaces.log.commits import CommitAttempt, Job
from workspaces.log.deadlines import is_over_for_process
from workspaces.log.failures import DatabaseFailure
from workspaces.log.outage import outage

T = TypeVar("T")


class QueuedWrite(Generic[T]):
    """A job with the workspace that it locks and the future that its caller waits for."""

    __slots__ = (
        "answer",
        "is_answered_first",
        "is_begun",
        "is_withdrawn",
        "job",
        "lane",
        "loop",
        "losses",
        "until",
        "workspace_id",
    )

    def __init__(
        self,
        workspace_id: str,
        job: Job[T],
        loop: asyncio.AbstractEventLoop | None,
        answer: asyncio.Future[T] | Future[T],
        until: float | None,
        *,
        is_answered_first: bool = False,
    ) -> None:
        self.workspace_id = workspace_id
        self.job = job
        self.loop = loop
        self.answer = answer
        self.is_answered_first = is_answered_first
        self.until = until  # deadline by the monotonic clock; ``None``: no limit
        self.lane: Hashable = workspace_id or id(self)
        self.losses = 0  # connections that broke while it ran
        self.is_begun = False
        self.is_withdrawn = False

    @property
    def is_overdue(self) -> bool:
        if is_over_for_process():
            return True
        return self.until is not None and (outage.is_long or time.monotonic() >= self.until)


class CommitDoubt:
    """A batch whose COMMIT got no answer."""

    def __init__(self, writes: list[QueuedWrite[Any]], attempt: CommitAttempt) -> None:
        self.writes = writes
        self.attempt = attempt


@dataclass
class Blocked:
    """The writes of one lane, or of all of them."""

    failure: DatabaseFailure
    backoff: Backoff = field(default_factory=Backoff)
    writes: list[QueuedWrite[Any]] = field(default_factory=list)
    due_at: float = 0.0

    def wait(self) -> None:
        self.due_at = time.monotonic() + self.backoff.next_seconds()


class BlockedWrites:
    def __init__(self) -> None:
        self._lanes: dict[Hashable, Blocked] = {}
        self.everything: Blocked | None = None  # set while all writes are blocked

    def __bool__(self) -> bool:
        return self.is_everything_blocked or bool(self._lanes)

    @property
    def is_everything_blocked(self) -> bool:
        return self.everything is not None

    def seconds_until_due(self) -> float | None:
        """Returns the seconds until the next attempt, or ``None`` if nothing is blocked."""
        groups = [self.everything] if self.everything is not None else self._lanes.values()
        due_at = min((group.due_at for group in groups), default=None)
        return None if due_at is None else max(0.0, due_at - time.monotonic())

    def takes(self, write: QueuedWrite[Any]) -> bool:
        """Queues the write if its lane is blocked; returns whether it did."""
        group = self.everything or self._lanes.get(write.lane)
        if group is None:
            return False
        group.writes.append(write)
        return True

    def block_lane(
        self, lane: Hashable, writes: Iterable[QueuedWrite[Any]], failure: DatabaseFailure
    ) -> None:
        group = self._lanes.setdefault(lane, Blocked(failure))
        group.failure = failure
        group.writes[:0] = writes
        group.wait()

    def block_all(self, writes: Iterable[QueuedWrite[Any]], failure: DatabaseFailure) -> None:
        if self.everything is None:
            self.everything = Blocked(failure)
        self.everything.failure = failure
        self.everything.writes[:0] = writes
        self.everything.wait()

    def keep_behind(self, writes: Iterable[QueuedWrite[Any]], backoff: Backoff) -> None:
        """Queues untried writes after all are blocked again, and continues the back-off."""
        if self.everything is not None:
            self.everything.writes += writes
            self.everything.backoff = backoff
            self.everything.wait()

    def unblock_all(self) -> None:
        self.everything = None

    def due(self) -> Iterator[Blocked]:
        """Yields the groups to try now. While everything is blocked, single lanes wait as well."""
        now = time.monotonic()
        if self.everything is not None:
            if self.everything.due_at <= now:
                yield self.everything
            return
        for lane, group in list(self._lanes.items()):
            if group.due_at > now:
                continue
            del self._lanes[lane]
            yield group
            if lane in self._lanes:  # blocked again: continue the back-off
                self._lanes[lane].backoff = group.backoff
                self._lanes[lane].wait()
            if self.is_everything_blocked:  # since this attempt
                return

    def groups(self) -> list[Blocked]:
        return [*([self.everything] if self.everything is not None else []), *self._lanes.values()]
