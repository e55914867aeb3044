"""A room: whatever order things arrive in, its readers get the log in order, and every word."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workspaces.events import room as rooms
from workspaces.events.live import LiveMessage
from workspaces.events.readers import NativeReader, V1Reader, Wire
from workspaces.events.room import Room
from workspaces.events.types import Delta, Kind
from workspaces.storage.transaction import Recorded


def event(number: int, kind: str = Kind.RUN_STARTED, **payload: Any) -> Recorded:
    return Recorded("w", number, kind, "s", payload, orjson.dumps(payload), 0)


def message(text: str | None = None, *, id: str = "m", finish: str = "") -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    if text is not None:
        parts.append({"type": "text", "data": {"text": text}})
    if finish:
        parts.append({"type": "finish", "data": {"reason": finish, "time": 1}})
    return {"id": id, "session_id": "s", "role": "assistant", "parts": parts}


def started(number: int, id: str = "m") -> Recorded:
    return event(number, Kind.MESSAGE_STARTED, message=message(id=id))


def finished(number: int, text: str, id: str = "m") -> Recorded:
    return event(number, Kind.MESSAGE_FINISHED, message=message(text, id=id, finish="end_turn"))


def run_finished(number: int) -> Recorded:
    run = {"session_id": "s", "message_id": "m", "outcome": "cancelled"}
    return event(number, Kind.RUN_FINISHED, run=run)


def words(number: int, offset: int, text: str) -> Delta:
    return Delta(number, 0, offset, text, "text" if offset == 0 else None)


class Played:
    """A room with its wishes written down instead of carried out."""

    def __init__(self, *, last_number: int | None = 0) -> None:
        self.producers: dict[int, LiveMessage] = {}
        self.asked_events = 0
        self.asked_messages: list[int] = []
        self.room = Room(
            "w",
            producers=self.producers,
            ask_events=lambda room: self._ask_events(),
            ask_message=lambda room, number: self.asked_messages.append(number),
        )
        if last_number is not None:
            self.room.prime(last_number, {})

    def _ask_events(self) -> None:
        self.asked_events += 1

    def native(self, *, limit: int = 1_000_000) -> NativeReader:
        reader = NativeReader(Wire.WS, limit=limit)
        self.room.join_native(reader)
        return reader

    def v1(self) -> V1Reader:
        reader = V1Reader()
        self.room.join_v1(reader)
        return reader

    async def told(self, reader: NativeReader) -> list[Any]:
        self.room.flush_native()
        reader.beat()  # or nothing might be there to take
        return [item for chunk, _ in await reader.take() for item in orjson.loads(chunk)]

    async def told_v1(self, reader: V1Reader) -> list[dict[str, Any]]:
        self.room.flush_v1()
        reader.beat()
        taken = (await reader.take(self.room)).removesuffix(b"\n\n").strip()
        return [orjson.loads(block[6:]) for block in taken.split(b"\n\n") if block]


def numbers(items: list[Any]) -> list[int]:
    return [item["number"] for item in items if isinstance(item, dict) and "number" in item]


def texts(frames: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Of ``/v1`` envelopes: the kind, and of messages the words."""
    found = []
    for frame in frames:
        payload = frame["payload"]["payload"]
        parts = payload.get("parts", [])
        said = "".join(p["data"]["text"] for p in parts if p["type"] == "text")
        found.append((frame["type"], said))
    return found


# -- events


async def test_events_are_passed_on_in_order() -> None:
    played = Played()
    reader = played.native()

    for number in (1, 2, 3):
        played.room.publish(event(number))

    assert numbers(await played.told(reader)) == [1, 2, 3]
    assert played.asked_events == 0


async def test_an_early_event_waits_and_its_predecessor_is_asked_for() -> None:
    played = Played(last_number=4)
    reader = played.native()

    played.room.publish(event(6))
    assert numbers(await played.told(reader)) == []
    assert played.asked_events == 1
    played.room.publish(event(5))

    assert numbers(await played.told(reader)) == [5, 6]
    assert played.room.last_number == 6


async def test_what_is_known_is_not_passed_on_again() -> None:
    played = Played(last_number=4)
    reader = played.native()

    for number in (3, 4, 5, 5, 4):
        played.room.publish(event(number))

    assert numbers(await played.told(reader)) == [5]


async def test_what_comes_before_the_log_is_read_is_judged_against_it() -> None:
    played = Played(last_number=None)
    reader = played.native()
    for number in (3, 4, 5):
        played.room.publish(event(number))
    assert numbers(await played.told(reader)) == []

    played.room.prime(3, {})

    assert numbers(await played.told(reader)) == [4, 5]


