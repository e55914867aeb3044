import json
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.llm.contract import (
    ModelEvent,
    ReasoningDelta,
    Stopped,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolInputDelta,
    Usage,
)
from agents.llm.errors import BrokenStream, ModelError, Overloaded
from agents.llm.sse_lines import SseLines
from agents.llm.wires.openai_decode import OpenAIDecoder
from workspaces.log.parts import FinishReason


def decoder() -> OpenAIDecoder:
    numbers = count(1)
    return OpenAIDecoder(lambda _: Overloaded("as told"), lambda: f"made-{next(numbers)}")


def decode(*chunks: Any, done: bool = True) -> list[ModelEvent]:
    """Each chunk is a delta with a reason, or a whole chunk."""
    reading = decoder()
    events: list[ModelEvent] = []
    for chunk in chunks:
        events += reading.feed(json.dumps(chunk).encode())
    events += reading.feed(b"[DONE]") if done else reading.end()
    assert reading.stopped
    return events


def delta(finish: str | None = None, **said: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": said, "finish_reason": finish}]}


def call(index: int | None, id: str | None, name: str | None, args: str | None) -> dict[str, Any]:
    raw: dict[str, Any] = {"type": "function", "function": {"name": name, "arguments": args}}
    if index is not None:
        raw["index"] = index
    if id is not None:
        raw["id"] = id
    return delta(tool_calls=[raw])


def calls_of(events: list[ModelEvent]) -> list[tuple[str, str, str]]:
    """(id, name, input) of each call, which must also have been finished."""
    found = []
    for event in events:
        if isinstance(event, ToolCallStarted):
            pieces = [e.text for e in events if isinstance(e, ToolInputDelta) and e.id == event.id]
            assert ToolCallFinished(event.id) in events
            found.append((event.id, event.name, "".join(pieces)))
    return found


RECORDED = rb"""data: {"id":"chatcmpl-9x","object":"chat.completion.chunk","created":1730000000,"model":"gpt-4o-2024-08-06","service_tier":"default","system_fingerprint":"fp_x","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-9x","object":"chat.completion.chunk","created":1730000000,"model":"gpt-4o-2024-08-06","choices":[{"index":0,"delta":{"content":"Looking"},"logprobs":null,"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-9x","object":"chat.completion.chunk","created":1730000000,"model":"gpt-4o-2024-08-06","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_abc","type":"function","function":{"name":"bash","arguments":""}}]},"logprobs":null,"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-9x","object":"chat.completion.chunk","created":1730000000,"model":"gpt-4o-2024-08-06","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"command\":"}}]},"logprobs":null,"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-9x","object":"chat.completion.chunk","created":1730000000,"model":"gpt-4o-2024-08-06","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"call_def","type":"function","function":{"name":"view","arguments":""}}]},"logprobs":null,"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-9x","object":"chat.completion.chunk","created":1730000000,"model":"gpt-4o-2024-08-06","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"ls\"}"}}]},"logprobs":null,"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-9x","object":"chat.completion.chunk","created":1730000000,"model":"gpt-4o-2024-08-06","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]},"logprobs":null,"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-9x","object":"chat.completion.chunk","created":1730000000,"model":"gpt-4o-2024-08-06","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"tool_calls"}],"usage":null}

data: {"id":"chatcmpl-9x","object":"chat.completion.chunk","created":1730000000,"model":"gpt-4o-2024-08-06","choices":[],"usage":{"prompt_tokens":1200,"completion_tokens":40,"total_tokens":1240,"prompt_tokens_details":{"cached_tokens":1024,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}}

data: [DONE]

"""


def test_a_recorded_reply_with_parallel_calls_is_understood() -> None:
    reading, events = decoder(), []
    for data in SseLines().feed(RECORDED):
        events += reading.feed(data)
    assert events[0] == TextDelta("Looking")
    assert calls_of(events) == [
        ("call_abc", "bash", '{"command":"ls"}'),
        ("call_def", "view", "{}"),
    ]
    assert events[-1] == Stopped(
        FinishReason.TOOL_USE, Usage(input=176, output=40, cache_read=1024)
    )


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_comes_under_either_name(field: str) -> None:
    events = decode(delta(**{field: "hm", "content": ""}), delta("stop", content="yes"))
    assert events[:2] == [ReasoningDelta("hm"), TextDelta("yes")]


def test_reasoning_stands_before_the_text_of_its_chunk() -> None:
    events = decode(delta(content="yes", reasoning_content="hm"), delta("stop"))
    assert events[:2] == [ReasoningDelta("hm"), TextDelta("yes")]


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("stop", FinishReason.END_TURN),
        ("length", FinishReason.MAX_TOKENS),
        ("tool_calls", FinishReason.TOOL_USE),
        ("content_filter", FinishReason.CONTENT_FILTER),
        ("something", FinishReason.UNKNOWN),
    ],
)
def test_every_finish_reason_has_a_meaning(said: str, meant: FinishReason) -> None:
    assert decode(delta(content="x"), delta(said))[-1] == Stopped(meant)


