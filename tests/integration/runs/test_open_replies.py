"""A reply while it is given: checkpoints, a new try, hooks' rewriting, and folded prompts."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from agents.models import RunKind
from agents.runs.calls.permission_check import keep_hooked
from agents.runs.finish import rescue_run
from agents.runs.lease import Lease
from agents.runs.messages import Retry
from agents.runs.reply import Checkpoint, restart_reply, save_checkpoints
from agents.runs.steps import ReplyStart, ReplyWrite
from agents.states import RunOutcome
from agents.turn.effects import End
from tests.integration.runs.ground import (
    Ground,
    begin,
    claim,
    end,
    held_by,
    open_ground,
    result,
    run_of,
    say,
    step,
    used,
    write,
)
from workspaces.log.parts import FinishReason, Text, ToolCall
from workspaces.models import Message, Session

FAR = 10**15


def open_reply(held: Lease, **more: Any) -> Message:
    step(held, start=ReplyStart("model", "provider", **more))
    return Message.objects.filter(run_key=held.key, role="assistant").latest("position")


def checkpoint(held: Lease, message: Message, words: str, number: int = 0) -> None:
    given = Checkpoint(held, message.pk, number or message.stream_number, (Text(words),))
    write(lambda tx: save_checkpoints(tx, [given]))


def words_of(message: Message) -> str:
    parts = orjson.loads(Message.objects.get(pk=message.pk).parts)
    return "".join(part["data"].get("text", "") for part in parts)


def test_a_checkpoint_keeps_the_words_of_an_open_reply(ground: Ground) -> None:
    held = ground.start()
    message = open_reply(held)
    checkpoint(held, message, "so far")
    assert words_of(message) == "so far"


def test_a_checkpoint_changes_no_other_reply(ground: Ground) -> None:
    """Replies of two workspaces may have the same stream number."""
    other = open_ground("/other")
    messages = []
    for one in (ground, other):
        held = begin(held_by(one.accept(), *claim()))
        messages.append(open_reply(held))
    assert messages[0].stream_number == messages[1].stream_number
    checkpoint(held, messages[1], "so far")
    assert [words_of(message) for message in messages] == ["", "so far"]


def test_a_late_checkpoint_changes_nothing(ground: Ground) -> None:
    held = ground.start()
    message = open_reply(held)
    checkpoint(held, message, "so far")
    checkpoint(held, message, "of an earlier try", number=message.stream_number - 1)
    assert words_of(message) == "so far"
    reply = ReplyWrite(message.pk, (Text("all of it"),), FinishReason.END_TURN)
    step(held, reply=reply)
    checkpoint(held, message, "late")
    assert words_of(message) == "all of it"


def test_a_checkpoint_of_a_worker_that_lost_its_run_changes_nothing(ground: Ground) -> None:
    held = ground.start()
    ground.start(session_id=ground.new_session())  # another run with the same fence
    say(held, "x", ["c"])
    write(lambda tx: rescue_run(tx, held.key, worker="worker"))
    again = held_by(held.key, *claim())
    message = open_reply(again)
    checkpoint(held, message, "of the worker before")
    assert words_of(message) == ""


def test_a_new_try_forgets_the_words_so_far(ground: Ground) -> None:
    held = ground.start()
    message = open_reply(held)
    checkpoint(held, message, "so far")
    retry = Retry(2, 5, 1.0, "overloaded")

    number = write(lambda tx: restart_reply(tx, held, message.pk, retry))

    again = Message.objects.get(pk=message.pk)
    assert again.stream_number == number > message.stream_number
    assert (words_of(again), again.is_finished) == ("", False)
    checkpoint(held, message, "of the first try")
    assert words_of(again) == ""


def test_what_hooks_said_is_kept_with_the_run_and_a_rewritten_call_is_shown(
    ground: Ground,
) -> None:
    held = ground.start()
    message_id = say(held, calls=["a", "b"])
    rewritten = ToolCall("b", "bash", '{"command": "safe"}', finished=True)

    write(
        lambda tx: keep_hooked(
            tx, held, {"b": {"decision": "allow"}}, message_id=message_id, rewritten=rewritten
        )
    )

    assert orjson.loads(run_of(held.key).hook_decisions) == {"b": {"decision": "allow"}}
    calls = orjson.loads(Message.objects.get(pk=message_id).parts)
    inputs = {p["data"]["id"]: p["data"]["input"] for p in calls if p["type"] == "tool_call"}
    assert inputs == {"a": "{}", "b": '{"command": "safe"}'}
    write(lambda tx: keep_hooked(tx, held, {"a": {}}, message_id=message_id, rewritten=None))
    assert orjson.loads(run_of(held.key).hook_decisions) == {"a": {}}


def test_queued_prompts_without_a_run_id_are_folded_into_the_next_step(ground: Ground) -> None:
    held = ground.start("first")
    folded = ground.accept("second")
    own = ground.accept("third", run_id="r")

    assert not step(held, start=ReplyStart("m", "p")).folded
    message = Message.objects.filter(run_key=held.key, role="assistant").latest("position")
    reply = ReplyWrite(message.pk, (ToolCall("c", "bash", "{}", True),), FinishReason.TOOL_USE)
    step(held, reply=reply)
    step(held, results=[result("c")])
    written = step(held, start=ReplyStart("m", "p", fold=True))

    assert written.folded
    assert written.message is not None
    row = run_of(folded)
    assert (row.state, row.outcome, row.folded_into_id) == ("finished", "folded", held.key)
    assert run_of(own).state == "accepted"
    (told,) = ground.events("run.folded")
    assert (told["run"]["key"], told["run"]["folded_into"]) == (folded, held.key)
    users = Message.objects.filter(role="user", run_key=held.key).order_by("position")
    assert ["first" in users[0].parts, "second" in users[1].parts] == [True, True]


def test_a_run_that_waited_takes_along_what_waited_with_it(ground: Ground) -> None:
    first = ground.start("first")
    second, third = ground.accept("second"), ground.accept("third")
    fourth = ground.accept("fourth", run_id="r")
    end(first)

    begin(held_by(second, *claim()))

    assert run_of(third).outcome == "folded"
    assert run_of(fourth).state == "accepted"


def test_a_run_with_a_run_id_takes_nothing_along(ground: Ground) -> None:
    first = ground.start("first")
    second, third = ground.accept("second", run_id="r"), ground.accept("third")
    end(first)
    begin(held_by(second, *claim()))
    assert run_of(third).state == "accepted"


def test_usage_context_and_cost_of_a_reply_are_its_sessions(ground: Ground) -> None:
    held = ground.start()
    message = open_reply(held)
    reply = ReplyWrite(
        message.pk,
        (Text("x"),),
        FinishReason.END_TURN,
        used(10, 3, 0.25),
        context_tokens=13,
    )
    step(held, reply=reply, end=End(RunOutcome.COMPLETED))
    session = Session.objects.get(pk=ground.session_id)
    assert (session.prompt_tokens, session.completion_tokens) == (10, 3)
    assert (session.cost, session.context_tokens) == (0.25, 13)


def test_a_cut_reply_does_not_tell_how_long_the_conversation_is(ground: Ground) -> None:
    held = ground.start()
    message = open_reply(held)
    reply = ReplyWrite(message.pk, (), FinishReason.ERROR, context_tokens=99)
    step(held, reply=reply, end=End(RunOutcome.FAILED, FinishReason.ERROR, "no", "no"))
    assert Session.objects.get(pk=ground.session_id).context_tokens == 0


def test_a_summary_is_the_sessions_new_start(ground: Ground) -> None:
    first = ground.start()
    say(first, "words")
    end(first)
    key = ground.accept("", kind=RunKind.SUMMARY)
    held = begin(held_by(key, *claim()))
    assert Message.objects.filter(role="user").count() == 1  # a summary has no prompt
    message = open_reply(held, is_summary=True)
    assert message.is_summary
    reply = ReplyWrite(
        message.pk,
        (Text("the summary"),),
        FinishReason.END_TURN,
        used(0, 5),
        is_summary=True,
    )
    step(held, reply=reply, end=End(RunOutcome.COMPLETED))

    session = Session.objects.get(pk=ground.session_id)
    assert (session.summary_message_id, session.context_tokens) == (message.pk, 5)
    told = ground.events("summary.progressed")
    assert [one["done"] for one in told] == [False, True]


def test_calls_that_a_cut_reply_holds_get_results_that_say_so(ground: Ground) -> None:
    held = ground.start()
    message = open_reply(held)
    calls = (ToolCall("a", "bash", "{}", finished=True),)
    reply = ReplyWrite(message.pk, calls, FinishReason.ERROR)
    step(held, reply=reply, end=End(RunOutcome.FAILED, FinishReason.ERROR, "cut", "the line broke"))
    (stored,) = Message.objects.filter(run_key=held.key, role="tool")
    assert "the line broke" in stored.parts


@pytest.mark.parametrize("given", [{"prompt": 7}, {"completion": 7}, {"cost": 0.5}, {}])
def test_each_part_of_a_replys_usage_counts_alone(ground: Ground, given: dict[str, Any]) -> None:
    held = ground.start()
    message = open_reply(held)
    step(held, reply=ReplyWrite(message.pk, (Text("x"),), FinishReason.END_TURN, used(**given)))
    session = Session.objects.get(pk=ground.session_id)
    assert session.total_prompt_tokens == session.prompt_tokens == given.get("prompt", 0)
    assert session.total_completion_tokens == given.get("completion", 0)
    assert session.completion_tokens == given.get("completion", 0)
    assert session.cost == given.get("cost", 0.0)
    assert session.context_tokens == 0


def test_a_request_that_reports_nothing_leaves_the_figures_of_the_last_one(
    ground: Ground,
) -> None:
    held = ground.start()
    for tokens, cost in ((7, 0.5), (0, 0.25)):
        message = open_reply(held)
        calls = (ToolCall(message.pk, "bash", "{}", finished=True),)
        reply = ReplyWrite(message.pk, calls, FinishReason.TOOL_USE, used(tokens, cost=cost))
        step(held, reply=reply)
        step(held, results=[result(message.pk)])
    session = Session.objects.get(pk=ground.session_id)
    assert (session.prompt_tokens, session.cost) == (7, 0.75)


def test_a_run_that_ends_before_its_reply_was_begun_finishes_no_message(ground: Ground) -> None:
    held = ground.start()
    reply = ReplyWrite("", (), FinishReason.CANCELED)
    step(held, reply=reply, end=End(RunOutcome.CANCELLED, FinishReason.CANCELED))
    assert ground.events("message.finished") == []
    (created,) = Message.objects.filter(run_key=held.key, role="assistant")
    assert run_of(held.key).message_id == created.pk


def test_what_hooks_said_of_one_run_is_not_another_ones(ground: Ground) -> None:
    held, other = ground.start(), ground.start(session_id=ground.new_session())
    message_id, others_id = say(held, calls=["a"]), say(other, calls=["a"])
    rewritten = ToolCall("a", "bash", '{"command": "safe"}', finished=True)
    write(lambda tx: keep_hooked(tx, other, {"a": {}}, message_id=others_id, rewritten=None))

    given: dict[str, Any] = {"message_id": message_id, "rewritten": rewritten}
    write(lambda tx: keep_hooked(tx, held, {"a": {"decision": "deny"}}, **given))

    assert orjson.loads(run_of(other.key).hook_decisions) == {"a": {}}
    assert "safe" not in Message.objects.get(pk=others_id).parts
    assert "safe" in Message.objects.get(pk=message_id).parts
    (updated,) = ground.events("message.updated")
    assert updated["message"]["id"] == message_id
