"""What the simulation has seen apart from the database: who has claimed what, and what waits since when.

Each broken promise becomes a sentence in ``broken``.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from agents.models import Run
from agents.runs.rows import Claimed
from agents.states import CLAIMABLE, IN_PROGRESS, RunState
from tests.simulation.virtual_time import SimulatedLoop

HEARTBEATS = 2.0  # seconds: two renewals of a registration


@dataclass
class Claim:
    worker: str
    fence: int
    at: float
    is_released: bool = False  # by its holder, for another worker


class Ledger:
    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self.broken: list[str] = []
        self.accepted: dict[int, float] = {}
        self.finished: Counter[int] = Counter()
        self.longest_wait = 0.0  # of a run that could be claimed, while places were free
        self.claims = self.writes = self.fenced_off = 0
        self.continued: dict[str, list[float]] = {}  # how a worker was lost: seconds to a new claim
        self.most_running = 0
        self._holders: dict[int, Claim] = {}
        self._lost: dict[int, tuple[str, float, float]] = {}
        self._waiting: dict[int, float] = {}
        self._places_since = 0.0
        self._first = 0
        self._digest = hashlib.sha256()

    @property
    def digest(self) -> str:
        """Equal for two simulations in which the same happened at the same times."""
        return self._digest.hexdigest()[:16]

    def note(self, what: str, key: int = 0, *more: object) -> None:
        if key:  # numbers of runs begin anywhere
            self._first = self._first or key
            more = (key - self._first, *more)
        self._digest.update(f"{self._loop.time():.6f} {what} {more}\n".encode())

    def fail(self, sentence: str) -> None:
        self.broken.append(f"{self._loop.time():.2f} s: {sentence}")

    # -- what machines do

    def accept(self, key: int) -> None:
        self.note("accept", key)
        self.accepted[key] = self._loop.time()

    def claim(self, worker: str, runs: Iterable[Claimed]) -> None:
        now = self._loop.time()
        for run in runs:
            self.claims += 1
            self.note("claim", run.key, worker, run.fence)
            before = self._holders.get(run.key)
            if run.key in self.finished:
                self.fail(f"run {run.key} is claimed after its end")
            if before is not None:
                # A rescue excludes the holder with a fence of its own, before the next claim.
                expected = before.fence + (1 if before.is_released else 2)
                if run.fence < expected:
                    self.fail(f"{worker} claims run {run.key}, which {before.worker} holds")
            self._note_wait(run.key)
            self._holders[run.key] = Claim(worker, run.fence, now)
            how, since, limit = self._lost.pop(run.key, ("", 0.0, 0.0))
            if how:
                self.continued.setdefault(how, []).append(now - since)
                if now - since > limit:
                    self.fail(f"run {run.key} is continued {now - since:.1f} s after: {how}")

    def write(self, worker: str, key: int, fence: int) -> None:
        """A holder's write was committed."""
        self.writes += 1
        held = self._holders.get(key)
        if held is None or held.fence != fence:
            self.fail(f"{worker} writes for run {key}, which {held and held.worker} holds")

    def release(self, key: int) -> None:
        self.note("release", key)
        self._holders[key].is_released = True
        self._lost.pop(key, None)

    def finish(self, key: int) -> None:
        self.note("finish", key)
        self.finished[key] += 1
        self._lost.pop(key, None)
        if self.finished[key] > 1:
            self.fail(f"run {key} has ended twice")

    def lose(self, worker: str, how: str, *, limit: float) -> None:
        """The worker's machine has stopped: its runs must go on elsewhere within the limit."""
        rows = Run.objects.filter(worker=worker, state=RunState.RUNNING)
        for key in rows.values_list("pk", flat=True):
            self._lost.setdefault(key, (how, self._loop.time(), limit))

    def find(self, worker: str) -> None:
        """The machine goes on, and may continue what others have not taken over."""
        for key in list(self._lost):
            if self._holders[key].worker == worker:
                del self._lost[key]

    def _note_wait(self, key: int) -> None:
        since = max(self._waiting.get(key, self._loop.time()), self._places_since)
        self.longest_wait = max(self.longest_wait, self._loop.time() - since)

    # -- what the database has

    def look(self, places: int) -> None:
        """Looks for runs that wait too long, and for sessions with two runs. ``places``: free ones."""
        now = self._loop.time()
        rows = Run.objects.exclude(state=RunState.FINISHED).order_by("pk")
        unfinished = list(rows.values_list("pk", "session_id", "state", "accept_number"))
        states = Counter(state for _, _, state, _ in unfinished)
        self.most_running = max(self.most_running, states[RunState.RUNNING])
        busy = Counter(session for _, session, state, _ in unfinished if state in IN_PROGRESS)
        for session, count in busy.items():
            if count > 1:
                self.fail(f"{count} runs of session {session} are in progress")
        seen: set[str] = set()
        waiting: dict[int, float] = {}
        for key, session, state, _ in unfinished:
            is_next = state == RunState.READY or (session not in busy and session not in seen)
            if state in CLAIMABLE and is_next:
                waiting[key] = self._waiting.get(key, now)
            seen.add(session)
        self._waiting = waiting
        if places < len(waiting):
            self._places_since = now
        for key, since in waiting.items():
            self._note_wait(key)
            if now - max(since, self._places_since) > HEARTBEATS:
                self.fail(f"run {key} waits since {since:.2f} s, though {places} places are free")
                waiting[key] = now  # reported once
        for key, (how, since, limit) in list(self._lost.items()):
            if now - since > limit and key not in waiting:
                self.fail(f"run {key} is not continued {limit:.0f} s after: {how}")
                del self._lost[key]
