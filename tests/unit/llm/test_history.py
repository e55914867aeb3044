import json
from itertools import pairwise

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.llm.history import NO_RESULT, AssistantTurn, UserTurn, repaired, system_of
from agents.turn.transcript import TurnMessage
from tests.doubles.conversation import assistant, tool, user
from workspaces.log.parts import (
    Finish,
    FinishReason,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
)


def call(id: str, input: str = "{}", name: str = "bash") -> ToolCall:
    return ToolCall(id, name, input, finished=True)


def result(id: str, content: str = "ok") -> ToolResult:
    return ToolResult(id, "bash", content)


def replies(*messages: TurnMessage) -> list[AssistantTurn]:
    return [turn for turn in repaired(messages) if isinstance(turn, AssistantTurn)]


def test_results_stand_behind_their_calls_in_the_order_of_the_calls() -> None:
    (turn,) = replies(
        user("x"), assistant(call("a"), call("b")), tool(result("b", "2")), tool(result("a", "1"))
    )
    assert [found.content for found in turn.results] == ["1", "2"]


def test_a_call_without_a_result_is_told_as_an_error() -> None:
    (turn,) = replies(user("x"), assistant(call("a")), user("y"))
    assert turn.results == (ToolResult("a", "bash", NO_RESULT, is_error=True),)


def test_a_result_without_a_call_is_dropped() -> None:
    turns = repaired([user("x"), tool(result("a")), assistant("y"), tool(result("b")), user("z")])
    assert [type(turn) for turn in turns] == [UserTurn, AssistantTurn, UserTurn]


def test_a_result_behind_a_folded_prompt_is_found() -> None:
    turns = repaired([user("x"), assistant(call("a")), user("y"), tool(result("a", "late"))])
    assert isinstance(turns[1], AssistantTurn)
    assert turns[1].results[0].content == "late"
    assert turns[2] == UserTurn((Text("y"),))


def test_a_result_of_a_later_reply_is_not_taken_for_an_earlier_call() -> None:
    first, second = replies(
        user("x"), assistant(call("a")), assistant(call("a")), tool(result("a", "late"))
    )
    assert first.results[0].content == NO_RESULT
    assert second.results[0].content == "late"


def test_ids_become_unique_short_and_plain() -> None:
    turns = replies(
        user("x"),
        assistant(call("a b/ü"), call("a b/ü"), call(""), call("x" * 99)),
        tool(result("a b/ü", "1"), result("a b/ü", "2")),
        assistant(call("x" * 99)),
    )
    ids = [found.id for turn in turns for found in turn.calls]
    assert ids == ["a_b__", "a_b___2", "call", "x" * 40, "x" * 38 + "_2"]
    assert [found.content for found in turns[0].results[:2]] == ["1", "2"]


def test_broken_input_is_sent_as_an_empty_object() -> None:
    (turn,) = replies(
        user("x"),
        assistant(*(call(str(i), raw) for i, raw in enumerate(['{"a', "", "[1]", "NaN"]))),
    )
    assert [found.input for found in turn.calls] == ["{}"] * 4


def test_a_tool_name_that_no_provider_takes_is_made_plain() -> None:
    (turn,) = replies(user("x"), assistant(call("a", name="böse name"), call("b", name="")))
    assert [found.name for found in turn.calls] == ["b_se_name", "unknown"]


def test_replies_without_words_or_calls_are_skipped() -> None:
    ended = Finish(FinishReason.CANCELED)
    assert not replies(
        user("x"), assistant(), assistant(" \n"), assistant(Reasoning("hm", "sig"), ended)
    )


def test_a_canceled_reply_keeps_its_words() -> None:
    (turn,) = replies(user("x"), assistant("half a sen", Finish(FinishReason.CANCELED)))
    assert turn.parts == (Text("half a sen"),)


def test_prompts_one_after_the_other_become_one_turn() -> None:
    assert repaired([user("x"), user(), user("y")]) == [UserTurn((Text("x"), Text("y")))]


def test_it_begins_and_ends_with_the_user() -> None:
    turns = repaired([assistant("x")])
    assert [type(turn) for turn in turns] == [UserTurn, AssistantTurn, UserTurn]
    assert [type(turn) for turn in repaired([])] == [UserTurn]


def test_system_messages_join_the_system_prompt() -> None:
    messages = [TurnMessage("s", Role.SYSTEM, (Text("more"),)), user("x")]
    assert system_of("Be good.", messages) == "Be good.\n\nmore"
    assert repaired(messages) == [UserTurn((Text("x"),))]


PARTS = st.one_of(
    st.sampled_from(["", " ", "words"]).map(Text),
    st.builds(ToolCall, st.sampled_from(["a", "b", "ü", ""]), st.text(max_size=3), st.text(max_size=5)),
    st.builds(ToolResult, st.sampled_from(["a", "b", "ü", ""]), st.text(max_size=3), st.text(max_size=5)),
    st.just(Reasoning("hm", "sig")),
)  # fmt: skip
MESSAGES = st.builds(
    TurnMessage, st.just("m"), st.sampled_from(Role), st.lists(PARTS, max_size=4).map(tuple)
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(MESSAGES, max_size=8))
def test_whatever_is_stored_every_call_has_its_one_result(messages: list[TurnMessage]) -> None:
    turns = repaired(messages)
    assert isinstance(turns[0], UserTurn)
    ids = []
    for turn in turns:
        if isinstance(turn, UserTurn):
            assert turn.parts
            continue
        assert [call.id for call in turn.calls] == [found.tool_call_id for found in turn.results]
        assert all(isinstance(json.loads(call.input), dict) for call in turn.calls)
        ids += [call.id for call in turn.calls]
    assert len(ids) == len(set(ids))
    last = turns[-1]
    assert isinstance(last, UserTurn) or last.results
    for one, next_one in pairwise(turns):
        # Two replies in a row only where the first one's results stand between them.
        assert type(one) is not type(next_one) or (isinstance(one, AssistantTurn) and one.results)
