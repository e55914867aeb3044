"""Writes to many readers: in parts, in order, and as often as their measured cost allows."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection

import orjson
import pytest

from tests.unit.delivery.played import Played, envelopes, event, started, texts, words
from workspaces.delivery.outboxes import DELTAS_SECONDS, LONGEST_SECONDS, PART, SHARE, FanOut
from workspaces.delivery.readers import NativeReader, V1Reader, Wire

MANY = 5 * PART + 7


class Clock:
    """Processor time that passes only when a test spends it, and the time on the wall."""

    def __init__(self, *, slowness: float = 1.0) -> None:
        self.seconds = 0.0
        self.slowness = slowness  # how much longer the same work takes on the wall

    def __call__(self) -> tuple[float, float]:
        return self.seconds, self.seconds * self.slowness


def readers(count: int) -> list[NativeReader]:
    return [NativeReader(Wire.WS) for _ in range(count)]


async def write(fan_out: FanOut[NativeReader], count: int, cost: float, clock: Clock) -> None:
    """Writes to so many readers, which costs this in all."""
    taken = 0

    def offer(part: Collection[NativeReader]) -> None:
        nonlocal taken
        taken += len(part)
        clock.seconds += cost * len(part) / count

    fan_out.send(readers(count), offer)
    for _ in range(count // PART + 2):
        await asyncio.sleep(0)
    assert taken == count


async def test_other_work_of_the_loop_waits_for_a_part_of_a_write_only() -> None:
    fan_out: FanOut[NativeReader] = FanOut(asyncio.get_running_loop())
    got: list[NativeReader] = []
    everyone = readers(MANY)

    fan_out.send(everyone, got.extend)
    seen = [len(got)]
    while len(got) < MANY:
        await asyncio.sleep(0)
        seen.append(len(got))

    assert max(after - before for before, after in zip([0, *seen], seen, strict=False)) == PART
    assert len(seen) >= MANY // PART
    assert set(got) == set(everyone)
    assert len(got) == MANY


async def test_no_batch_overtakes_another() -> None:
    fan_out: FanOut[NativeReader] = FanOut(asyncio.get_running_loop())
    everyone = readers(MANY)
    got: dict[NativeReader, list[int]] = {reader: [] for reader in everyone}

    def offering(number: int) -> Callable[[Collection[NativeReader]], None]:
        def offer(part: Collection[NativeReader]) -> None:
            for reader in part:
                got[reader].append(number)

        return offer

    for number in range(5):
        fan_out.send(everyone, offering(number))
        for _ in range(number):
            await asyncio.sleep(0)
    fan_out.finish()

    assert all(numbers == [0, 1, 2, 3, 4] for numbers in got.values())


async def test_the_time_between_two_writes_follows_their_cost_and_not_the_number_of_readers() -> (
    None
):
    clock = Clock()
    fan_out: FanOut[NativeReader] = FanOut(asyncio.get_running_loop(), clock)
    for _ in range(30):
        await write(fan_out, MANY, 0.01, clock)
    assert fan_out.interval == pytest.approx(0.01 / SHARE, rel=0.01)

    for _ in range(30):
        await write(fan_out, 2 * MANY, 0.002, clock)
    assert fan_out.interval == pytest.approx(0.002 / SHARE, rel=0.01)

    await write(fan_out, 2 * MANY, 60, clock)
    assert fan_out.interval == LONGEST_SECONDS
    await write(fan_out, PART, 0.0001, clock)
    assert fan_out.interval == 0


async def test_writes_are_rarer_on_a_crowded_machine() -> None:
    clock = Clock(slowness=5)
    fan_out: FanOut[NativeReader] = FanOut(asyncio.get_running_loop(), clock)
    for _ in range(30):
        await write(fan_out, MANY, 0.01, clock)
    assert fan_out.interval == pytest.approx(0.05 / 2 / SHARE, rel=0.01)


@pytest.mark.parametrize("wire", ["v1", "native"])
async def test_words_wait_for_as_long_as_the_writes_before_were_expensive(wire: str) -> None:
    played = Played()
    (played.v1 if wire == "v1" else played.native)()
    outbox = played.room.v1 if wire == "v1" else played.room.native
    played.room.publish(started(1))
    await asyncio.sleep(0.02)

    outbox.fan_out.interval = 0.1
    played.room.stream(words(1, 0, "a"))

    assert outbox._throttle._interval == 0.1 > DELTAS_SECONDS
    played.room.close()


class Sink:
    """A stream's socket, which takes what is pushed while it has room."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.took: list[bytes] = []

    def push(self, chunk: bytes) -> bool:
        has_room = self.chance.random() < 0.8
        if has_room:
            self.took.append(chunk)
        return has_room


async def follow_v1(played: Played, reader: V1Reader, sink: Sink) -> None:
    while chunk := await reader.take(played.room.v1.batch):
        sink.took.append(chunk)


async def follow_native(reader: NativeReader, sink: Sink) -> None:
    while chunks := await reader.take():
        for _ in range(sink.chance.randrange(2)):
            await asyncio.sleep(0)
        sink.took += [chunk for chunk, _ in chunks]


@pytest.mark.parametrize("seed", range(10))
async def test_readers_that_come_and_go_during_writes_get_everything_in_order(seed: int) -> None:
    chance = random.Random(seed)
    played = Played()
    following: list[asyncio.Task[None]] = []
    v1: list[tuple[Sink, V1Reader]] = []
    native: list[tuple[Sink, NativeReader, int, int]] = []
    said = 0

    def join() -> None:
        sink = Sink(chance)
        if chance.random() < 0.5:
            reader = V1Reader(sink.push)
            v1.append((sink, reader))
            played.room.join_v1(reader)
            following.append(asyncio.create_task(follow_v1(played, reader, sink)))
        else:
            cursor = NativeReader(Wire.WS, sink.push)
            native.append((sink, cursor, played.room.last_number, said))
            played.room.join_native(cursor)
            following.append(asyncio.create_task(follow_native(cursor, sink)))

    for _ in range(3 * PART):
        join()
    played.room.publish(started(1))
    for _ in range(30):
        if chance.random() < 0.3:
            played.room.publish(event(played.room.last_number + 1))
        played.room.stream(words(1, said, "x"))
        said += 1
        if chance.random() < 0.7:
            chance.choice([played.room.v1, played.room.native]).flush()
        for _ in range(chance.randrange(4)):
            await asyncio.sleep(0)
        join()
        if chance.random() < 0.5:
            played.room.leave(v1.pop(chance.randrange(len(v1)))[1])
    for outbox in (played.room.v1, played.room.native):
        outbox.flush()
        outbox.fan_out.finish()
    for _ in range(20):
        await asyncio.sleep(0)
    played.room.close()
    await asyncio.gather(*following)

    for sink, _ in v1:
        lengths = [len(text) for _, text in texts(envelopes(b"".join(sink.took)))]
        assert lengths == sorted(lengths)
        assert lengths[-1] == said
    for sink, _, number, length in native:
        for item in [item for chunk in sink.took for item in orjson.loads(chunk)]:
            if isinstance(item, dict):
                number += 1
                assert item["number"] == number
            else:
                assert item[2] == length
                length += len(item[3])
        assert (number, length) == (played.room.last_number, said)
