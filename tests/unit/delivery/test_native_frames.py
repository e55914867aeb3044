"""Events and deltas on the native streams."""

from __future__ import annotations

from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from workspaces.delivery import native_frames
from workspaces.delivery.native_frames import Item
from workspaces.delivery.open_message import LiveMessage
from workspaces.log.transaction import RecordedEvent
from workspaces.log.types import Delta, Kind, StreamOnly

CALL = {"type": "tool_call", "id": "c1", "name": "bash"}


def event(
    number: int, payload: dict[str, Any] | None = None, kind: str = Kind.RUN_STARTED
) -> RecordedEvent:
    data = {"n": number} if payload is None else payload
    return RecordedEvent("w", number, kind, "s", data, orjson.dumps(data), 1_794_993_635_123)


def blocks(sse: bytes) -> list[dict[str, str]]:
    """The stream as a browser reads it: one dict of fields a block."""
    assert sse.endswith(b"\n\n")
    assert sse.decode().splitlines() == sse[:-1].decode().split("\n")  # no other line breaks
    found = []
    for block in sse.decode()[:-2].split("\n\n"):
        lines = [line.partition(": ") for line in block.split("\n")]
        assert len({name for name, _, _ in lines}) == len(lines)
        found.append({name: value for name, _, value in lines})
    return found


characters = st.characters(exclude_categories=["Cs"]) | st.sampled_from("\x85\u2028\u2029")
texts = st.text(characters, max_size=12)
deltas = st.builds(
    Delta,
    st.integers(1, 3),
    st.integers(0, 2),
    st.integers(0, 40),
    texts,
    st.sampled_from([None, "text", "reasoning", CALL]),
)
items = st.lists(st.builds(event, st.integers(1, 9), st.fixed_dictionaries({"t": texts})) | deltas)


def test_an_event_names_its_number_and_kind() -> None:
    told = orjson.loads(native_frames.event_json(event(7, {"run": {"id": "r"}})))

    assert told == {"number": 7, "type": "run.started", "data": {"run": {"id": "r"}}}


def test_the_payload_goes_out_byte_for_byte_as_it_is_stored() -> None:
    stored = RecordedEvent("w", 1, "run.started", "", {}, b'{"a":  1}', 0)

    assert native_frames.event_json(stored).endswith(b'"data":{"a":  1}}')


def test_words_that_came_as_deltas_come_as_their_length_at_the_end() -> None:
    parts = [
        {"type": "reasoning", "data": {"thinking": "hm", "signature": "s"}},
        {"type": "text", "data": {"text": "said"}},
        {"type": "finish", "data": {"reason": "end_turn", "time": 1}},
    ]
    live = LiveMessage(3, {"id": "m", "parts": parts[:2]})
    whole = {"message": {"id": "m", "parts": parts}}

    brief = native_frames.without_known_text(event(7, whole), live)

    assert orjson.loads(brief.payload_json)["message"]["parts"] == [
        {"type": "reasoning", "data": {"signature": "s", "length": 2}},
        {"type": "text", "data": {"length": 4}},
        parts[2],
    ]
    assert event(7, whole).payload["message"]["parts"] == parts


def test_words_that_differ_from_the_deltas_come_whole() -> None:
    parts = [{"type": "text", "data": {"text": "said and more"}}]
    live = LiveMessage(3, {"id": "m", "parts": [{"type": "text", "data": {"text": "said"}}]})
    whole = {"message": {"id": "m", "parts": parts}}

    brief = native_frames.without_known_text(event(7, whole), live)

    assert orjson.loads(brief.payload_json)["message"]["parts"] == parts


def test_a_part_without_words_and_one_of_another_type_come_as_they_are() -> None:
    parts = [
        {"type": "text", "data": {"text": ""}},
        {"type": "finish", "data": {"reason": "canceled", "time": 1}},
    ]
    known = [{"type": "text", "data": {"text": ""}}, {"type": "text", "data": {"text": "dropped"}}]
    live = LiveMessage(3, {"id": "m", "parts": known})

    brief = native_frames.without_known_text(event(7, {"message": {"parts": parts}}), live)

    assert orjson.loads(brief.payload_json)["message"]["parts"] == parts


