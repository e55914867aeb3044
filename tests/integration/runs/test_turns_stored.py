"""What each step of a turn leaves for readers: which messages, figures and events, and no others."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from agents.models import RunKind
from agents.runs.answer import Answer, resolve
from agents.runs.calls.permission_check import check_call
from agents.runs.cancel import cancel_session
from agents.runs.steps import ReplyStart, ReplyWrite, Written
from agents.states import RunOutcome
from agents.tools.contract import FileMark, RequiredPermission
from agents.turn.effects import End
from agents.turn.notes import CANCELLED_RESULT
from tests.integration.runs.ground import (
    Ground,
    begin,
    claim,
    end,
    held_by,
    open_calls,
    result,
    results_of,
    run_of,
    say,
    step,
    used,
    write,
)
from workspaces.log.parts import FinishReason, Text, ToolCall
from workspaces.log.timestamps import now_ms
from workspaces.models import FileRead, Message, Session


def roles(key: int) -> list[str]:
    stored = Message.objects.filter(run_key=key).order_by("position")
    return list(stored.values_list("role", flat=True))


def finish_of(message_id: str) -> dict[str, Any]:
    parts = orjson.loads(Message.objects.get(pk=message_id).parts)
    (data,) = [part["data"] for part in parts if part["type"] == "finish"]
    return dict(data)


def test_each_run_starts_once_and_by_itself(ground: Ground) -> None:
    first = ground.accept()
    second = ground.accept(session_id=ground.new_session())
    claimed = claim()
    begin(held_by(first, *claimed))
    assert run_of(second).started_at is None
    begin(held_by(second, *claimed))
    assert [event["run"]["key"] for event in ground.events("run.started")] == [first, second]
    assert ground.events("run.resumed") == []
    assert roles(first) == roles(second) == ["user"]


def test_the_first_prompt_of_a_session_takes_nothing_along_when_it_starts(ground: Ground) -> None:
    """What was sent behind it is taken in at its next step."""
    first, second = ground.accept("first"), ground.accept("second")
    held = begin(held_by(first, *claim()))
    assert run_of(second).state == "accepted"
    written = step(held, start=ReplyStart("m", "p", fold=True))
    assert written.folded
    assert (run_of(second).outcome, run_of(second).folded_into_id) == ("folded", first)
    assert roles(first) == ["user", "user", "assistant"]


def test_a_prompt_that_waited_takes_those_behind_it_along_when_it_starts(ground: Ground) -> None:
    held = ground.start("first")
    second, third = ground.accept("second"), ground.accept("third")
    other = ground.accept("elsewhere", session_id=ground.new_session())
    end(held)
    begin(held_by(second, *claim()))
    row = run_of(third)
    assert (row.state, row.outcome, row.folded_into_id) == ("finished", "folded", second)
    assert row.started_at is not None
    assert row.finished_at is not None
    assert roles(second) == ["user", "user"]
    assert roles(third) == []
    (folded,) = ground.events("run.folded")
    assert (folded["run"]["key"], folded["run"]["folded_into"]) == (third, second)
    assert run_of(other).outcome == ""


def test_a_summary_that_waited_takes_no_prompt_along(ground: Ground) -> None:
    held = ground.start("first")
    summary = ground.accept("", kind=RunKind.SUMMARY)
    behind = ground.accept("behind")
    say(held, "words")
    end(held)
    begin(held_by(summary, *claim()))
    assert run_of(behind).state == "accepted"
    assert roles(summary) == []


def test_a_reply_tells_what_its_session_used_so_far(ground: Ground) -> None:
    held = ground.start()
    written = step(held, start=ReplyStart("m", "p"))
    assert written.message is not None
    assert (written.folded, written.is_cancelled, written.answered) == (False, False, ())
    before = len(ground.events("session.updated"))
    calls = (ToolCall("a", "bash", "{}", finished=True),)
    reply = ReplyWrite(written.message["id"], calls, FinishReason.TOOL_USE, used(7))
    step(held, reply=reply)
    told = ground.events("session.updated")
    assert len(told) == before + 1
    assert told[-1]["session"]["prompt_tokens"] == 7
    step(held, begins=["a"])
    step(held, results=[result("a")])
    assert len(ground.events("session.updated")) == before + 1


def test_a_reply_that_does_not_know_the_length_of_the_conversation_keeps_the_last_one(
    ground: Ground,
) -> None:
    held = ground.start()
    for tokens in (13, 0):
        written = step(held, start=ReplyStart("m", "p"))
        assert written.message is not None
        call = ToolCall(f"c{tokens}", "bash", "{}", finished=True)
        message_id = written.message["id"]
        reply = ReplyWrite(message_id, (call,), FinishReason.TOOL_USE, context_tokens=tokens)
        step(held, reply=reply)
        step(held, results=[result(call.id)])
    assert Session.objects.get(pk=ground.session_id).context_tokens == 13


@pytest.mark.parametrize("reason", [FinishReason.CANCELED, FinishReason.ERROR])
def test_a_summary_that_was_cut_replaces_nothing(ground: Ground, reason: FinishReason) -> None:
    first = ground.start()
    say(first, "words")
    end(first)
    held = begin(held_by(ground.accept("", kind=RunKind.SUMMARY), *claim()))
    written = step(held, start=ReplyStart("m", "p", is_summary=True))
    assert written.message is not None
    reply = ReplyWrite(written.message["id"], (Text("half"),), reason, used(0, 5), is_summary=True)
    step(held, reply=reply, end=End(RunOutcome.CANCELLED, reason))

    session = Session.objects.get(pk=ground.session_id)
    assert (session.summary_message_id, session.context_tokens) == ("", 0)
    told = ground.events("summary.progressed")
    assert [(one["done"], one["progress"]) for one in told] == [
        (False, "Summarizing the session"),
        (True, ""),
    ]


def test_a_turn_that_ends_with_its_reply_leaves_the_reply_as_it_is(ground: Ground) -> None:
    held = ground.start()
    message_id = say(held, "words")
    step(held, end=End(RunOutcome.COMPLETED, FinishReason.END_TURN))
    assert ground.events("message.updated") == []
    assert roles(held.key) == ["user", "assistant"]
    assert run_of(held.key).message_id == message_id
    assert finish_of(message_id)["reason"] == "end_turn"


def test_a_turn_that_stops_behind_its_reply_says_why_in_it(ground: Ground) -> None:
    held = ground.start()
    message_id = say(held, calls=["a"])
    stopped = End(RunOutcome.COMPLETED, FinishReason.END_TURN, note="Stopped: enough.")
    step(held, refusals={"a": "no"}, end=stopped)
    assert [one["message"]["id"] for one in ground.events("message.updated")] == [message_id]
    finish = finish_of(message_id)
    assert (finish["reason"], finish["message"]) == ("end_turn", "Stopped: enough.")
    assert roles(held.key) == ["user", "assistant", "tool"]


def test_a_turn_that_ends_without_any_reply_gets_an_empty_one(ground: Ground) -> None:
    held = ground.start()
    before = now_ms()
    step(held, end=End(RunOutcome.COMPLETED), model="m", provider="p")
    message = Message.objects.get(run_key=held.key, role="assistant")
    assert (message.model, message.provider, message.is_finished) == ("m", "p", True)
    finish = finish_of(message.pk)
    assert finish["reason"] == "end_turn"
    assert before // 1000 <= finish["time"] <= now_ms() // 1000
    assert run_of(held.key).message_id == message.pk


def test_a_reply_and_its_end_are_one_message_with_the_ends_reason(ground: Ground) -> None:
    held = ground.start()
    written = step(held, start=ReplyStart("m", "p"))
    assert written.message is not None
    message_id = written.message["id"]
    reply = ReplyWrite(message_id, (Text("half"),), FinishReason.UNKNOWN)
    before = len(ground.events("session.updated"))
    step(held, reply=reply, end=End(RunOutcome.FAILED, FinishReason.ERROR, "cut: try again", "n"))
    assert len(ground.events("message.finished")) == 1
    assert ground.events("message.updated") == []
    assert len(ground.events("session.updated")) == before + 1
    finish = finish_of(message_id)
    assert finish["reason"] == "error"
    assert run_of(held.key).message_id == message_id


def test_a_run_that_is_cancelled_before_its_next_reply_closes_the_calls_of_the_last(
    ground: Ground,
) -> None:
    held = ground.start()
    say(held, calls=["a"])
    reply = ReplyWrite("", (), FinishReason.CANCELED)
    step(held, reply=reply, end=End(RunOutcome.CANCELLED, FinishReason.CANCELED))
    assert results_of(held) == {"a": (CANCELLED_RESULT, True)}


def test_the_results_of_calls_that_were_not_run_name_their_tools(ground: Ground) -> None:
    held = ground.start()
    say(held, calls=["a"])
    step(held, refusals={"a": "no"})
    (message,) = Message.objects.filter(run_key=held.key, role="tool")
    (part, finish) = orjson.loads(message.parts)
    assert (part["data"]["name"], part["data"]["content"]) == ("bash", "no")
    assert finish["data"]["reason"] == "stop"


def test_results_that_end_a_turn_are_stored_once(ground: Ground) -> None:
    held = ground.start()
    say(held, calls=["a", "b"])
    step(held, begins=["a"])
    step(held, results=[result("a")], refusals={"b": "no"}, end=End(RunOutcome.COMPLETED))
    assert results_of(held) == {"a": ("done", False), "b": ("no", True)}


def test_a_call_that_was_allowed_and_has_begun_does_not_keep_a_run_from_parking(
    ground: Ground,
) -> None:
    held = ground.start()
    say(held, calls=["a", "b"])
    question = RequiredPermission(
        "bash", "execute", "/project", "Execute command: ls", {"command": "ls"}
    )
    for call_id in ("a", "b"):
        write(
            lambda tx, call_id=call_id: check_call(
                tx, held, question, call_id=call_id, allowed_tools=frozenset()
            )
        )
    given = {"request_id": "", "tool_call_id": "a", "answer": Answer.ALLOW}
    assert write(lambda tx: resolve(tx, ground.workspace_id, **given)).is_first
    step(held, begins=["a"])
    assert step(held, parks=True) == Written()
    assert run_of(held.key).state == "parked"


@pytest.mark.parametrize("given", [{"parks": True}, {"releases": True}])
def test_a_run_that_is_given_up_takes_no_other_along(
    ground: Ground, given: dict[str, bool]
) -> None:
    held, other = ground.start(), ground.start(session_id=ground.new_session())
    say(held, calls=["a"])
    say(other, calls=["a"])
    step(other, begins=["a"])
    assert open_calls(held.key) == []
    step(held, **given)
    row = run_of(other.key)
    assert (row.state, row.worker) == ("running", "worker")
    assert orjson.loads(row.open_calls) == ["a"]


def test_runs_of_other_sessions_have_their_own_replies_and_results(ground: Ground) -> None:
    """Also where the calls have the same ids."""
    held, other = ground.start(), ground.start(session_id=ground.new_session())
    for one in (held, other):
        say(one, calls=["a"])
    step(other, results=[result("a")])
    end(held, RunOutcome.CANCELLED)
    step(other, end=End(RunOutcome.CANCELLED, FinishReason.CANCELED))
    assert results_of(other) == {"a": ("done", False)}
    assert roles(held.key)[-1] == "assistant"
    assert run_of(held.key).message_id != run_of(other.key).message_id


def test_two_runs_of_one_session_have_their_own_replies(ground: Ground) -> None:
    first = ground.start()
    first_id = say(first, "words")
    end(first)
    second = ground.start("again")
    step(second, end=End(RunOutcome.FAILED, FinishReason.ERROR, "no", "no"))
    assert run_of(second.key).message_id != first_id
    assert finish_of(first_id)["reason"] == "end_turn"
    assert finish_of(run_of(second.key).message_id)["reason"] == "error"


def test_the_last_of_several_replies_is_its_runs_message(ground: Ground) -> None:
    held = ground.start()
    first = say(held, calls=["a"])
    step(held, results=[result("a")])
    last = say(held, "words")
    end(held)
    assert run_of(held.key).message_id == last != first


def test_a_call_whose_id_an_earlier_run_of_the_session_used_gets_its_own_result(
    ground: Ground,
) -> None:
    first = ground.start()
    say(first, calls=["a"])
    step(first, results=[result("a")])
    end(first)
    second = ground.start("again")
    say(second, calls=["a"])
    step(second, parks=True)
    write(lambda tx: cancel_session(tx, ground.workspace_id, ground.session_id))
    assert results_of(second) == {"a": (CANCELLED_RESULT, True)}


def test_what_waits_is_taken_in_only_where_the_step_says_so_and_only_prompts(
    ground: Ground,
) -> None:
    held = ground.start()
    summary = ground.accept("", kind=RunKind.SUMMARY)
    prompt = ground.accept("more")
    say(held, calls=["a"])
    assert run_of(prompt).state == "accepted"
    step(held, results=[result("a")])
    assert step(held, start=ReplyStart("m", "p", fold=True)).folded
    assert run_of(prompt).outcome == "folded"
    assert run_of(summary).state == "accepted"


def test_a_step_that_begins_no_reply_says_nothing_of_one(ground: Ground) -> None:
    held = ground.start()
    nothing = Written(is_cancelled=False)
    assert step(held, results=[]) == nothing
    assert end(held) == nothing


def test_the_files_that_tools_have_read_are_known_to_their_session(ground: Ground) -> None:
    held = ground.start()
    say(held, calls=["a"])
    step(held, results=[result("a")], reads={"/project/a": FileMark(5, 7)})
    row = FileRead.objects.get()
    assert (row.session_id, row.path, row.mtime_ns, row.size) == (
        ground.session_id,
        "/project/a",
        5,
        7,
    )
