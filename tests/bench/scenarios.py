"""What is done to a server while it is measured. Each scenario gets a fresh one, warmed up."""

import asyncio
import time
from collections.abc import Awaitable
from dataclasses import dataclass, field

import orjson

from tests.bench.distribution import Distribution
from tests.bench.pacemaker import Pacemaker
from tests.bench.subjects import Running
from tests.bench.usage import Usage, usage
from tests.bench.watch import Watch
from tests.bench.wires.contract import Wire
from tests.bench.wires.crush_native import CrushNative
from tests.bench.wires.crush_v1 import CrushV1

WORDS, INTERVAL_MS = 100, 20  # 50 words a second
_SAMPLED_SUBSCRIBERS = 100
_GRACE_SECONDS = 60


@dataclass
class Outcome:
    """Raw values; which of them are filled depends on the scenario."""

    accept_ms: list[float] = field(default_factory=list)
    first_word_ms: list[float] = field(default_factory=list)
    lag_ms: list[float] = field(default_factory=list)
    cancel_ms: list[float] = field(default_factory=list)
    poll_ms: dict[str, list[float]] = field(default_factory=dict)
    catch_up_ms: list[float] = field(default_factory=list)
    search_ms: dict[str, list[float]] = field(default_factory=dict)  # by what is searched, and how
    words: int = 0
    words_lost: int = 0
    payload_bytes: int = 0
    cpu_seconds: float = 0.0
    pss_mb: float | None = None
    own_lateness: Distribution | None = None


async def turns(wire: Wire, running: Running, count: int = 50) -> Outcome:
    """One turn after another: how soon accepted, how soon the first word."""
    out, watch = Outcome(), Watch()
    await begin(wire, running, [watch])
    for _ in range(count):
        session = await wire.session()
        await asyncio.sleep(0.01)
        sent_at = time.time()
        out.accept_ms.append(await wire.prompt(session, _words(WORDS, 0)) * 1000)
        await done(watch, [session])
        out.first_word_ms.append((watch.first[session] - sent_at) * 1000)
    return out


async def words(
    wire: Wire, running: Running, runs: int, subscribers: int = 1, *, interval_ms: int = INTERVAL_MS
) -> Outcome:
    """`runs` at a time, all prompted at once, every word's way to every subscriber."""
    watches = [Watch() for _ in range(subscribers)]
    await begin(wire, running, watches)
    sessions = [await wire.session() for _ in range(runs)]
    await wire.warm(runs)
    before = usage(running.pids)
    async with Pacemaker() as pacemaker:
        accepted = await asyncio.gather(
            *(wire.prompt(s, _words(WORDS, interval_ms)) for s in sessions)
        )
        for watch in watches:
            await done(watch, sessions)
    await asyncio.sleep(0.3)  # what follows a run's end belongs to its cost
    after = usage(running.pids, memory=True)
    expected = runs * WORDS
    out = seen(watches, before, after)
    out.accept_ms = [seconds * 1000 for seconds in accepted]
    out.words_lost = sum(max(0, expected - _of(watch, sessions)) for watch in watches)
    out.words = runs * WORDS
    out.own_lateness = pacemaker.lateness
    return out


async def cancels(wire: Wire, running: Running, count: int = 30) -> Outcome:
    """From the cancel of a streaming run to its end."""
    out, watch = Outcome(), Watch()
    await begin(wire, running, [watch])
    for _ in range(count):
        session = await wire.session()
        await wire.prompt(session, _words(2000, INTERVAL_MS))
        await _first(watch, session)
        sent_at = time.time()
        await wire.cancel(session)
        await done(watch, [session])
        out.cancel_ms.append((watch.done[session] - sent_at) * 1000)
    return out


async def polls(wire: CrushV1, running: Running, count: int = 500) -> Outcome:
    """What interactive clients ask many times a second."""
    out = Outcome()
    await begin(wire, running, [Watch()])
    for what in ("agent", "permissions/skip"):
        out.poll_ms[what] = [await wire.poll(what) * 1000 for _ in range(count)]
    return out


async def catching_up(
    wire: CrushNative, running: Running, events: int = 10_000, times: int = 3
) -> Outcome:
    """A reader with a cursor at the beginning: until it has read `events` of the log."""
    out = Outcome()
    await begin(wire, running, [])
    session = await wire.session()
    # A renamed session is the cheapest event. Some at a time, so that they share commits.
    for start in range(0, events, 50):
        await asyncio.gather(*(wire.rename(session, f"t{start + i}") for i in range(50)))
    for _ in range(times):
        out.catch_up_ms.append(await _catch_up(wire, events))
    return out


async def _catch_up(wire: CrushNative, events: int) -> float:
    finished: asyncio.Future[float] = asyncio.get_running_loop().create_future()
    numbered = 0

    def receive(payload: bytes, at: float) -> None:
        nonlocal numbered
        for item in orjson.loads(payload):
            numbered += isinstance(item, dict) and "number" in item
        if numbered >= events and not finished.done():
            finished.set_result(at)

    sent_at = time.time()
    await wire.listen(receive, after=0)
    async with asyncio.timeout(_GRACE_SECONDS):
        return (await finished - sent_at) * 1000


async def begin(wire: Wire, running: Running, watches: list[Watch]) -> None:
    await wire.open(running.folder)
    # The first turns import, connect and fill caches: not what a long-lived server feels like.
    warm = Watch()
    await wire.subscribe(warm)
    sessions = [await wire.session() for _ in range(3)]
    for session in sessions:
        await wire.prompt(session, _words(5, 0))
        await done(warm, [session])
    for number, watch in enumerate(watches):
        step = max(1, len(watches) // _SAMPLED_SUBSCRIBERS)
        await wire.subscribe(watch, sampled=number % step == 0)


def _words(count: int, interval_ms: int) -> str:
    return f"hi [[stamp]] [[n={count} d={interval_ms}]]"


async def _first(watch: Watch, session: str) -> None:
    await _soon(watch.wait(lambda w: session in w.first, _GRACE_SECONDS), "no word came")


async def done(watch: Watch, sessions: list[str]) -> None:
    await _soon(
        watch.wait(lambda w: all(s in w.done for s in sessions), _GRACE_SECONDS),
        "runs did not end",
    )


async def _soon(wait: Awaitable[bool], lack: str) -> None:
    if not await wait:
        raise TimeoutError(f"{lack} within {_GRACE_SECONDS} s")


def _of(watch: Watch, sessions: list[str]) -> int:
    return sum(watch.words.get(session, 0) for session in sessions)


def seen(watches: list[Watch], before: Usage, after: Usage) -> Outcome:
    return Outcome(
        lag_ms=[lag for watch in watches for lag in watch.lags_ms],
        payload_bytes=sum(watch.payload_bytes for watch in watches),
        cpu_seconds=after.cpu_seconds - before.cpu_seconds,
        pss_mb=after.pss_mb,
    )
