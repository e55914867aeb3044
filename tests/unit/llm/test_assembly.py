import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.llm.assembly import ReplyAssembly, ReplyDelta
from agents.llm.contract import (
    ModelEvent,
    ReasoningDelta,
    ReasoningSigned,
    Restarted,
    Stopped,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolInputDelta,
)
from agents.llm.errors import ReplyTooLarge
from workspaces.log.parts import FinishReason, Reasoning, Text, ToolCall


def fold(*events: ModelEvent) -> tuple[ReplyAssembly, list[ReplyDelta | None]]:
    assembly = ReplyAssembly()
    return assembly, [assembly.apply(event, now=10) for event in events]


def test_words_join_to_one_part_with_their_offsets() -> None:
    assembly, deltas = fold(TextDelta("Hé"), TextDelta("🙂"), TextDelta("!"))
    assert deltas == [
        ReplyDelta(0, 0, "Hé", "text"),
        ReplyDelta(0, 2, "🙂", None),
        ReplyDelta(0, 3, "!", None),
    ]
    assert assembly.parts() == (Text("Hé🙂!"),)


def test_text_behind_a_call_is_a_new_part() -> None:
    assembly, deltas = fold(
        TextDelta("a"),
        ToolCallStarted("c1", "bash"),
        ToolInputDelta("c1", '{"x":'),
        ToolInputDelta("c1", "1}"),
        ToolCallFinished("c1"),
        TextDelta("b"),
    )
    header = {"type": "tool_call", "id": "c1", "name": "bash"}
    assert deltas == [
        ReplyDelta(0, 0, "a", "text"),
        ReplyDelta(1, 0, "", header),  # type: ignore[arg-type]
        ReplyDelta(1, 0, '{"x":', None),
        ReplyDelta(1, 5, "1}", None),
        None,
        ReplyDelta(2, 0, "b", "text"),
    ]
    assert assembly.parts() == (Text("a"), ToolCall("c1", "bash", '{"x":1}', True), Text("b"))


def test_parallel_calls_grow_beside_each_other() -> None:
    assembly, _ = fold(
        ToolCallStarted("a", "x"),
        ToolCallStarted("b", "y"),
        ToolInputDelta("a", "1"),
        ToolInputDelta("b", "2"),
        ToolInputDelta("a", "3"),
        ToolCallFinished("b"),
    )
    assert assembly.parts() == (ToolCall("a", "x", "13", False), ToolCall("b", "y", "2", True))


def test_reasoning_has_its_times_and_its_signature() -> None:
    assembly = ReplyAssembly()
    assembly.apply(ReasoningDelta("h"), now=5)
    assert assembly.parts(now=6) == (Reasoning("h", "", 5, 6),)
    assembly.apply(ReasoningDelta("m"), now=7)
    assembly.apply(ReasoningSigned("sig"), now=8)
    assembly.apply(TextDelta("x"), now=9)
    assert assembly.parts(now=99) == (Reasoning("hm", "sig", 5, 8), Text("x"))


def test_unsigned_reasoning_ends_where_the_next_part_begins() -> None:
    assembly = ReplyAssembly()
    assembly.apply(ReasoningDelta("h"), now=5)
    assembly.apply(TextDelta("x"), now=8)
    assert assembly.parts(now=99)[0] == Reasoning("h", "", 5, 8)


def test_signed_reasoning_is_closed_to_further_thoughts() -> None:
    assembly, deltas = fold(ReasoningDelta("a"), ReasoningSigned("s"), ReasoningDelta("b"))
    assert deltas == [ReplyDelta(0, 0, "a", "reasoning"), None, ReplyDelta(1, 0, "b", "reasoning")]
    assert [part.thinking for part in assembly.parts()] == ["a", "b"]  # type: ignore[union-attr]


def test_a_signature_alone_makes_an_empty_reasoning() -> None:
    assembly, deltas = fold(ReasoningSigned("one"), ReasoningSigned("two"))
    assert deltas == [ReplyDelta(0, 0, "", "reasoning"), ReplyDelta(1, 0, "", "reasoning")]
    assert [part.signature for part in assembly.parts()] == ["one", "two"]  # type: ignore[union-attr]


