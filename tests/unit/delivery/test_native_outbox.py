"""When native readers get what happens, and where their cursors stand afterwards."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson

from tests.unit.delivery.played import Played, event, message, started, words
from workspaces.delivery.open_message import LiveMessage
from workspaces.delivery.readers import NativeReader, Wire


async def turns_of_the_loop(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def items(reader: NativeReader) -> list[Any]:
    async with asyncio.timeout(60):
        return [item for chunk, _ in await reader.take() for item in orjson.loads(chunk)]


async def test_words_go_out_by_themselves() -> None:
    played = Played()
    reader = played.native()
    played.room.publish(started(1))
    assert [item["number"] for item in await items(reader)] == [1]

    played.room.stream(words(1, 0, "ab"))

    assert await items(reader) == [[1, 0, 0, "ab", "text"]]


async def test_an_event_does_not_wait_for_the_next_write_of_words() -> None:
    played = Played()
    reader = played.native()
    played.room.native.fan_out.interval = 60.0
    played.room.publish(started(1))
    played.room.stream(words(1, 0, "ab"))
    await items(reader)  # words were written just now: the next ones wait

    played.room.publish(event(2))
    taking = asyncio.create_task(items(reader))
    await turns_of_the_loop()

    assert taking.done()
    assert [item["number"] for item in taking.result()] == [2]


async def test_the_cursor_of_a_batch_is_its_newest_event() -> None:
    played = Played()
    reader = played.native()
    for number in (1, 2, 3):
        played.room.publish(event(number))
    played.room.native.flush()

    ((_, number),) = await reader.take()

    assert number == 3


async def test_progress_does_not_move_the_cursor() -> None:
    played = Played()
    readers = [NativeReader(wire) for wire in Wire]
    played.room.publish(started(1))
    for reader in readers:
        played.room.join_native(reader)

    played.room.repair(LiveMessage(1, message("abc")))

    for reader in readers:
        ((chunk, number),) = await reader.take()
        assert b"message.progress" in chunk
        assert number == 0


async def test_who_joins_causes_no_write_to_the_others() -> None:
    played = Played()
    early = played.native()
    taking = asyncio.create_task(early.take())
    await turns_of_the_loop()

    played.native()
    played.room.native.flush_outputs()
    await turns_of_the_loop()

    assert not taking.done()
    played.room.close()
    assert await taking == []