def test_a_refusal_is_shown_and_counts_as_filtered() -> None:
    events = decode(delta(refusal="I must not."), delta("stop"))
    assert events == [TextDelta("I must not."), Stopped(FinishReason.CONTENT_FILTER)]


def test_calls_make_a_tool_use_of_a_plain_stop() -> None:
    events = decode(call(0, "a", "bash", "{}"), delta("stop"))
    assert events[-1] == Stopped(FinishReason.TOOL_USE)


def test_missing_ids_are_made_up() -> None:
    events = decode(call(0, None, "bash", "{}"), call(1, "", "view", "{}"), delta("tool_calls"))
    assert calls_of(events) == [("made-1", "bash", "{}"), ("made-2", "view", "{}")]


def test_the_same_id_twice_is_made_unique() -> None:
    events = decode(call(0, "a", "bash", "1"), call(1, "a", "view", "2"), delta("stop"))
    assert calls_of(events) == [("a", "bash", "1"), ("made-1", "view", "2")]


def test_several_calls_under_one_index_stay_apart() -> None:
    events = decode(call(0, "a", "bash", "1"), call(0, "b", "view", "2"), delta("stop"))
    assert calls_of(events) == [("a", "bash", "1"), ("b", "view", "2")]


def test_calls_without_index_are_told_apart_by_id() -> None:
    events = decode(
        call(None, "a", "bash", "1"),
        call(None, "b", "view", "2"),
        call(None, "a", None, "3"),
        call(None, None, None, "4"),
        delta("stop"),
    )
    assert calls_of(events) == [("a", "bash", "134"), ("b", "view", "2")]


def test_an_id_that_is_repeated_in_each_piece_is_one_call() -> None:
    events = decode(call(0, "a", "bash", "1"), call(0, "a", "bash", "2"), delta("stop"))
    assert calls_of(events) == [("a", "bash", "12")]


def test_input_that_comes_before_the_name_is_kept() -> None:
    events = decode(call(0, "a", None, "1"), call(0, None, "bash", "2"), delta("stop"))
    assert calls_of(events) == [("a", "bash", "12")]


def test_a_call_that_never_gets_a_name_is_told_as_unknown() -> None:
    assert calls_of(decode(call(0, "a", None, "1"), delta("stop"))) == [("a", "unknown", "1")]


def test_arguments_may_be_an_object() -> None:
    chunk = delta(
        tool_calls=[{"index": 0, "id": "a", "function": {"name": "x", "arguments": {"k": 1}}}]
    )
    assert calls_of(decode(chunk, delta("stop"))) == [("a", "x", '{"k":1}')]


def test_a_call_cut_by_the_length_is_not_finished() -> None:
    events = decode(call(0, "a", "bash", "{}"), call(1, "b", "bash", '{"c'), delta("length"))
    assert events[-2:] == [ToolCallFinished("a"), Stopped(FinishReason.MAX_TOKENS)]


