"""What a run knows of its conversation."""

from __future__ import annotations

from agents.runs.conversation import Conversation
from agents.turn.transcript import TurnMessage
from agents.turn.window import estimated_tokens
from tests.doubles.conversation import tool, user
from workspaces.log.parts import Part, Role, Text, ToolCall, ToolResult


def call(call_id: str, given: str = "{}") -> ToolCall:
    return ToolCall(call_id, "ls", given, finished=True)


def reply(message_id: str, *parts: Part) -> TurnMessage:
    return TurnMessage(message_id, Role.ASSISTANT, parts)


def test_it_begins_with_nothing() -> None:
    conversation = Conversation()

    assert conversation.messages == []
    assert conversation.tokens(0) == 0


def test_it_takes_up_what_is_stored_with_the_calls_of_its_newest_reply() -> None:
    own = [reply("m1", call("a")), tool(ToolResult("a", "ls", "x")), reply("m2", call("b"))]
    conversation = Conversation()

    conversation.load([user("before"), *own], own)

    assert [message.id for message in conversation.messages] == ["u1", "m1", "t1", "m2"]
    assert set(conversation.calls) == {"b"}
    assert conversation.call_message_id == "m2"
    assert conversation.call_ids == {"a", "b"}


def test_the_calls_of_other_runs_are_not_its_own() -> None:
    conversation = Conversation()

    conversation.load([reply("m0", call("old"))])

    assert conversation.calls == {}
    assert conversation.call_ids == set()


def test_a_reply_without_calls_leaves_those_before_in_mind() -> None:
    conversation = Conversation()
    conversation.add_reply(reply("m1", call("a")))
    conversation.add_reply(reply("m2", Text("words")))

    assert set(conversation.calls) == {"a"}
    assert conversation.call_message_id == "m1"


def test_beginning_anew_behind_a_summary_keeps_its_call_ids() -> None:
    conversation = Conversation()
    conversation.load([user("a" * 4000)])
    conversation.add_reply(reply("m1", call("a")))

    conversation.load([user("summary")])

    assert [message.parts for message in conversation.messages] == [(Text("summary"),)]
    assert conversation.call_ids == {"a"}  # no later reply may use one again
    assert conversation.tokens(0) == 1


def test_what_was_loaded_is_not_changed_by_what_comes() -> None:
    stored = [user("hello")]
    conversation = Conversation()
    conversation.load(stored)

    conversation.add_result(ToolResult("a", "ls", "x"))

    assert len(stored) == 1


def test_a_result_is_a_message_of_a_tool() -> None:
    result = ToolResult("a", "ls", "x")
    conversation = Conversation()

    conversation.add_result(result)

    assert conversation.messages == [TurnMessage("", Role.TOOL, (result,))]


def test_its_size_is_what_the_provider_said() -> None:
    conversation = Conversation()
    conversation.load([user("a" * 400)])

    assert conversation.tokens(7) == 7


def test_its_size_is_estimated_where_no_provider_said_it() -> None:
    conversation = Conversation()
    conversation.load([user("a" * 400)])
    conversation.add_reply(reply("m1", Text("b" * 400)))
    conversation.add_result(ToolResult("a", "ls", "c" * 400))

    assert conversation.tokens(0) == 300 == estimated_tokens(conversation.messages)


def test_a_call_that_a_hook_rewrote_is_told_as_it_is_now() -> None:
    conversation = Conversation()
    conversation.add_reply(reply("m0", call("a", '{"n":0}')))
    conversation.add_reply(reply("m1", Text("so"), call("a", '{"n":1}'), call("b")))

    conversation.rewrite(call("a", '{"n":2}'))

    assert conversation.calls["a"].input == '{"n":2}'
    assert conversation.messages[1].parts == (Text("so"), call("a", '{"n":2}'), call("b"))
    assert conversation.messages[0].parts == (call("a", '{"n":0}'),)


def test_a_call_whose_reply_is_not_told_any_more_can_still_be_rewritten() -> None:
    conversation = Conversation()
    conversation.add_reply(reply("m1", call("a")))
    conversation.load([user("summary")])

    conversation.rewrite(call("a", '{"n":2}'))

    assert conversation.calls["a"].input == '{"n":2}'
    assert conversation.messages == [user("summary")]
