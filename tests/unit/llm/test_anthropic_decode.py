import json
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.llm.contract import (
    ModelEvent,
    ReasoningDelta,
    ReasoningSigned,
    Stopped,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolInputDelta,
    Usage,
)
from agents.llm.errors import BrokenStream, ModelError, Overloaded
from agents.llm.sse_lines import SseLines
from agents.llm.wires.anthropic_decode import AnthropicDecoder
from workspaces.log.parts import FinishReason


def decoder() -> AnthropicDecoder:
    numbers = count(1)
    return AnthropicDecoder(lambda _: Overloaded("as told"), lambda: f"made-{next(numbers)}")


def decode(*events: dict[str, Any], end: bool = True) -> list[ModelEvent]:
    reading = decoder()
    found: list[ModelEvent] = []
    for event in events:
        found += reading.feed(json.dumps(event).encode())
    if end:
        found += reading.feed(b'{"type":"message_stop"}')
    return found


def start(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, **said: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": said}


def stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def reason(said: str, **usage: int) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": said}, "usage": usage}


RECORDED = rb"""event: message_start
data: {"type":"message_start","message":{"id":"msg_01","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":12,"cache_creation_input_tokens":300,"cache_read_input_tokens":2000,"output_tokens":1,"service_tier":"standard"}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"The user wants"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqQB"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"CkYI"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: ping
data: {"type": "ping"}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"I look"}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: content_block_start
data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_01","name":"bash","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"command\": \"ls\"}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":2}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":57}}

event: message_stop
data: {"type":"message_stop"}

"""


def test_a_recorded_reply_with_thinking_and_a_call_is_understood() -> None:
    reading, events = decoder(), []
    for data in SseLines().feed(RECORDED):
        events += reading.feed(data)
    usage = Usage(input=12, output=57, cache_read=2000, cache_write=300)
    assert events == [
        ReasoningDelta("The user wants"),
        ReasoningSigned("EqQBCkYI"),
        TextDelta("I look"),
        ToolCallStarted("toolu_01", "bash"),
        ToolInputDelta("toolu_01", '{"command": "ls"}'),
        ToolCallFinished("toolu_01"),
        Stopped(FinishReason.TOOL_USE, usage),
    ]


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("end_turn", FinishReason.END_TURN),
        ("stop_sequence", FinishReason.END_TURN),
        ("max_tokens", FinishReason.MAX_TOKENS),
        ("tool_use", FinishReason.TOOL_USE),
        ("refusal", FinishReason.CONTENT_FILTER),
        ("pause_turn", FinishReason.UNKNOWN),
    ],
)
def test_every_stop_reason_has_a_meaning(said: str, meant: FinishReason) -> None:
    assert decode(reason(said)) == [Stopped(meant)]


def test_thinking_that_the_provider_encrypted_is_kept_as_a_signature() -> None:
    events = decode(start(0, type="redacted_thinking", data="xyz"), stop(0), reason("end_turn"))
    assert events[0] == ReasoningSigned("redacted:xyz")


def test_input_may_stand_in_the_start_of_its_block() -> None:
    begun = start(0, type="tool_use", id="a", name="bash", input={"k": 1})
    assert decode(begun, stop(0), reason("tool_use"))[1] == ToolInputDelta("a", '{"k":1}')


def test_missing_and_repeated_ids_are_made_up() -> None:
    events = decode(
        start(0, type="tool_use", name="x"),
        start(1, type="tool_use", id="a", name="y"),
        start(2, type="tool_use", id="a", name="z"),
    )
    ids = [event.id for event in events if isinstance(event, ToolCallStarted)]
    assert ids == ["made-1", "a", "made-2"]


def test_a_block_left_open_is_finished_at_the_end() -> None:
    events = decode(start(0, type="tool_use", id="a", name="x"), reason("tool_use"))
    assert events[-2:] == [ToolCallFinished("a"), Stopped(FinishReason.TOOL_USE)]


def test_a_block_left_open_by_the_length_is_not_finished() -> None:
    events = decode(start(0, type="tool_use", id="a", name="x"), reason("max_tokens"))
    assert ToolCallFinished("a") not in events


def test_an_error_in_the_stream_is_raised_as_told() -> None:
    with pytest.raises(Overloaded, match="as told"):
        decode({"type": "error", "error": {"type": "overloaded_error", "message": "x"}})


def test_an_end_without_a_stop_reason_is_a_broken_stream() -> None:
    reading = decoder()
    reading.feed(json.dumps(delta(0, type="text_delta", text="x")).encode())
    with pytest.raises(BrokenStream):
        reading.end()


def test_an_end_after_the_stop_reason_is_in_order() -> None:
    reading = decoder()
    reading.feed(json.dumps(reason("end_turn", output_tokens=3)).encode())
    assert reading.end() == [Stopped(FinishReason.END_TURN, Usage(output=3))]
    assert reading.end() == []


def test_blocks_of_an_unknown_kind_are_passed_over() -> None:
    assert decode(
        start(0, type="server_tool_use", id="x"),
        delta(0, type="input_json_delta", partial_json="{}"),
        delta(0, type="citations_delta", citation={}),
        {"type": "invented"},
        stop(0),
        reason("end_turn"),
    ) == [Stopped(FinishReason.END_TURN)]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


def hostile(**known: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return JSON | st.fixed_dictionaries({}, optional=known)


KINDS = st.sampled_from(
    ["message_start", "content_block_start", "content_block_delta", "content_block_stop",
     "message_delta", "message_stop", "ping", "error"]
)  # fmt: skip
BLOCKS = st.sampled_from(["text", "thinking", "redacted_thinking", "tool_use"]) | JSON
DELTAS = (
    st.sampled_from(["text_delta", "thinking_delta", "signature_delta", "input_json_delta"]) | JSON
)
BLOCK = hostile(
    type=BLOCKS, text=JSON, thinking=JSON, data=JSON, id=JSON, name=JSON, input=JSON, signature=JSON
)
DELTA = hostile(
    type=DELTAS, text=JSON, thinking=JSON, signature=JSON, partial_json=JSON, stop_reason=JSON
)
EVENT = hostile(
    type=KINDS, index=JSON, content_block=BLOCK, delta=DELTA, usage=JSON, message=JSON, error=JSON
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(EVENT.map(lambda event: json.dumps(event).encode()) | st.binary(max_size=8)))
def test_hostile_events_end_in_events_or_a_model_error(chunks: list[bytes]) -> None:
    reading = decoder()
    events: list[ModelEvent] = []
    try:
        for chunk in chunks:
            events += reading.feed(chunk)
        events += reading.end()
    except ModelError:
        assert not reading.stopped
        return
    assert sum(isinstance(event, Stopped) for event in events) == 1
    assert isinstance(events[-1], Stopped)


def test_the_model_that_replied_is_named_at_the_start() -> None:
    begun = {"type": "message_start", "message": {"model": "claude-x", "usage": {}}}
    assert decode(begun, reason("end_turn"))[-1].model == "claude-x"
    assert decode({"type": "message_start", "message": 1}, reason("end_turn"))[-1].model == ""