def test_the_end_is_in_order_after_a_finish_reason() -> None:
    assert decode(delta(content="x"), delta("stop"), done=False)[-1] == Stopped(
        FinishReason.END_TURN
    )


def test_an_end_without_a_finish_reason_is_a_broken_stream() -> None:
    with pytest.raises(BrokenStream):
        decode(delta(content="x"), done=False)


def test_nothing_follows_the_end() -> None:
    reading = decoder()
    assert len(reading.feed(b"[DONE]")) == 1
    assert reading.feed(b"[DONE]") == reading.end() == []


def test_an_error_in_the_stream_is_raised_as_told() -> None:
    with pytest.raises(Overloaded, match="as told"):
        decoder().feed(b'{"error": {"message": "x"}}')


def test_an_error_beside_choices_is_raised_as_well() -> None:
    with pytest.raises(Overloaded):
        decoder().feed(json.dumps({**delta("error", content=""), "error": {"code": 502}}).encode())


def test_content_may_come_in_blocks() -> None:
    blocks = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "yes"},
    ]
    assert decode(delta(content=blocks), delta("stop"))[:2] == [
        ReasoningDelta("hm"),
        TextDelta("yes"),
    ]


def test_half_of_a_surrogate_pair_breaks_nothing() -> None:
    events = decoder().feed(rb'{"choices":[{"delta":{"content":"a\ud83d"}}]}')
    assert events == [TextDelta("a?")]


def test_calls_without_end_are_a_broken_stream() -> None:
    reading = decoder()
    for number in range(256):
        reading.feed(json.dumps(call(number, f"c{number}", "x", "")).encode())
    with pytest.raises(BrokenStream):
        reading.feed(json.dumps(call(256, "c256", "x", "")).encode())


@pytest.mark.parametrize(("said", "kept"), [("x" * 128, "x" * 128), ("x" * 129, "made-1")])
def test_an_id_that_is_too_long_becomes_one_of_ours(said: str, kept: str) -> None:
    started = decode(call(0, said, "ls", "{}"))[0]
    assert started == ToolCallStarted(kept, "ls")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


def hostile(**known: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return JSON | st.fixed_dictionaries({}, optional=known)


FUNCTION = hostile(name=JSON, arguments=JSON)
CALL = hostile(index=JSON, id=JSON, function=FUNCTION)
DELTA = hostile(
    content=JSON, reasoning=JSON, refusal=JSON, tool_calls=JSON | st.lists(CALL, max_size=3)
)
CHOICE = hostile(delta=DELTA, finish_reason=JSON, usage=JSON)
USAGE = hostile(prompt_tokens=JSON, completion_tokens=JSON, prompt_tokens_details=JSON)
CHUNK = hostile(choices=JSON | st.lists(CHOICE, max_size=2), usage=USAGE, error=JSON)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(CHUNK.map(lambda chunk: json.dumps(chunk).encode()) | st.binary(max_size=8)))
def test_hostile_chunks_end_in_events_or_a_model_error(chunks: list[bytes]) -> None:
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
    ids = [event.id for event in events if isinstance(event, ToolCallStarted)]
    assert len(ids) == len(set(ids))
    assert all(type(event.text) is str for event in events if isinstance(event, TextDelta))


@pytest.mark.parametrize("data", [b"", b"null", b"[]", b"{", b"\xff", b"[" * 100_000, b"1e999"])
def test_what_is_no_object_is_a_broken_stream(data: bytes) -> None:
    with pytest.raises(BrokenStream):
        decoder().feed(data)


def test_the_model_that_replied_is_the_one_of_the_first_chunk_that_has_one() -> None:
    events = decode(
        {"model": 7, **delta(content="a")},
        {"model": "gpt-x\0-2026", **delta(content="b")},
        {"model": "other", **delta("stop")},
    )
    assert events[-1].model == "gpt-x\N{REPLACEMENT CHARACTER}-2026"
    assert decode(delta("stop"))[-1].model == ""
    assert len(decode({"model": "m" * 500, **delta("stop")})[-1].model) == 200
