"""What connections receive, in any order in which connections may end, becomes one stream."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crushclient.items import LogEvent, MessageState, NewText, OtherItem, OutputSoFar, StreamLive
from crushclient.stream_fold import StreamBroken, StreamFold

WORDS = "one two three"


def message(text: str | None, *, length: int | None = None, ended: bool = False) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    if text is not None:
        parts.append({"type": "text", "data": {"text": text}})
    if length is not None:
        parts.append({"type": "text", "data": {"length": length}})
    if ended:
        parts.append({"type": "finish", "data": {"reason": "end_turn", "time": 1}})
    return {"id": "m", "session_id": "s", "role": "assistant", "parts": parts}


def event(number: int, kind: str, **data: Any) -> dict[str, Any]:
    return {"number": number, "type": kind, "data": data}


def opened(number: int) -> dict[str, Any]:
    return {"type": "stream.opened", "data": {"number": number}}


def progress(text: str, number: int = 1) -> dict[str, Any]:
    return {"type": "message.progress", "data": {"number": number, "message": message(text)}}


STARTED = event(1, "message.started", message=message(None))


class ServerLog:
    """What a server sends to a reader with a cursor, when so many letters were written."""

    def __init__(self, *, ended: bool, letters: int) -> None:
        self.ended = ended
        self.letters = letters

    def connection(self, after: int) -> list[Any]:
        finish = event(2, "message.finished", message=message(WORDS, ended=True))
        events = [
            each for each in [STARTED, finish][: 2 if self.ended else 1] if each["number"] > after
        ]
        if self.ended:
            return [*events, opened(2)]
        return [*events, progress(WORDS[: self.letters]), opened(1)]


@given(
    st.lists(st.tuples(st.integers(0, len(WORDS)), st.integers(0, 6)), max_size=12), st.booleans()
)
def test_each_letter_comes_once_however_often_the_connection_ends(
    visits: list[tuple[int, int]], sees_end: bool
) -> None:
    fold, shown, numbers = StreamFold(0), "", []
    written = 0
    visits = [*visits, (0, 100)]
    for at, (letters, taken) in enumerate(visits):
        is_last = at == len(visits) - 1
        written = len(WORDS) if is_last else max(written, letters)
        log = ServerLog(ended=is_last and not sees_end, letters=letters if not is_last else written)
        raws = log.connection(fold.cursor or 0)
        if not log.ended:
            start = log.letters
            raws += [[1, 0, at, WORDS[at : at + 2]] for at in range(start, written, 2)]
            if is_last:
                end = message(None, length=len(WORDS), ended=True)
                raws.append(event(2, "message.finished", message=end))
        for raw in raws[:taken]:
            for item in fold.take(raw):
                if isinstance(item, NewText):
                    assert item.offset == len(shown)
                    shown += item.text
                elif isinstance(item, MessageState):
                    shown = item.message["parts"][0]["data"]["text"]
                elif isinstance(item, LogEvent):
                    numbers.append(item.number)
    assert shown == WORDS
    assert numbers == [1, 2]


def test_a_finished_message_is_complete() -> None:
    fold = StreamFold(0)
    fold.take(STARTED)
    assert fold.take([1, 0, 0, "one", "text"]) == [NewText("s", "m", 1, 0, 0, "one", "text")]
    (end,) = fold.take(event(2, "message.finished", message=message(None, length=3, ended=True)))
    assert end == LogEvent(2, "message.finished", {"message": message("one", ended=True)})


def test_text_that_came_while_nobody_listened_comes_before_the_end() -> None:
    fold = StreamFold(0)
    fold.take(STARTED)
    fold.take([1, 0, 0, "one", "text"])
    words, end = fold.take(event(2, "message.finished", message=message("one two", ended=True)))
    assert words == NewText("s", "m", 1, 0, 3, " two", "text")
    assert isinstance(end, LogEvent)


@pytest.mark.parametrize("final", ["one", "other"])
def test_text_that_a_crash_lost_is_replaced(final: str) -> None:
    fold = StreamFold(0)
    fold.take(STARTED)
    fold.take([1, 0, 0, "one two", "text"])
    state, end = fold.take(event(2, "message.finished", message=message(final, ended=True)))
    assert state == MessageState(1, message(final, ended=True))
    assert isinstance(end, LogEvent)


def test_words_that_contradict_known_words_replace_them() -> None:
    fold = StreamFold(0)
    fold.take(STARTED)
    fold.take([1, 0, 0, "one two", "text"])
    assert fold.take(progress("one")) == []
    assert fold.take([1, 0, 3, " four"]) == [MessageState(1, message("one four"))]


def test_a_length_that_does_not_fit_is_read_again_and_then_accepted() -> None:
    fold = StreamFold(0)
    fold.take(STARTED)
    with pytest.raises(StreamBroken):
        fold.take(event(2, "message.finished", message=message(None, length=3, ended=True)))
    assert fold.cursor == 1
    words, _ = fold.take(event(2, "message.finished", message=message("one", ended=True)))
    assert words == NewText("s", "m", 1, 0, 0, "one", "text")


def test_a_message_that_was_open_before_comes_as_a_whole() -> None:
    fold = StreamFold(None)
    assert fold.take(progress("one", 7)) == [MessageState(7, message("one"))]
    assert fold.take(opened(9)) == [StreamLive(9)]
    assert fold.cursor == 9
    assert fold.take([7, 0, 3, " two"]) == [NewText("s", "m", 7, 0, 3, " two", "text")]


def test_a_restarted_message_begins_anew() -> None:
    fold = StreamFold(0)
    fold.take(STARTED)
    fold.take([1, 0, 0, "one", "text"])
    fold.take(event(2, "message.restarted", message=message(None), retry={}))
    assert fold.take([2, 0, 0, "two", "text"]) == [NewText("s", "m", 2, 0, 0, "two", "text")]
    with pytest.raises(StreamBroken):
        fold.take([1, 0, 3, " more"])


def test_a_tool_call_comes_with_its_name() -> None:
    fold = StreamFold(0)
    fold.take(STARTED)
    header = {"type": "tool_call", "id": "c1", "name": "ls"}
    (first,) = fold.take([1, 0, 0, "{", header])
    (second,) = fold.take([1, 0, 1, "}"])
    assert isinstance(first, NewText)
    assert (first.kind, first.header) == ("tool_call", {"id": "c1", "name": "ls"})
    assert isinstance(second, NewText)
    assert second.header is None


def test_a_deleted_session_takes_its_open_messages_along() -> None:
    fold = StreamFold(0)
    fold.take(STARTED)
    fold.take(event(2, "session.deleted", session={"id": "s"}))
    with pytest.raises(StreamBroken):
        fold.take([1, 0, 0, "one", "text"])


def test_known_events_are_dropped_and_missing_ones_noticed() -> None:
    fold = StreamFold(3)
    assert fold.take(event(3, "config.changed", workspace_id="w")) == []
    with pytest.raises(StreamBroken):
        fold.take(event(5, "config.changed", workspace_id="w"))
    with pytest.raises(StreamBroken):
        fold.take(opened(4))
    assert fold.take(opened(3)) == [StreamLive(3)]


@pytest.mark.parametrize(
    "raw",
    [
        7,
        None,
        {},
        {"type": "stream.opened"},
        {"number": 1},
        [1],
        [1, 0, "x", "y"],
        {"number": 1, "type": "message.started", "data": {}},
    ],
)
def test_malformed_items_break_the_stream_and_nothing_else(raw: Any) -> None:
    fold = StreamFold(0)
    with pytest.raises(StreamBroken):
        fold.take(raw)
    assert fold.cursor == 0


def test_other_items() -> None:
    fold = StreamFold(0)
    data = {"session_id": "s", "message_id": "m", "tool_call_id": "c", "text": "out"}
    assert fold.take({"type": "tool.output", "data": data}) == [OutputSoFar("s", "m", "c", "out")]
    assert fold.take({"type": "stream.resume", "data": {"after": 0}}) == []
    assert fold.take({"type": "news", "data": {"a": 1}}) == [OtherItem("news", {"a": 1})]
