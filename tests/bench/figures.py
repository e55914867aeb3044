"""The figures by name: which scenario yields each, and what it should be at most."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from statistics import median
from typing import cast

from tests.bench import scenarios, searching, sub_agents
from tests.bench.distribution import Distribution, distribution
from tests.bench.scenarios import Outcome
from tests.bench.subjects import Crush, Running, Subject

Run = Callable[[Subject, Running], Awaitable[Outcome]]
Take = Callable[[Outcome], Distribution | None]


@dataclass(frozen=True)
class Row:
    """One line of the table. Limits are of p50 and p99; None means that there is none."""

    title: str
    unit: str
    take: Take
    p50_limit: float | None = None
    p99_limit: float | None = None


@dataclass(frozen=True)
class Figure:
    """A scenario and the rows it fills. `own_only`: the peer has nothing to compare it with."""

    name: str
    rows: tuple[Row, ...]
    run: Run | None  # None: the time to listen, which starts servers itself
    own_only: bool = False


def _v1(scenario: Callable[..., Awaitable[Outcome]], *arguments: int) -> Run:
    async def run(subject: Subject, running: Running) -> Outcome:
        wire = subject.wire(running)
        try:
            return await scenario(wire, running, *arguments)
        finally:
            wire.close()

    return run


def _native(scenario: Callable[..., Awaitable[Outcome]], *arguments: int) -> Run:
    async def run(subject: Subject, running: Running) -> Outcome:
        wire = cast(Crush, subject).native_wire(running)
        try:
            return await scenario(wire, running, *arguments)
        finally:
            wire.close()

    return run


def _one(value: float | None) -> Distribution | None:
    return None if value is None else distribution([value])


def _lag(out: Outcome) -> Distribution | None:
    return distribution(out.lag_ms)


def _lost(out: Outcome) -> Distribution | None:
    return _one(out.words_lost)


def _cpu(out: Outcome) -> Distribution | None:
    return _one(out.cpu_seconds * 1e6 / out.words)


def _bytes(out: Outcome) -> Distribution | None:
    return _one(out.payload_bytes / out.words)


def _search(name: str, matches: str) -> tuple[Row, ...]:
    def ratio(out: Outcome) -> Distribution | None:
        return _one(median(out.search_ms[name]) / median(out.search_ms[f"{name}, ripgrep"]))

    return (
        Row(f"grep, {matches} in 50,000 files", "ms", lambda o: distribution(o.search_ms[name])),
        Row("  of ripgrep's own time", "x", ratio, 1.3),
    )


def _poll(what: str) -> Take:
    return lambda out: distribution(out.poll_ms[what])


def _lags(runs: int, p50: float | None, p99: float | None, *more: Row) -> Figure:
    rows = (
        Row(f"word → subscriber, {runs} run{'s' * (runs > 1)}", "ms", _lag, p50, p99),
        Row("  words lost", "", _lost, 0, 0),
        *more,
    )
    return Figure(f"words-{runs}", rows, _v1(scenarios.words, runs))


FIGURES = (
    Figure(
        "turns",
        (
            Row("accept: POST → 202", "ms", lambda o: distribution(o.accept_ms), 2.5, 15),
            Row("prompt → first word", "ms", lambda o: distribution(o.first_word_ms), 9),
        ),
        _v1(scenarios.turns),
    ),
    _lags(1, None, None),
    _lags(20, 8, 40, Row("  CPU per word", "µs", _cpu, 120)),
    _lags(100, None, 100, Row("  memory after it (PSS)", "MB", lambda o: _one(o.pss_mb), 130)),
    _lags(200, None, 200),
    Figure(
        "native",
        (
            Row("word → native subscriber, 20 runs", "ms", _lag, 3, 15),
            Row("  words lost", "", _lost, 0, 0),
            Row("  bytes per word", "B", _bytes, 60),
            Row("  CPU per word", "µs", _cpu),
        ),
        _native(scenarios.words, 20),
        own_only=True,
    ),
    Figure(
        "fleet-20",
        (
            Row("sub-agent's word → subscriber, 20", "ms", _lag, 10),
            Row("  words lost", "", _lost, 0, 0),
            Row("  CPU per word", "µs", _cpu),
        ),
        _v1(sub_agents.streaming, 20),
        own_only=True,
    ),
    Figure(
        "fleet-native",
        (
            Row("sub-agent's word → native, 20", "ms", _lag, 10),
            Row("  words lost", "", _lost, 0, 0),
            Row("  CPU per word", "µs", _cpu),
        ),
        _native(sub_agents.streaming, 20),
        own_only=True,
    ),
    Figure(
        "fanout-100",
        (
            Row("100 subscribers of one run", "ms", _lag, 4, 20),
            Row("  words lost", "", _lost, 0, 0),
        ),
        _v1(scenarios.words, 1, 100),
    ),
    Figure(
        "fanout-1000",
        (
            Row("1,000 subscribers of one run", "ms", _lag, None, 60),
            Row("  words lost", "", _lost, 0, 0),
        ),
        _v1(scenarios.words, 1, 1000),
        own_only=True,
    ),
    Figure(
        "cancel",
        (Row("cancel → run_complete", "ms", lambda o: distribution(o.cancel_ms), 5),),
        _v1(scenarios.cancels),
    ),
    Figure(
        "catch-up",
        (Row("catching up 10,000 events", "ms", lambda o: distribution(o.catch_up_ms), 1000),),
        _native(scenarios.catching_up),
        own_only=True,
    ),
    Figure(
        "polls",
        (
            Row("GET agent", "ms", _poll("agent"), 1.5),
            Row("GET permissions/skip", "ms", _poll("permissions/skip"), 1.5),
        ),
        _v1(scenarios.polls),
        own_only=True,
    ),
    Figure(
        "grep",
        (
            *_search("rare", "100 matches"),
            *_search("common", "10,000 matches"),
        ),
        searching.grep,
        own_only=True,
    ),
    Figure(
        "listen",
        (Row("time to listen, second start", "s", lambda o: distribution(o.accept_ms), 2),),
        None,
    ),
)
