"""A room: words come out whole and in order, whatever is lost, late or repeated."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.delivery.played import Played, event, finished, message, numbers, started, words
from workspaces.delivery import room as rooms
from workspaces.delivery.open_message import LiveMessage
from workspaces.log.types import Delta, Kind


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
    played.room.live.adopt(live)
    played.room.live.adopt(LiveMessage(9, message()))  # not open here

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
