"""What a seed decides: the faults with their order, targets and lengths, and the runs. Pure.

The same arguments give the same plan on every machine. What a fault meets depends on the machine.
"""

import enum
import random
from dataclasses import dataclass

WEBS = ("web", "web 2")
WORKERS = ("worker 1", "worker 2")
PROCESSES = (*WEBS, *WORKERS)
FARTHEST_CLOCK_SECONDS = 45
_SHORTEST_SECONDS = 1.5
_LONGEST_PAUSE_SECONDS = 2.5


class FaultKind(enum.StrEnum):
    KILL = "kill"  # SIGKILL, and a start
    RESTART = "restart"  # SIGTERM, and a start
    FREEZE = "freeze"  # SIGSTOP and SIGCONT
    REFUSE_LINKS = "refuse links"  # they break, and new ones are refused
    SILENCE_LINKS = "silence links"  # they stay open and carry nothing, until they do again
    STRAND_LINKS = "strand links"  # they stay open and never carry anything again
    DELAY_LINKS = "delay links"
    CUT_COMMITS = "cut commits"  # PostgreSQL's answers to some commits are lost
    STEP_CLOCK = "step clock"
    RESTART_REDIS = "restart Redis"
    FREEZE_REDIS = "freeze Redis"
    RESTART_POSTGRES = "restart PostgreSQL"
    STOP_POSTGRES = "stop PostgreSQL"
    CRASH_POSTGRES = "crash PostgreSQL"
    FREEZE_POSTGRES = "freeze PostgreSQL"


class Service(enum.StrEnum):
    POSTGRES = "PostgreSQL"
    REDIS = "Redis"


# One of each card is drawn before any comes again.
_DECK: tuple[tuple[FaultKind, tuple[str, ...], Service | None], ...] = (
    (FaultKind.KILL, WORKERS, None),
    (FaultKind.KILL, WORKERS, None),
    (FaultKind.KILL, WORKERS, None),
    (FaultKind.KILL, WORKERS, None),
    (FaultKind.KILL, WEBS, None),
    (FaultKind.RESTART, WORKERS, None),
    (FaultKind.RESTART, WORKERS, None),
    (FaultKind.RESTART, WEBS, None),
    (FaultKind.FREEZE, WORKERS, None),
    (FaultKind.FREEZE, WEBS, None),
    (FaultKind.REFUSE_LINKS, PROCESSES, Service.POSTGRES),
    (FaultKind.REFUSE_LINKS, PROCESSES, Service.REDIS),
    (FaultKind.SILENCE_LINKS, PROCESSES, Service.POSTGRES),
    (FaultKind.SILENCE_LINKS, PROCESSES, Service.REDIS),
    # Of PostgreSQL, the kernel notices such links (tcp_user_timeout), but not behind a proxy.
    (FaultKind.STRAND_LINKS, PROCESSES, Service.REDIS),
    (FaultKind.DELAY_LINKS, PROCESSES, Service.POSTGRES),
    (FaultKind.DELAY_LINKS, PROCESSES, Service.REDIS),
    (FaultKind.CUT_COMMITS, PROCESSES, Service.POSTGRES),
    (FaultKind.STEP_CLOCK, PROCESSES, None),
    (FaultKind.STEP_CLOCK, PROCESSES, None),
    (FaultKind.RESTART_REDIS, ("Redis",), None),
    (FaultKind.FREEZE_REDIS, ("Redis",), None),
    (FaultKind.RESTART_POSTGRES, ("PostgreSQL",), None),
    (FaultKind.STOP_POSTGRES, ("PostgreSQL",), None),
    (FaultKind.CRASH_POSTGRES, ("PostgreSQL",), None),
    (FaultKind.FREEZE_POSTGRES, ("PostgreSQL",), None),
)
_MOMENTARY = frozenset(
    {
        FaultKind.KILL,
        FaultKind.RESTART,
        FaultKind.STRAND_LINKS,
        FaultKind.CUT_COMMITS,
        FaultKind.STEP_CLOCK,
        FaultKind.RESTART_REDIS,
        FaultKind.RESTART_POSTGRES,
        FaultKind.CRASH_POSTGRES,
    }
)


