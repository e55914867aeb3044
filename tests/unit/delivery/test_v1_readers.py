"""A room's `/v1` readers: every final event, and of messages the newest state alone."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.delivery.played import (
    Played,
    envelopes,
    event,
    finished,
    message,
    run_finished,
    started,
    texts,
    words,
)
from workspaces.delivery.open_message import LiveMessage
from workspaces.delivery.outboxes import LONG_SECONDS, STATES_SECONDS
from workspaces.log.types import Kind


async def test_v1_keeps_every_final_event_and_the_newest_state_alone() -> None:
    played = Played()
    reader = played.v1()
    played.room.publish(started(1))
    for offset in range(50):
        played.room.stream(words(1, offset, "x"))
        played.room.v1.flush()

    assert texts(await played.told_v1(reader)) == [("message", ""), ("message", "x" * 50)]


async def test_v1_conflates_each_message_for_itself() -> None:
    played = Played()
    reader = played.v1()
    played.room.publish(started(1, "a"))
    played.room.publish(started(2, "b"))
    for offset in range(5):
        played.room.stream(words(1, offset, "a"))
        played.room.stream(words(2, offset, "b"))
        played.room.v1.flush()
    played.room.publish(finished(3, "aaaaa", "a"))

    assert texts(await played.told_v1(reader)) == [
        ("message", ""),
        ("message", ""),
        ("message", "aaaaa"),
        ("message", "bbbbb"),
    ]


async def test_v1_never_loses_a_final_event_however_slow_its_reader_is() -> None:
    played = Played()
    reader = played.v1()
    for number in range(1, 2001):
        played.room.publish(event(number, Kind.CONFIG_CHANGED, workspace_id=str(number)))
        if number % 7 == 0:
            played.room.v1.flush()

    told = await played.told_v1(reader)

    found = [frame["payload"]["payload"]["workspace_id"] for frame in told]
    assert found == [str(number) for number in range(1, 2001)]


@given(st.randoms(use_true_random=False), st.integers(0, 12))
@settings(max_examples=60)
def test_v1_tells_every_message_update_before_its_run_complete(
    chance: random.Random, length: int
) -> None:
    async def play() -> None:
        played = Played()
        reader = played.v1()
        frames: list[dict[str, Any]] = []
        played.room.publish(started(1))
        for offset in range(length):
            played.room.stream(words(1, offset, "x"))
            if chance.random() < 0.4:
                played.room.v1.flush()
            if chance.random() < 0.4:
                frames += await played.told_v1(reader)
        played.room.publish(finished(2, "x" * length))
        if chance.random() < 0.5:
            frames += await played.told_v1(reader)
        played.room.publish(run_finished(3))
        frames += await played.told_v1(reader)

        said = texts(frames)
        assert said[-2:] == [("message", "x" * length), ("run_complete", "")]
        assert frames[-2]["payload"]["payload"]["parts"][-1]["type"] == "finish"
        lengths = [len(text) for kind, text in said if kind == "message"]
        assert lengths == sorted(lengths)

    asyncio.run(play())


async def test_who_joins_v1_is_shown_the_open_messages() -> None:
    played = Played()
    played.room.publish(started(1))
    played.room.stream(words(1, 0, "ab"))

    assert texts(await played.told_v1(played.v1())) == [("message", "ab")]


async def test_v1_is_shown_what_a_repair_brought() -> None:
    played = Played()
    reader = played.v1()
    played.room.publish(started(1))
    await played.told_v1(reader)
    played.room.stream(words(1, 3, "d"))
    assert await played.told_v1(reader) == []

    played.room.repair(LiveMessage(1, message("abc")))

    assert texts(await played.told_v1(reader)) == [("message", "abcd")]


async def test_a_state_is_encoded_once_for_all_readers() -> None:
    played = Played()
    played.room.publish(started(1))
    played.room.stream(words(1, 0, "ab"))

    first = played.room.v1.state(1)

    assert played.room.v1.state(1) is first
    played.room.stream(words(1, 2, "c"))
    assert played.room.v1.state(1) is not first
    assert played.room.v1.state(9) == b""


async def test_v1_beats_only_into_silence() -> None:
    played = Played()
    reader = played.v1()
    reader.beat()
    reader.beat()
    assert await reader.take(played.room.v1.batch) == b"\n"

    played.room.publish(started(1))
    played.room.v1.flush()
    reader.beat()

    assert not (await reader.take(played.room.v1.batch)).startswith(b"\n")


async def test_v1_goes_on_waiting_when_what_changed_is_over() -> None:
    played = Played()
    reader = played.v1()
    reader.offer(b"", {1})
    taking = asyncio.create_task(reader.take(played.room.v1.batch))
    await asyncio.sleep(0)
    assert not taking.done()

    played.room.publish(run_finished(1))
    played.room.v1.flush()

    assert b'"run_complete"' in await asyncio.wait_for(taking, 60)


async def test_a_long_message_is_told_less_often_than_a_short_one() -> None:
    played = Played()
    played.v1()
    played.room.publish(started(1))
    asked = []
    for offset, length in ((0, 1), (1, 20_000)):
        await asyncio.sleep(0.02)  # longer than between two writes, so that nothing is waited for
        played.room.stream(words(1, offset, "x" * length))
        asked.append(played.room.v1._throttle._interval)

    assert asked == [STATES_SECONDS, LONG_SECONDS]
    played.room.close()


class Socket:
    """Takes what is pushed while it has room."""

    def __init__(self) -> None:
        self.has_room = True
        self.took = b""

    def push(self, chunk: bytes) -> bool:
        if self.has_room:
            self.took += chunk
        return self.has_room


async def test_who_waits_is_pushed_to_and_not_woken() -> None:
    played, socket = Played(), Socket()
    reader = played.v1(socket.push)
    taking = asyncio.create_task(reader.take(played.room.v1.batch))
    await asyncio.sleep(0)
    played.room.publish(started(1))
    played.room.stream(words(1, 0, "ab"))
    played.room.v1.flush()
    await asyncio.sleep(0)

    assert not taking.done()
    assert texts(envelopes(socket.took)) == [("message", ""), ("message", "ab")]
    reader.close()
    assert await taking == b""


async def test_nothing_is_pushed_past_what_still_waits_to_be_sent() -> None:
    played, socket = Played(), Socket()
    reader = played.v1(socket.push)
    played.room.publish(started(1))
    played.room.v1.flush()  # before the reader waits
    played.room.stream(words(1, 0, "a"))
    played.room.v1.flush()

    assert socket.took == b""
    assert texts(envelopes(await reader.take(played.room.v1.batch))) == [
        ("message", ""),
        ("message", "a"),
    ]
    played.room.stream(words(1, 1, "b"))
    played.room.v1.flush()  # what was taken is being sent
    assert socket.took == b""
    assert texts(envelopes(await reader.take(played.room.v1.batch))) == [("message", "ab")]


@pytest.mark.parametrize("seed", range(100))
async def test_pushed_and_taken_make_one_stream_in_order(seed: int) -> None:
    chance = random.Random(seed)
    played, socket = Played(), Socket()
    reader = played.v1(socket.push)
    said = 0

    async def send_all() -> None:
        while chunk := await reader.take(played.room.v1.batch):
            for _ in range(chance.randrange(3)):  # the socket takes its time
                await asyncio.sleep(0)
            socket.took += chunk

    sending = asyncio.create_task(send_all())
    played.room.publish(started(1))
    for number in range(2, 40):
        socket.has_room = chance.random() < 0.7
        if chance.random() < 0.3:
            played.room.publish(
                event(played.room.last_number + 1, Kind.CONFIG_CHANGED, workspace_id=str(number))
            )
        played.room.stream(words(1, said, "x"))
        said += 1
        if chance.random() < 0.6:
            played.room.v1.flush()
        if chance.random() < 0.5:
            await asyncio.sleep(0)
    played.room.v1.flush()
    for _ in range(10):
        await asyncio.sleep(0)
    reader.close()
    await sending

    told = envelopes(socket.took)
    lengths = [len(text) for kind, text in texts(told) if kind == "message"]
    assert lengths == sorted(lengths)
    assert lengths[-1] == said
    finals = [e["payload"]["payload"]["workspace_id"] for e in told if e["type"] != "message"]
    assert finals == sorted(finals, key=int)
    assert len(finals) == played.room.last_number - 1


async def test_v1_gets_what_came_in_the_moment_of_its_workspaces_end() -> None:
    played = Played()
    reader = played.v1()
    played.room.publish(run_finished(1))
    played.room.publish(event(2, Kind.WORKSPACE_CLOSED, workspace_id="w"))

    told = await reader.take(played.room.v1.batch)

    assert b'"run_complete"' in told
    assert await reader.take(played.room.v1.batch) == b""


async def test_who_joins_causes_no_write_to_the_others() -> None:
    played, socket = Played(), Socket()
    reader = played.v1(socket.push)
    taking = asyncio.create_task(reader.take(played.room.v1.batch))
    await asyncio.sleep(0)

    played.v1()
    for _ in range(3):
        await asyncio.sleep(0)

    assert not taking.done()
    assert socket.took == b""
    reader.close()
    assert await taking == b""
