"""Text that is placed by offsets: any cut and any repetition give the same text."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crushclient.open_messages import Fit, OpenMessage

LETTERS = st.text(alphabet="ab é\n\u2028😀", max_size=60)
HEADERS = ("text", "reasoning", {"type": "tool_call", "id": "c1", "name": "ls"})


def message(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"id": "m", "session_id": "s", "role": "assistant", "parts": list(parts)}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "data": {"text": value}}


@given(LETTERS, st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=40))
def test_any_pieces_in_any_order_give_a_beginning_of_the_text(
    whole: str, spans: list[tuple[int, int]]
) -> None:
    opened = OpenMessage(1, message(text("")))
    pieces = []
    for start, length in spans:
        known = opened.parts[0].length
        start = min(start, len(whole))
        fit, piece = opened.add(0, start, whole[start : start + length], None)
        assert fit is (Fit.GAP if start > known else fit)
        assert fit is not Fit.CONTRADICTION
        pieces.append(piece.text)
        assert whole.startswith(opened.parts[0].text)
        assert "".join(pieces) == opened.parts[0].text
    opened.add(0, 0, whole, None)
    assert opened.parts[0].text == whole


@given(st.lists(LETTERS, min_size=1, max_size=3), st.integers(0, 2**32))
def test_any_replay_of_any_cut_gives_the_same_message(texts: list[str], seed: int) -> None:
    chance = random.Random(seed)
    deltas: list[tuple[int, int, str, Any]] = []
    for index, whole in enumerate(texts):
        at = 0
        while True:
            end = chance.randint(at, len(whole))
            deltas.append((index, at, whole[at:end], None if at else HEADERS[index % 3]))
            at = end
            if at == len(whole):
                break
    opened, shown = OpenMessage(1, message()), [""] * len(texts)
    at = 0
    while at < len(deltas):  # a reader that returns to an earlier position now and then
        fit, piece = opened.add(*deltas[at])
        assert fit in (Fit.NEW, Fit.KNOWN)
        shown[piece.part] += piece.text
        at = chance.randint(0, at) if chance.random() < 0.3 else at + 1
    assert [part.text for part in opened.parts] == texts
    assert shown == texts
    assert opened.extend(opened.to_wire()["parts"]) == []


@given(LETTERS, st.integers(0, 60), st.integers(0, 60))
def test_a_later_state_adds_what_is_missing_and_an_earlier_one_nothing(
    whole: str, mine: int, other: int
) -> None:
    opened = OpenMessage(1, message(text(whole[:mine])))
    pieces = opened.extend([text(whole[:other])])
    assert pieces is not None
    assert "".join(piece.text for piece in pieces) == whole[mine:other]
    assert opened.parts[0].text == max(whole[:mine], whole[:other], key=len)


def test_a_state_that_contradicts_changes_nothing() -> None:
    opened = OpenMessage(1, message(text("one")))
    assert opened.extend([text("two")]) is None
    assert opened.extend([{"type": "reasoning", "data": {"thinking": "one"}}]) is None
    assert opened.to_wire() == message(text("one"))


def test_text_that_contradicts_replaces_what_follows_its_offset() -> None:
    opened = OpenMessage(1, message(text("one two three")))
    assert opened.add(0, 4, "four", None)[0] is Fit.CONTRADICTION
    assert opened.parts[0].text == "one four"


@pytest.mark.parametrize(
    ("index", "offset", "header"), [(0, 4, None), (1, 0, None), (2, 0, "text"), (1, 1, "text")]
)
def test_text_after_a_gap_is_not_accepted(index: int, offset: int, header: str | None) -> None:
    opened = OpenMessage(1, message(text("one")))
    assert opened.add(index, offset, "x", header)[0] is Fit.GAP
    assert opened.to_wire() == message(text("one"))


def test_a_complete_message_gets_its_known_text_back() -> None:
    call = {"type": "tool_call", "data": {"id": "c", "name": "ls", "input": "{}", "finished": True}}
    opened = OpenMessage(1, message(text("one")))
    opened.add(1, 0, "{}", {"type": "tool_call", "id": "c", "name": "ls"})
    short_call = {"type": "tool_call", "data": {**call["data"], "length": 2}}  # type: ignore[dict-item]
    del short_call["data"]["input"]
    known = message({"type": "text", "data": {"length": 3}}, short_call)
    assert opened.with_text(known) == message(text("one"), call)
    assert opened.with_text(message({"type": "text", "data": {"length": 4}})) is None
    assert OpenMessage(1, message()).with_text(known) is None