@dataclass(frozen=True)
class Fault:
    kind: FaultKind
    target: str  # a process, or a service
    service: Service | None  # whose links fail
    seconds: float  # that it lasts; 0: it is over when it is carried out
    amount: int  # milliseconds of delay, seconds of a clock, or commits
    pause: float  # seconds until the next fault
    overlaps: bool  # the next one begins before this one ends

    def __str__(self) -> str:
        parts = [str(self.kind), f"of {self.target}"]
        if self.service is not None:
            parts.append(f"to {self.service}")
        if self.seconds:
            parts.append(f"for {self.seconds:.1f} s")
        if self.amount:
            parts.append(f"by {self.amount}")
        return " ".join(parts) + (" (overlaps)" if self.overlaps else "")


class RunSort(enum.StrEnum):
    REPLY = "reply"  # words, for some seconds
    EFFECTS = "effects"  # several commands that leave a mark
    SLOW_EFFECT = "slow effect"  # its mark comes at the end of a long command
    READS = "reads"  # tools that may run twice
    WRITES = "writes"  # a file of its own


@dataclass(frozen=True)
class PlannedRun:
    number: int
    sort: RunSort
    place: int
    session: int
    seconds: float  # of its words, or of its command
    steps: int
    cancel_after: float | None  # seconds


@dataclass(frozen=True)
class Plan:
    seed: int
    faults: tuple[Fault, ...]
    runs: tuple[PlannedRun, ...]


def draw_plan(seed: int, *, runs: int, minutes: float, places: int, sessions: int) -> Plan:
    return Plan(
        seed,
        tuple(_draw_faults(random.Random(f"{seed} faults"), minutes * 60)),
        tuple(_draw_runs(random.Random(f"{seed} runs"), runs, places, sessions)),
    )


def _draw_faults(chance: random.Random, seconds: float) -> list[Fault]:
    longest = max(2.0, min(20.0, seconds / 15))
    faults: list[Fault] = []
    total, deck = 0.0, [*_DECK]
    chance.shuffle(deck)
    while total < seconds:
        if not deck:
            deck = [*_DECK]
            chance.shuffle(deck)
        kind, targets, service = deck.pop()
        # PostgreSQL may be frozen for longer than the others.
        limit = longest * 1.75 if kind is FaultKind.FREEZE_POSTGRES else longest
        lasts = 0.0 if kind in _MOMENTARY else chance.uniform(_SHORTEST_SECONDS, limit)
        faults.append(
            Fault(
                kind,
                chance.choice(targets),
                service,
                seconds=round(lasts, 1),
                amount=_amount(chance, kind),
                pause=round(chance.uniform(0, _LONGEST_PAUSE_SECONDS), 1),
                overlaps=chance.random() < 0.3,
            )
        )
        total += faults[-1].pause + (0 if faults[-1].overlaps else lasts)
    return faults


def _amount(chance: random.Random, kind: FaultKind) -> int:
    if kind is FaultKind.DELAY_LINKS:
        return chance.randrange(10, 200)
    if kind is FaultKind.STEP_CLOCK:
        return chance.randrange(-FARTHEST_CLOCK_SECONDS, FARTHEST_CLOCK_SECONDS + 1)
    if kind is FaultKind.CUT_COMMITS:
        return chance.randrange(1, 12)
    return 0


def _draw_runs(chance: random.Random, count: int, places: int, sessions: int) -> list[PlannedRun]:
    sorts = [RunSort.REPLY] * 4 + [RunSort.EFFECTS] * 4
    sorts += [RunSort.SLOW_EFFECT, RunSort.READS, RunSort.WRITES]
    return [
        PlannedRun(
            number,
            chance.choice(sorts),
            place=chance.randrange(places),
            session=chance.randrange(sessions),
            seconds=round(chance.uniform(0.2, 4), 1),
            steps=chance.randrange(1, 5),
            cancel_after=round(chance.uniform(0, 3), 1) if chance.random() < 0.06 else None,
        )
        for number in range(1, count + 1)
    ]
