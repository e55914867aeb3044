"""A room's native readers: what they are given, and what becomes of slow ones."""

from __future__ import annotations

import asyncio

from tests.unit.delivery.played import Played, event, message, numbers, started, words
from workspaces.delivery.open_message import LiveMessage
from workspaces.delivery.readers import NativeReader, Wire


async def test_who_joins_is_given_the_open_messages_and_what_follows() -> None:
    played = Played()
    early = played.native()
    played.room.publish(started(1))
    played.room.stream(words(1, 0, "ab"))
    late = NativeReader(Wire.WS)

    (progress,) = played.room.join_native(late)
    played.room.stream(words(1, 2, "c"))

    assert progress[1] == {"number": 1, "message": message("ab")}
    assert await played.told(late) == [[1, 0, 2, "c"]]
    assert (await played.told(early))[1:] == [[1, 0, 0, "ab", "text"], [1, 0, 2, "c"]]


async def test_a_message_that_was_open_before_the_room_goes_on_from_its_row() -> None:
    played = Played(last_number=None)
    played.room.prime(4, {3: LiveMessage(3, message("ab"))})
    reader = NativeReader(Wire.WS)

    (progress,) = played.room.join_native(reader)
    played.room.stream(words(3, 2, "c"))

    assert progress[1] == {"number": 3, "message": message("ab")}
    assert await played.told(reader) == [[3, 0, 2, "c"]]


async def test_each_wire_is_told_in_its_own_form() -> None:
    played = Played()
    ws = played.native()
    sse = NativeReader(Wire.SSE)
    played.room.join_native(sse)
    played.room.publish(started(1))
    played.room.stream(words(1, 5, "gap"))
    played.room.repair(LiveMessage(1, message("abcde")))
    played.room.native.flush()

    body = b"".join(chunk for chunk, _ in await sse.take()).decode()
    assert [line for line in body.split("\n") if line.startswith(("id", "event"))] == [
        "id: 1",
        "event: message.started",
        "event: message.progress",
        "event: deltas",
    ]
    assert len(await played.told(ws)) == 3


async def test_a_reader_that_overflows_gets_nothing_more() -> None:
    played = Played()
    reader = played.native(limit=2_000)
    for number in range(1, 4):
        played.room.publish(event(number))
        played.room.native.flush()
    assert [number for _, number in await reader.take()] == [1, 2, 3]

    for number in range(4, 104):
        played.room.publish(event(number))
        played.room.native.flush()

    assert reader.overflowed
    assert await reader.take() == []  # it costs nothing more


async def test_a_chunk_of_words_does_not_move_the_cursor() -> None:
    played = Played()
    reader = played.native()
    played.room.publish(started(1))
    played.room.native.flush()
    played.room.stream(words(1, 0, "ab"))
    played.room.native.flush()

    assert [number for _, number in await reader.take()] == [1, 0]


async def test_a_queue_overflows_only_above_its_limit() -> None:
    reader = NativeReader(Wire.WS, limit=10)

    reader.offer(b"x" * 10, 1)
    assert not reader.overflowed
    assert await reader.take() == [(b"x" * 10, 1)]

    reader.offer(b"x" * 10, 2)
    assert not reader.overflowed  # what was taken does not count
    reader.offer(b"x", 3)
    assert reader.overflowed


async def test_one_slow_reader_does_not_keep_the_others_waiting() -> None:
    played = Played()
    slow, quick = played.native(limit=10), played.native()
    for number in range(1, 21):
        played.room.publish(event(number))
        played.room.native.flush()

    assert slow.overflowed
    assert numbers(await played.told(quick)) == list(range(1, 21))


async def test_a_heartbeat_comes_only_into_silence() -> None:
    played = Played()
    ws, sse = played.native(), NativeReader(Wire.SSE)
    played.room.join_native(sse)
    for reader in (ws, sse):
        reader.beat()
        reader.beat()

    assert await ws.take() == [(b"[]", 0)]
    assert await sse.take() == [(b":\n\n", 0)]


async def test_a_reader_that_left_is_told_nothing_and_waits_for_nothing() -> None:
    played = Played()
    native, v1 = played.native(), played.v1()
    taking = [
        asyncio.create_task(native.take()),
        asyncio.create_task(v1.take(played.room.v1.batch)),
    ]
    await asyncio.sleep(0)

    played.room.leave(native)
    played.room.leave(v1)
    native.offer(b"x", 1)
    v1.offer(b"x", {1})

    assert played.room.is_empty
    assert await asyncio.wait_for(asyncio.gather(*taking), 60) == [[], b""]
    assert await native.take() == []
    assert await v1.take(played.room.v1.batch) == b""


async def test_closing_the_room_ends_its_readers() -> None:
    played = Played()
    native, v1 = played.native(), played.v1()
    played.room.publish(started(1))

    played.room.close()

    assert native.closed
    assert v1.closed
    assert played.room.is_empty


async def test_a_room_without_readers_keeps_nothing_for_them() -> None:
    played = Played()
    played.room.publish(started(1))
    played.room.stream(words(1, 0, "ab"))
    late = played.native()

    assert await played.told(late) == []
    assert played.room.native._items == []
    assert played.room.v1._finals == []


async def test_what_is_passed_on_goes_out_by_itself() -> None:
    played = Played()
    native, v1 = played.native(), played.v1()

    played.room.publish(started(1))

    async with asyncio.timeout(60):
        assert len(await native.take()) == 1
        assert b'"message"' in await v1.take(played.room.v1.batch)
