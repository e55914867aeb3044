"""Open messages: whatever is lost or repeated on the way, the words come out exactly."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workspaces.delivery.open_message import Applied, LiveMessage, coalesced
from workspaces.log.types import CLOSING, STARTING, Delta, Header, Kind, StreamOnly

NUMBER = 7
CALL = {"type": "tool_call", "id": "c1", "name": "bash"}

# Astral characters, combining ones and joiners: an offset counts code points.
words = st.text(st.sampled_from("aé漢🦊👩\u200d🔬e\u0301\n"), max_size=12)
headers: st.SearchStrategy[Header] = st.sampled_from(["text", "reasoning", CALL])
drafts = st.lists(st.tuples(headers, words), max_size=4)
pick = st.randoms(use_true_random=False)


def wire(header: Header, text: str) -> dict[str, Any]:
    if header == "reasoning":
        return {"type": "reasoning", "data": {"thinking": text, "signature": ""}}
    if header == "text":
        return {"type": "text", "data": {"text": text}}
    return {"type": "tool_call", "data": {"id": "c1", "name": "bash", "input": text}}


def row(*parts: dict[str, Any]) -> LiveMessage:
    return LiveMessage(NUMBER, {"id": "m", "session_id": "s", "parts": list(parts)})


def texts(live: LiveMessage) -> list[str]:
    return [part.text() for part in live.parts]


def spoken(draft: list[tuple[Header, str]], chance: random.Random) -> list[Delta]:
    """The draft as its producer streams it: in order, in pieces."""
    deltas: list[Delta] = []
    for index, (header, text) in enumerate(draft):
        cuts = sorted({0, len(text), *(chance.randint(0, len(text)) for _ in range(3))})
        opening = [Delta(NUMBER, index, 0, "", header)] if chance.random() < 0.5 else []
        pieces = [Delta(NUMBER, index, a, text[a:b]) for a, b in pairwise(cuts)]
        if not opening:
            first = pieces[0].text if pieces else ""
            opening = [Delta(NUMBER, index, 0, first, header)]
            pieces = pieces[1:]
        deltas += [*opening, *pieces]
    return deltas


@given(drafts, pick)
def test_words_in_order_give_the_text(
    draft: list[tuple[Header, str]], chance: random.Random
) -> None:
    live = row()
    for delta in spoken(draft, chance):
        assert live.apply(delta) == (Applied.NEW, delta)

    assert live.to_wire()["parts"] == [wire(header, text) for header, text in draft]
    assert live.size == sum(len(text) for _, text in draft)


@given(drafts, pick)
def test_what_comes_again_changes_nothing(
    draft: list[tuple[Header, str]], chance: random.Random
) -> None:
    live = row()
    said: list[Delta] = []
    for delta in spoken(draft, chance):
        live.apply(delta)
        said.append(delta)
        before = (texts(live), live.size)
        for again in chance.choices(said, k=3):
            assert live.apply(again)[0] is Applied.KNOWN
        assert (texts(live), live.size) == before


@given(drafts, pick)
def test_losses_and_repeats_are_healed_by_the_row(
    draft: list[tuple[Header, str]], chance: random.Random
) -> None:
    deltas = spoken(draft, chance)
    produced, reader, copy = row(), row(), row()
    checkpoint = row()
    for delta in deltas:
        produced.apply(delta)
        if chance.random() < 0.3:
            checkpoint = row(*produced.to_wire()["parts"])
        arrivals = [delta] * chance.choice([0, 1, 1, 2])
        for arrival in arrivals:
            outcome, new = reader.apply(arrival)
            if outcome is Applied.GAP and checkpoint.covers(reader):
                reader = row(*checkpoint.to_wire()["parts"])
                copy = row(*checkpoint.to_wire()["parts"])  # readers are told the state whole
                outcome, new = reader.apply(arrival)
            if outcome is Applied.NEW:
                # What is passed on follows what was passed on before, without an overlap.
                assert copy.apply(new) == (Applied.NEW, new)
        for have, true in zip(texts(reader), texts(produced), strict=False):
            assert true.startswith(have)
        assert texts(copy) == texts(reader)

    assert produced.covers(reader)
    assert texts(produced) == [text for _, text in draft]


@given(words, st.integers(0, 12), st.integers(1, 12))
def test_a_delta_that_skips_words_is_refused(text: str, known: int, skipped: int) -> None:
    live = row(wire("text", text[:known]))
    delta = Delta(NUMBER, 0, len(text[:known]) + skipped, "later")

    assert live.apply(delta) == (Applied.GAP, delta)
    assert texts(live) == [text[:known]]


@pytest.mark.parametrize(("part", "offset"), [(1, 1), (2, 0), (9, 3)])
def test_a_part_that_begins_too_early_is_refused(part: int, offset: int) -> None:
    live = row(wire("text", "abc"))

    assert live.apply(Delta(NUMBER, part, offset, "x", "text"))[0] is Applied.GAP
    assert len(live.parts) == 1


@given(words, words, st.integers(0, 12))
def test_an_overlap_is_cut_to_what_is_new(old: str, new: str, back: int) -> None:
    live = row(wire("text", old))
    offset = max(0, len(old) - back)

    outcome, passed = live.apply(Delta(NUMBER, 0, offset, old[offset:] + new))

    assert texts(live) == [old + new]
    if new:
        assert outcome is Applied.NEW
        assert passed == Delta(NUMBER, 0, len(old), new)
    else:
        assert outcome is Applied.KNOWN


def test_an_offset_counts_code_points() -> None:
    live = row()
    live.apply(Delta(NUMBER, 0, 0, "🦊👩\u200d🔬", "text"))

    assert live.apply(Delta(NUMBER, 0, 4, "!"))[0] is Applied.NEW
    assert texts(live) == ["🦊👩\u200d🔬!"]


def test_a_header_that_comes_again_with_new_words_is_not_passed_on() -> None:
    live = row(wire("text", ""))

    outcome, passed = live.apply(Delta(NUMBER, 0, 0, "a", "text"))

    assert (outcome, passed) == (Applied.NEW, Delta(NUMBER, 0, 0, "a"))


def test_a_part_that_opens_without_a_header_is_text() -> None:
    live = row()

    assert live.apply(Delta(NUMBER, 0, 0, ""))[0] is Applied.NEW
    assert live.to_wire()["parts"] == [wire("text", "")]


def test_a_change_forgets_the_encoded_state_and_a_repeat_keeps_it() -> None:
    live = row(wire("text", "a"))
    live.encoded = b"a"

    live.apply(Delta(NUMBER, 0, 0, "a"))
    assert live.encoded == b"a"
    live.apply(Delta(NUMBER, 0, 5, "a"))
    assert live.encoded == b"a"

    live.apply(Delta(NUMBER, 0, 1, "b"))
    assert live.encoded is None

    for delta in (Delta(NUMBER, 0, 1, "bc"), Delta(NUMBER, 1, 0, "opens", "text")):
        live.encoded = b"ab"
        assert live.apply(delta)[0] is Applied.NEW
        assert live.encoded is None


def test_the_size_counts_every_character_once() -> None:
    live = row(wire("text", "abc"), wire("reasoning", "de"))
    assert live.size == 5

    for delta in (
        Delta(NUMBER, 1, 2, "f"),
        Delta(NUMBER, 1, 2, "fg"),
        Delta(NUMBER, 2, 0, "hij", "text"),
        Delta(NUMBER, 2, 0, "hij", "text"),
    ):
        live.apply(delta)

    assert live.size == sum(map(len, texts(live))) == 10


def test_as_json_a_message_has_each_of_its_fields_once() -> None:
    live = LiveMessage(
        NUMBER, {"id": "m", "parts": [wire("text", "a"), wire("reasoning", "b")], "model": "x"}
    )
    for text in ("b", "c"):
        live.apply(Delta(NUMBER, 1, live.parts[1].length, text))
        pairs = []

        def note(found: list[tuple[str, Any]], into: list[Any] = pairs) -> dict[str, Any]:
            into.append([name for name, _ in found])
            return dict(found)

        assert json.loads(live.json(), object_pairs_hook=note) == live.to_wire()
        assert sorted(pairs[-1]) == ["id", "model", "parts"]
    assert orjson.loads(LiveMessage(NUMBER, {}).json()) == {"parts": []}


@pytest.mark.parametrize(
    "part",
    [
        wire("text", "a"),
        {"type": "reasoning", "data": {"thinking": "a", "signature": "sig", "started_at": 5}},
        {"type": "tool_call", "data": {"id": "c", "name": "n", "input": "{}", "finished": True}},
        {"type": "tool_result", "data": {"tool_call_id": "c", "content": "x"}},
        {"type": "binary", "data": {"Path": "p", "MIMEType": "m", "Data": "ZGF0YQ=="}},
        {"type": "finish", "data": {"reason": "stop", "time": 0}},
    ],
)
def test_a_row_is_told_as_it_is_stored(part: dict[str, Any]) -> None:
    live = row(part)

    assert live.to_wire() == {"id": "m", "session_id": "s", "parts": [part]}


def test_a_stored_part_goes_on_growing() -> None:
    live = row({"type": "reasoning", "data": {"thinking": "hm", "signature": "", "started_at": 5}})

    live.apply(Delta(NUMBER, 0, 2, " yes"))

    assert live.to_wire()["parts"][0]["data"] == {
        "thinking": "hm yes",
        "signature": "",
        "started_at": 5,
    }


def test_fields_absent_from_a_row_are_empty() -> None:
    parts = [{"type": "text", "data": {}}, {"type": "reasoning", "data": {}}]
    parts.append({"type": "tool_call", "data": {"id": "c", "name": "n"}})

    assert texts(row(*parts)) == ["", "", ""]
    assert LiveMessage(NUMBER, {"id": "m"}).parts == []


def test_a_message_covers_another_when_it_has_every_word() -> None:
    more, less = row(wire("text", "abc"), wire("text", "")), row(wire("text", "ab"))

    assert more.covers(less)
    assert more.covers(more)
    assert not less.covers(more)
    assert not row(wire("text", "a"), wire("text", "x")).covers(less)
    assert not less.covers(row(wire("text", "ab"), wire("text", "")))


@given(drafts, pick)
def test_joined_deltas_say_the_same(draft: list[tuple[Header, str]], chance: random.Random) -> None:
    deltas = spoken(draft, chance)
    joined = coalesced(deltas)
    one_by_one, at_once = row(), row()
    for delta in deltas:
        one_by_one.apply(delta)
    for delta in joined:
        assert at_once.apply(delta)[0] is Applied.NEW

    assert at_once.to_wire() == one_by_one.to_wire()
    assert len(joined) == len(draft)


@given(drafts, pick)
def test_joining_does_not_hide_what_was_lost_or_repeated(
    draft: list[tuple[Header, str]], chance: random.Random
) -> None:
    deltas = [d for d in spoken(draft, chance) for _ in range(chance.choice([0, 1, 1, 2]))]
    one_by_one, at_once = row(), row()
    for delta in deltas:
        one_by_one.apply(delta)
    for delta in coalesced(deltas):
        at_once.apply(delta)

    assert at_once.to_wire() == one_by_one.to_wire()


def test_a_header_is_not_lost_behind_an_empty_delta() -> None:
    deltas = [Delta(1, 0, 0, ""), Delta(1, 0, 0, "a", "reasoning")]

    assert coalesced(deltas) == deltas


def test_words_of_two_messages_or_parts_are_not_joined() -> None:
    deltas = [
        Delta(1, 0, 0, "a", "text"),
        Delta(2, 0, 0, "b", "text"),
        Delta(1, 0, 1, "c"),
        Delta(1, 1, 2, "d"),
        Delta(1, 1, 3, "e"),
    ]

    assert coalesced(deltas) == [*deltas[:3], Delta(1, 1, 2, "de")]


def test_no_two_kinds_are_spelled_alike() -> None:
    kinds = [*Kind, *StreamOnly]

    assert len({kind.value for kind in kinds}) == len(kinds)
    assert set(Kind) > STARTING | CLOSING
    assert not STARTING & CLOSING


@given(drafts, pick)
def test_a_later_state_supplies_what_was_lost(
    draft: list[tuple[Header, str]], chance: random.Random
) -> None:
    parts = [wire(header, text) for header, text in draft]
    deltas = spoken(draft, chance)
    live = row()
    for delta in deltas[: chance.randint(0, len(deltas))]:
        live.apply(delta)
    before = texts(live)

    added = live.catch_up(parts)

    assert texts(live) == [text for _, text in draft]
    assert [part.header for part in live.parts] == [header for header, _ in draft]
    for delta in added:
        known = before[delta.part] if delta.part < len(before) else ""
        assert (delta.offset, known + delta.text) == (len(known), draft[delta.part][1])
    assert live.catch_up(parts) == []


def test_a_part_with_only_its_length_adds_nothing() -> None:
    live = row(wire("text", "known"))
    assert live.catch_up([{"type": "text", "data": {"length": 5}}]) == []
    assert texts(live) == ["known"]


def test_a_part_that_does_not_grow_is_added_as_it_is() -> None:
    live, finish = row(), {"type": "finish", "data": {"reason": "end_turn"}}
    assert live.catch_up([finish]) == []
    assert live.to_wire()["parts"] == [finish]