@given(st.permutations(range(1, 13)), st.lists(st.integers(1, 12)), st.integers(0, 11))
def test_any_order_of_arrival_comes_out_as_the_log(
    order: list[int], again: list[int], primed_after: int
) -> None:
    async def play() -> None:
        played = Played(last_number=None)
        reader = played.native()
        for index, number in enumerate([*order, *again, *again]):
            if index == primed_after:
                played.room.prime(0, {})
            played.room.publish(event(number))
        assert numbers(await played.told(reader)) == list(range(1, 13))

    asyncio.run(play())


async def test_whoever_waits_for_the_next_event_is_woken() -> None:
    played = Played()
    waiting = asyncio.create_task(played.room.wait_for_next())
    await asyncio.sleep(0)

    played.room.publish(event(1))

    await asyncio.wait_for(waiting, 10)


async def test_waiting_for_the_next_event_has_an_end() -> None:
    played = Played()
    await asyncio.wait_for(played.room.wait_for_next(), 10)

    played.room.publish(event(1))  # the one who waited is gone: no harm

    assert played.room.last_number == 1


# -- words


async def test_words_are_passed_on_as_they_come() -> None:
    played = Played()
    reader = played.native()
    played.room.publish(started(1))
    played.room.stream(words(1, 0, "ab"))
    played.room.stream(words(1, 0, "ab"))
    played.room.stream(words(1, 1, "bcd"))

    assert (await played.told(reader))[1:] == [[1, 0, 0, "abcd", "text"]]


async def test_words_that_come_before_their_message_wait_for_it() -> None:
    played = Played()
    reader = played.native()
    played.room.stream(words(1, 0, "ab"))
    assert await played.told(reader) == []
    assert played.asked_messages == []

    played.room.publish(started(1))

    assert (await played.told(reader))[1:] == [[1, 0, 0, "ab", "text"]]


async def test_lost_words_are_asked_for_and_healed_by_the_row() -> None:
    played = Played()
    reader = played.native()
    played.room.publish(started(1))
    played.room.stream(words(1, 0, "a"))
    played.room.stream(words(1, 4, "ef"))
    assert played.asked_messages == [1]
    assert played.room.waits_for(1)

    # The row lags behind at first, and then holds more than what is waited for.
    played.room.repair(LiveMessage(1, message("abc")))
    assert played.room.waits_for(1)
    played.room.repair(LiveMessage(1, message("abcde")))
    assert not played.room.waits_for(1)

    items = await played.told(reader)
    progress = [item["data"] for item in items if isinstance(item, dict) and "number" not in item]
    assert [told["message"]["parts"][0]["data"]["text"] for told in progress] == ["abc", "abcde"]
    assert [told["number"] for told in progress] == [1, 1]
    assert [item for item in items if isinstance(item, list)] == [
        [1, 0, 0, "a", "text"],
        [1, 0, 5, "f"],
    ]


async def test_a_row_behind_what_was_told_is_not_believed() -> None:
    played = Played()
    reader = played.native()
    played.room.publish(started(1))
    played.room.stream(words(1, 0, "abc"))
    await played.told(reader)

    played.room.repair(LiveMessage(1, message("ab")))
    played.room.repair(LiveMessage(9, message("of no open message")))

    assert await played.told(reader) == []
    assert played.room.live[1].parts[0].text() == "abc"


async def test_words_of_a_finished_message_are_dropped() -> None:
    played = Played()
    reader = played.native()
    played.room.publish(started(1))
    played.room.stream(words(1, 5, "lost its beginning"))
    played.room.publish(finished(2, "all"))
    played.room.stream(words(1, 3, "late"))

    assert numbers(await played.told(reader)) == [1, 2]
    assert not played.room.waits_for(1)
    assert played.room.live == {}


async def test_a_restarted_message_gets_a_new_number_and_begins_anew() -> None:
    played = Played()
    reader = played.native()
    played.room.publish(started(1))
    played.room.stream(words(1, 0, "old"))
    played.room.publish(event(2, Kind.MESSAGE_RESTARTED, message=message()))
    played.room.stream(words(1, 3, "late"))
    played.room.stream(words(2, 0, "new"))

    deltas = [item for item in await played.told(reader) if isinstance(item, list)]
    assert deltas == [[1, 0, 0, "old", "text"], [2, 0, 0, "new", "text"]]
    assert list(played.room.live) == [2]