def test_the_same_call_id_twice_is_renamed() -> None:
    assembly, deltas = fold(
        ToolCallStarted("a", "x"),
        ToolInputDelta("a", "1"),
        ToolCallFinished("a"),
        ToolCallStarted("a", "y"),
        ToolInputDelta("a", "2"),
        ToolCallStarted("a-2", "z"),
    )
    calls = [(part.id, part.input) for part in assembly.parts() if isinstance(part, ToolCall)]
    assert calls == [("a", "1"), ("a-2", "2"), ("a-2-2", "")]
    assert deltas[3] is not None
    assert deltas[3].header == {"type": "tool_call", "id": "a-2", "name": "y"}


def test_ids_of_earlier_replies_are_not_used_again() -> None:
    assembly = ReplyAssembly(taken={"a", "a-2"})
    for event in (ToolCallStarted("a", "x"), ToolInputDelta("a", "1"), Restarted(2, "", 0.1)):
        assembly.apply(event)
        assert all(part == ToolCall("a-3", "x", part.input) for part in assembly.parts())  # type: ignore[union-attr]
    assembly.apply(ToolCallStarted("a", "x"))
    assert assembly.parts() == (ToolCall("a-3", "x"),)


def test_a_restart_forgets_everything() -> None:
    assembly, _ = fold(TextDelta("a"), ToolCallStarted("c", "x"), Restarted(2, "because", 0.5))
    assert assembly.empty
    assert assembly.size == 0
    assert assembly.apply(TextDelta("b")) == ReplyDelta(0, 0, "b", "text")
    assert assembly.apply(ToolInputDelta("c", "1")) is None


def test_the_end_is_remembered() -> None:
    stopped = Stopped(FinishReason.END_TURN)
    assembly, deltas = fold(TextDelta("a"), stopped)
    assert assembly.stopped == stopped
    assert deltas[-1] is None


def test_input_of_a_call_that_never_began_is_passed_over() -> None:
    assembly, deltas = fold(ToolInputDelta("x", "1"), ToolCallFinished("x"), TextDelta(""))
    assert deltas == [None, None, None]
    assert assembly.parts() == ()


def test_no_nul_reaches_the_database_and_offsets_stay_true() -> None:
    assembly, deltas = fold(TextDelta("a\x00b"), TextDelta("c"))
    assert assembly.parts() == (Text("a\ufffdbc"),)
    assert deltas[1] == ReplyDelta(0, 3, "c", None)


def test_a_reply_that_is_too_large_keeps_what_fitted() -> None:
    assembly = ReplyAssembly(limit=100)
    assembly.apply(TextDelta("x" * 30))
    with pytest.raises(ReplyTooLarge):
        assembly.apply(TextDelta("y" * 10))
    assert assembly.parts() == (Text("x" * 30),)


@pytest.mark.parametrize(
    "event", [ToolCallStarted("a", "x"), ReasoningSigned("x"), ReasoningDelta("x")]
)
def test_parts_without_end_are_refused(event: ModelEvent) -> None:
    assembly, _ = fold(*[event, TextDelta("x")] * 1_000)
    with pytest.raises(ReplyTooLarge):
        assembly.apply(event)


EVENTS = st.one_of(
    st.text(max_size=4).map(TextDelta),
    st.text(max_size=4).map(ReasoningDelta),
    st.sampled_from(["", "sig"]).map(ReasoningSigned),
    st.sampled_from("ab").map(lambda id: ToolCallStarted(id, "tool")),
    st.builds(ToolInputDelta, st.sampled_from("ab"), st.text(max_size=4)),
    st.sampled_from("ab").map(ToolCallFinished),
    st.just(Restarted(2, "", 0.1)),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(EVENTS, max_size=30))
def test_the_deltas_alone_give_the_same_parts(events: list[ModelEvent]) -> None:
    assembly = ReplyAssembly()
    texts: list[str] = []
    kinds: list[str] = []
    for event in events:
        delta = assembly.apply(event, now=1)
        if isinstance(event, Restarted):
            texts, kinds = [], []
        if delta is None:
            continue
        if delta.header is not None:
            assert delta.part == len(texts)
            texts.append("")
            kinds.append(delta.header if isinstance(delta.header, str) else "tool_call")
        assert delta.offset == len(texts[delta.part])
        texts[delta.part] += delta.text
    parts = assembly.parts(now=1)
    assert [part.kind for part in parts] == kinds
    said = [
        part.text if isinstance(part, Text)
        else part.thinking if isinstance(part, Reasoning)
        else part.input  # type: ignore[union-attr]
        for part in parts
    ]  # fmt: skip
    assert said == texts
    ids = [part.id for part in parts if isinstance(part, ToolCall)]
    assert len(ids) == len(set(ids))
