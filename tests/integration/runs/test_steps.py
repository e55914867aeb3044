"""What a step of a run leaves in the database: cancel marks, open calls, parking."""

from __future__ import annotations

from typing import Any

import pytest

from agents.runs.cancel import cancel_session
from agents.runs.finish import rescue_run
from agents.runs.steps import ReplyStart, ReplyWrite, Written
from agents.states import RunOutcome
from agents.turn.effects import End
from agents.turn.notes import UNKNOWN_RESULT
from tests.integration.runs.ground import (
    Ground,
    claim,
    end,
    open_calls,
    result,
    results_of,
    run_of,
    say,
    step,
    write,
)
from workspaces.log.parts import FinishReason, Text
from workspaces.models import Event, Message, Session

FAR = 10**15

EFFECTS: dict[str, dict[str, Any]] = {
    "begin a tool": {"begins": ["a"]},
    "store a result": {"results": [result("a")]},
    "refuse a call": {"refusals": {"a": "no"}},
    "start a reply": {"start": ReplyStart("m", "p")},
    "park": {"parks": True},
    "hand over": {"releases": True},
    "complete": {"end": End(RunOutcome.COMPLETED)},
    "fail": {"end": End(RunOutcome.FAILED, error="no")},
    "complete with a reply": {
        "reply": ReplyWrite("id", (Text("words"),), FinishReason.END_TURN),
        "end": End(RunOutcome.COMPLETED),
    },
}


def cancel(ground: Ground) -> int | None:
    return write(lambda tx: cancel_session(tx, ground.workspace_id, ground.session_id))


@pytest.mark.parametrize("name", EFFECTS)
def test_a_step_after_a_cancel_writes_nothing_and_says_so(ground: Ground, name: str) -> None:
    held = ground.start()
    say(held, calls=["a", "b"])
    assert cancel(ground) == 1
    before = Event.objects.count()

    assert step(held, **EFFECTS[name]) == Written(is_cancelled=True)

    assert Event.objects.count() == before
    row = run_of(held.key)
    assert (row.state, row.outcome, row.open_calls) == ("running", "", "[]")
    assert results_of(held) == {}


def test_a_cancelled_run_ends_as_cancelled(ground: Ground) -> None:
    held = ground.start()
    say(held, calls=["a"])
    cancel(ground)

    written = step(held, refusals={"a": "cancelled"}, end=End(RunOutcome.CANCELLED))

    assert not written.is_cancelled
    assert run_of(held.key).outcome == "cancelled"
    assert results_of(held) == {"a": ("cancelled", True)}


def test_a_cancel_concerns_nothing_that_is_accepted_after_it(ground: Ground) -> None:
    first = ground.start()
    cancel(ground)
    second = ground.accept("after it", run_id="r")
    step(first, end=End(RunOutcome.CANCELLED))

    (claimed,) = claim()

    assert claimed.key == second
    assert run_of(second).outcome == ""


def test_parallel_calls_that_have_begun_stay_open_until_each_has_its_result(
    ground: Ground,
) -> None:
    held = ground.start()
    say(held, calls=["a", "b", "c"])
    step(held, begins=["a"])
    step(held, begins=["b", "c"])
    assert sorted(open_calls(held.key)) == ["a", "b", "c"]

    step(held, results=[result("b")])
    assert sorted(open_calls(held.key)) == ["a", "c"]

    step(held, refusals={"c": "no"})
    assert open_calls(held.key) == ["a"]

    step(held, results=[result("a")])
    assert open_calls(held.key) == []
    assert results_of(held) == {"b": ("done", False), "c": ("no", True), "a": ("done", False)}


def test_a_call_may_begin_in_the_step_that_stores_anothers_result(ground: Ground) -> None:
    held = ground.start()
    say(held, calls=["a", "b"])
    step(held, begins=["a"])
    step(held, results=[result("a")], begins=["b"])
    assert "b" in open_calls(held.key)
    assert results_of(held) == {"a": ("done", False)}


def test_a_crash_beside_a_parallel_call_never_runs_that_call_again(ground: Ground) -> None:
    held = ground.start()
    say(held, calls=["a", "b"])
    step(held, begins=["a"])
    step(held, begins=["b"])
    step(held, results=[result("b")])

    outcome = write(lambda tx: rescue_run(tx, held.key, worker="worker"))

    assert outcome == "ready"
    assert results_of(held) == {"b": ("done", False), "a": (UNKNOWN_RESULT, True)}


def test_after_refused_calls_a_crash_lets_the_run_go_on(ground: Ground) -> None:
    held = ground.start()
    say(held, calls=["a", "b"])
    step(held, begins=["a"])
    step(held, refusals={"a": "the tool failed", "b": "no"})

    outcome = write(lambda tx: rescue_run(tx, held.key, worker="worker"))

    assert outcome == "ready"
    assert [run.key for run in claim()] == [held.key]


def test_a_run_parks_while_its_calls_wait(ground: Ground) -> None:
    held = ground.start()
    say(held, calls=["a"])

    assert step(held, parks=True) == Written()

    row = run_of(held.key)
    assert (row.state, row.worker, row.lease_expires_at) == ("parked", "", 0)
    assert [event["run"]["key"] for event in ground.events("run.parked")] == [held.key]


def test_a_run_that_is_handed_over_waits_for_any_worker(ground: Ground) -> None:
    held = ground.start()
    step(held, releases=True)

    row = run_of(held.key)
    assert (row.state, row.worker, row.lease_expires_at) == ("ready", "", 0)
    assert ground.events("run.parked") == []


def test_a_run_ends_once_with_its_last_message(ground: Ground) -> None:
    held = ground.start("go", run_id="r")
    message_id = say(held, "the words")
    end(held)

    (finished,) = ground.events("run.finished")
    assert finished["run"]["message_id"] == message_id
    assert finished["run"]["outcome"] == "completed"
    assert finished["run"]["run_id"] == "r"
    row = run_of(held.key)
    assert (row.state, row.outcome, row.message_id) == ("finished", "completed", message_id)
    assert not Session.objects.get(pk=ground.session_id).is_busy


def test_a_run_without_a_reply_gets_one_that_holds_its_end(ground: Ground) -> None:
    held = ground.start()
    step(held, end=End(RunOutcome.FAILED, FinishReason.ERROR, "no model", "no model"), model="m")

    (reply,) = Message.objects.filter(run_key=held.key, role="assistant")
    assert '"error"' in reply.parts
    assert reply.model == "m"
    row = run_of(held.key)
    assert (row.outcome, row.error, row.message_id) == ("failed", "no model", reply.pk)
    (failed,) = ground.events("agent.failed")
    assert failed["error"] == "no model"