def test_an_sse_event_carries_its_cursor() -> None:
    (block,) = blocks(native_frames.sse_event(event(7)))

    assert (block["id"], block["event"]) == ("7", "run.started")
    assert orjson.loads(block["data"])["number"] == 7


def test_what_is_not_in_the_log_has_no_cursor() -> None:
    (block,) = blocks(native_frames.sse_stream_only(StreamOnly.RESUME, {"after": 7}))

    assert block["event"] == "stream.resume"
    assert "id" not in block
    assert orjson.loads(block["data"]) == {"type": "stream.resume", "data": {"after": 7}}


def test_the_opening_may_set_the_cursor() -> None:
    (block,) = blocks(native_frames.sse_stream_only(StreamOnly.OPENED, {"number": 0}, number=0))

    assert block["id"] == "0"


def test_a_delta_is_a_short_array() -> None:
    assert native_frames.delta_json(Delta(5, 0, 12, " word")) == b'[5,0,12," word"]'


def test_the_first_delta_of_a_part_says_what_it_is() -> None:
    assert orjson.loads(native_frames.delta_json(Delta(5, 1, 0, "{", CALL))) == [5, 1, 0, "{", CALL]
    assert native_frames.delta_json(Delta(5, 0, 0, "", "text")) == b'[5,0,0,"","text"]'


def test_neighbouring_deltas_leave_as_one() -> None:
    said: list[Item] = [
        Delta(5, 0, 0, "a", "text"),
        Delta(5, 0, 1, "b"),
        event(6),
        Delta(5, 0, 2, "c"),
    ]

    assert orjson.loads(native_frames.ws_batch(said)) == [
        [5, 0, 0, "ab", "text"],
        orjson.loads(native_frames.event_json(event(6))),
        [5, 0, 2, "c"],
    ]
    assert [block["event"] for block in blocks(native_frames.sse_batch(said))] == [
        "deltas",
        "run.started",
        "deltas",
    ]


def read_ws(body: bytes) -> list[Any]:
    return list(orjson.loads(body))


def read_sse(body: bytes) -> list[Any]:
    read: list[Any] = []
    for block in blocks(body) if body else []:
        data = orjson.loads(block["data"])
        if block["event"] == "deltas":
            read += data
        else:
            assert block["id"] == str(data["number"])
            read.append(data)
    return read


@given(items)
def test_both_transports_say_the_same_in_the_same_order(said: list[Item]) -> None:
    ws, sse = native_frames.ws_batch(said), native_frames.sse_batch(said)

    assert read_ws(ws) == read_sse(sse)
    events = [item.number for item in said if isinstance(item, RecordedEvent)]
    assert [item["number"] for item in read_ws(ws) if isinstance(item, dict)] == events
    words = "".join(item.text for item in said if isinstance(item, Delta))
    assert "".join(item[3] for item in read_ws(ws) if isinstance(item, list)) == words


def test_what_is_beside_the_log_stands_on_one_line_too() -> None:
    data = {"text": "a\u2028b\u2029c\x85d"}
    (block,) = blocks(native_frames.sse_stream_only(StreamOnly.OUTPUT, data))
    assert orjson.loads(block["data"])["data"] == data


def test_nothing_to_say_is_nothing() -> None:
    assert native_frames.sse_batch([]) == b""
    assert native_frames.ws_batch([]) == b"[]"


def test_one_body_is_a_message_of_one() -> None:
    assert native_frames.ws_one(b'{"a":1}') == b'[{"a":1}]'


def test_heartbeats_say_nothing() -> None:
    assert native_frames.SseFrames.heartbeat.startswith(b":")
    assert native_frames.SseFrames.heartbeat.endswith(b"\n\n")
    assert orjson.loads(native_frames.WsFrames.heartbeat) == []