async def test_a_deleted_session_takes_its_open_messages_along() -> None:
    played = Played()
    played.room.publish(started(1))
    played.room.publish(event(2, Kind.SESSION_DELETED, session={"id": "another"}))
    assert list(played.room.live) == [1]

    played.room.publish(event(3, Kind.SESSION_DELETED, session={"id": "s"}))

    assert played.room.live == {}


async def test_no_more_words_are_held_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rooms, "HELD_LIMIT", 3)
    played = Played()
    reader = played.native()
    for offset in range(5):
        played.room.stream(words(1, offset, "abcde"[offset]))

    played.room.publish(started(1))

    assert [item for item in await played.told(reader) if isinstance(item, list)] == [
        [1, 0, 0, "abc", "text"]
    ]


async def test_the_producers_own_message_is_shared_not_copied() -> None:
    played = Played()
    reader = played.native()
    played.room.publish(started(1))
    live = LiveMessage(1, message())
    played.room.adopt(live)
    played.room.adopt(LiveMessage(9, message()))  # not open here

    live.apply(words(1, 0, "ab"))
    played.room.passed(words(1, 0, "ab"))
    played.room.passed(words(9, 0, "of no open message"))

    assert played.room.live == {1: live}
    assert (await played.told(reader))[1:] == [[1, 0, 0, "ab", "text"]]


async def test_a_message_begun_here_before_its_event_is_taken_from_its_producer() -> None:
    played = Played()
    played.producers[1] = LiveMessage(1, message())

    played.room.publish(started(1))

    assert played.room.live[1] is played.producers[1]


@given(st.text("aé漢🦊", max_size=40), st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_a_reader_that_folds_what_it_is_told_has_the_text(text: str, chance: random.Random) -> None:
    """Deltas are lost, repeated and late; the row is read when the room asks."""

    async def play() -> None:
        played = Played()
        readers = [played.native()]
        copies: list[LiveMessage] = [LiveMessage(1, message())]
        finals: list[str] = []
        played.room.publish(started(1))
        offset = 0
        stored = ""
        while offset < len(text):
            step = chance.randint(1, 4)
            delta = words(1, offset, text[offset : offset + step])
            offset += len(delta.text)
            if chance.random() < 0.5:
                stored = text[:offset]
            for _ in range(chance.choice([0, 1, 1, 1, 2])):
                played.room.stream(delta)
            if played.asked_messages and chance.random() < 0.7:
                played.room.repair(LiveMessage(1, message(stored)))
            if chance.random() < 0.3:
                fold(await played.told(readers[0]), copies, finals)
                true = "".join(part.text() for part in played.room.live[1].parts)
                assert "".join(part.text() for part in copies[0].parts) == true
                assert text.startswith(true)
        played.room.publish(finished(2, text))
        fold(await played.told(readers[0]), copies, finals)
        assert finals == [text]

    asyncio.run(play())


def fold(items: list[Any], copies: list[LiveMessage], finals: list[str]) -> None:
    for item in items:
        if isinstance(item, list):
            delta = Delta(*item)
            assert copies[0].parts or delta.offset == 0
            assert delta.offset == (copies[0].parts[0].length if copies[0].parts else 0)
            copies[0].apply(delta)
        elif item["type"] == "message.progress":
            copies[0] = LiveMessage(1, item["data"]["message"])
        elif item["type"] == "message.finished":
            said = item["data"]["message"]["parts"][0]["data"]
            if "length" in said:  # the words are those of the deltas
                known = copies[0].parts[0].text()
                assert len(known) == said["length"]
                finals.append(known)
            else:
                finals.append(said["text"])


# -- native readers


async def test_who_joins_is_given_the_open_messages_and_what_follows() -> None:
    played = Played()
    early = played.native()
    played.room.publish(started(1))
    played.room.stream(words(1, 0, "ab"))
    late = NativeReader(Wire.WS)

    (progress,) = played.room.join_native(late)
    played.room.stream(words(1, 2, "c"))

    assert progress == {"number": 1, "message": message("ab")}
    assert await played.told(late) == [[1, 0, 2, "c"]]
    assert (await played.told(early))[1:] == [[1, 0, 0, "ab", "text"], [1, 0, 2, "c"]]


async def test_each_wire_is_told_in_its_own_form() -> None:
    played = Played()
    ws = played.native()
    sse = NativeReader(Wire.SSE)
    played.room.join_native(sse)
    played.room.publish(started(1))
    played.room.stream(words(1, 5, "gap"))
    played.room.repair(LiveMessage(1, message("abcde")))
    played.room.flush_native()

    body = b"".join(chunk for chunk, _ in await sse.take()).decode()
    assert [line for line in body.split("\n") if line.startswith(("id", "event"))] == [
        "id: 1",
        "event: message.started",
        "event: message.progress",
        "event: deltas",
    ]
    assert len(await played.told(ws)) == 3


async def test_a_reader_that_overflows_resumes_at_what_it_was_handed() -> None:
    played = Played()
    reader = played.native(limit=2_000)
    for number in range(1, 4):
        played.room.publish(event(number))
        played.room.flush_native()
    for _, number in await reader.take():
        reader.sent_number = number or reader.sent_number

    for number in range(4, 104):
        played.room.publish(event(number))
        played.room.flush_native()

    assert reader.overflowed
    assert await reader.take() == []
    assert reader.sent_number == 3
    assert reader._size == 0  # it costs nothing more


async def test_a_chunk_of_words_does_not_move_the_cursor() -> None:
    played = Played()
    reader = played.native()
    played.room.publish(started(1))
    played.room.flush_native()
    played.room.stream(words(1, 0, "ab"))
    played.room.flush_native()

    assert [number for _, number in await reader.take()] == [1, 0]


async def test_one_slow_reader_does_not_keep_the_others_waiting() -> None:
    played = Played()
    slow, quick = played.native(limit=10), played.native()
    for number in range(1, 21):
        played.room.publish(event(number))
        played.room.flush_native()

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
    taking = [asyncio.create_task(native.take()), asyncio.create_task(v1.take(played.room))]
    await asyncio.sleep(0)

    played.room.leave(native)
    played.room.leave(v1)
    native.offer(b"x", 1)
    v1.offer(b"x", {1})

    assert played.room.is_empty
    assert await asyncio.wait_for(asyncio.gather(*taking), 10) == [[], b""]
    assert await native.take() == []
    assert await v1.take(played.room) == b""


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
    assert played.room._items == []
    assert played.room._finals == []


async def test_what_is_passed_on_goes_out_by_itself() -> None:
    played = Played()
    native, v1 = played.native(), played.v1()

    played.room.publish(started(1))

    async with asyncio.timeout(10):
        assert len(await native.take()) == 1
        assert b'"message"' in await v1.take(played.room)


# -- /v1 readers


async def test_v1_keeps_every_final_event_and_the_newest_state_alone() -> None:
    played = Played()
    reader = played.v1()
    played.room.publish(started(1))
    for offset in range(50):
        played.room.stream(words(1, offset, "x"))
        played.room.flush_v1()

    assert texts(await played.told_v1(reader)) == [("message", ""), ("message", "x" * 50)]


async def test_v1_conflates_each_message_for_itself() -> None:
    played = Played()
    reader = played.v1()
    played.room.publish(started(1, "a"))
    played.room.publish(started(2, "b"))
    for offset in range(5):
        played.room.stream(words(1, offset, "a"))
        played.room.stream(words(2, offset, "b"))
        played.room.flush_v1()
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
            played.room.flush_v1()

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
                played.room.flush_v1()
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

    first = played.room.v1_state(1)

    assert played.room.v1_state(1) is first
    played.room.stream(words(1, 2, "c"))
    assert played.room.v1_state(1) is not first
    assert played.room.v1_state(9) == b""


async def test_v1_beats_only_into_silence() -> None:
    played = Played()
    reader = played.v1()
    reader.beat()
    reader.beat()
    assert await reader.take(played.room) == b"\n"

    played.room.publish(started(1))
    played.room.flush_v1()
    reader.beat()

    assert not (await reader.take(played.room)).startswith(b"\n")


async def test_v1_goes_on_waiting_when_what_changed_is_over() -> None:
    played = Played()
    reader = played.v1()
    reader.offer(b"", {1})
    taking = asyncio.create_task(reader.take(played.room))
    await asyncio.sleep(0)
    assert not taking.done()

    played.room.publish(run_finished(1))
    played.room.flush_v1()

    assert b'"run_complete"' in await asyncio.wait_for(taking, 10)


async def test_long_messages_and_many_readers_are_told_less_often() -> None:
    played = Played()
    played.room.publish(started(1))
    few = played.room._v1_interval(0), played.room._native_interval()
    for _ in range(40):
        played.v1()
        played.native()
    many = played.room._v1_interval(0), played.room._native_interval()

    assert many > few
    assert played.room._v1_interval(20_000) >= 0.033 > many[0]
    played.room.close()
