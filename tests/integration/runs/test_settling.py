"""What the end of a run leaves behind where its worker does not write it."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from agents.models import Run, RunKind
from agents.runs.cancel import cancel_session
from agents.runs.finish import LOST_TOO_OFTEN, close_session_work, rescue_run, settle_failed
from agents.runs.lease import Lease, require_lease
from agents.runs.messages import MOST_LOST_WORKERS
from agents.runs.steps import ReplyStart
from agents.states import RunOutcome
from agents.turn.effects import End
from agents.turn.notes import CANCELLED_NOTE, CANCELLED_RESULT
from tests.integration.runs.ground import (
    Ground,
    begin,
    claim,
    end,
    held_by,
    open_calls,
    results_of,
    run_of,
    say,
    step,
    write,
)
from workspaces.log.parts import FinishReason
from workspaces.log.timestamps import now_ms
from workspaces.log.transaction import Transaction
from workspaces.models import Message, Session

FAR = 10**15
ERROR = "internal error: the server's log has the details"


def fail(held: Lease, error: str = ERROR) -> None:
    def job(tx: Transaction) -> None:
        run = require_lease(tx, held)
        settle_failed(tx, run, error)
        close_session_work(tx, run.workspace_id, run.session_id)

    write(job)


def finish_of(held: Lease) -> dict[str, Any]:
    """The finish of the run's newest reply."""
    reply = Message.objects.filter(run_key=held.key, role="assistant").latest("position")
    assert reply.is_finished
    (data,) = [p["data"] for p in orjson.loads(reply.parts) if p["type"] == "finish"]
    return dict(data)


def test_a_run_that_the_server_could_not_carry_out_fails_for_everybody_to_see(
    ground: Ground,
) -> None:
    held = ground.start(run_id="r")
    say(held, calls=["a"])
    step(held, begins=["a"])
    before = now_ms()

    fail(held)

    row = run_of(held.key)
    assert (row.state, row.outcome, row.error) == ("finished", "failed", ERROR)
    assert (row.open_calls, row.lease_expires_at) == ("[]", 0)
    assert row.finished_at is not None
    assert before <= row.finished_at <= now_ms()
    assert results_of(held) == {"a": (ERROR, True)}
    finish = finish_of(held)
    assert finish["reason"] == "error"
    assert (finish["message"], finish["details"]) == (
        "internal error",
        "the server's log has the details",
    )
    assert before // 1000 <= finish["time"] <= now_ms() // 1000
    (failed,) = ground.events("agent.failed")
    assert failed == {"session_id": ground.session_id, "run_id": "r", "error": ERROR}
    (finished,) = ground.events("run.finished")
    assert finished["run"] == {
        "key": held.key,
        "session_id": ground.session_id,
        "accept_number": 1,
        "run_id": "r",
        "message_id": row.message_id,
        "error": ERROR,
        "outcome": "failed",
        "session_title": "The first",
    }
    assert not Session.objects.get(pk=ground.session_id).is_busy


def test_a_run_that_failed_before_it_began_keeps_its_prompt(ground: Ground) -> None:
    key = ground.accept("the prompt")
    held = held_by(key, *claim())
    fail(held)
    roles = Message.objects.filter(run_key=key).order_by("position").values_list("role", flat=True)
    assert list(roles) == ["user", "assistant"]
    assert finish_of(held)["message"] == "internal error"
    assert run_of(key).message_id == Message.objects.get(role="assistant").pk


def test_a_run_that_began_keeps_its_prompt_once(ground: Ground) -> None:
    held = ground.start("the prompt")
    fail(held)
    assert Message.objects.filter(run_key=held.key, role="user").count() == 1


def test_a_summary_that_never_began_leaves_no_message(ground: Ground) -> None:
    first = ground.start()
    say(first, "words")
    end(first)
    count = Message.objects.count()
    key = ground.accept("", kind=RunKind.SUMMARY)
    fail(held_by(key, *claim()))
    assert Message.objects.count() == count
    row = run_of(key)
    assert (row.outcome, row.error, row.message_id) == ("failed", ERROR, "")
    (finished,) = [e["run"] for e in ground.events("run.finished") if e["run"]["key"] == key]
    assert finished["kind"] == "summary"


def test_a_summary_that_had_begun_ends_with_a_message(ground: Ground) -> None:
    first = ground.start()
    say(first, "words")
    end(first)
    key = ground.accept("", kind=RunKind.SUMMARY)
    held = begin(held_by(key, *claim()))
    step(held, start=ReplyStart("m", "p", is_summary=True))
    fail(held)
    assert finish_of(held)["reason"] == "error"
    assert run_of(key).message_id
    assert Message.objects.filter(run_key=key, role="user").count() == 0


def test_an_interrupted_run_says_that_the_server_stopped(ground: Ground) -> None:
    held = ground.start()
    say(held, calls=["a"])
    Run.objects.filter(pk=held.key).update(lost_workers=MOST_LOST_WORKERS - 1)
    write(lambda tx: rescue_run(tx, held.key, worker="worker"))

    finish = finish_of(held)
    assert (finish["reason"], finish["message"]) == ("error", "Interrupted")
    assert finish["details"] == LOST_TOO_OFTEN
    assert results_of(held) == {"a": (LOST_TOO_OFTEN, True)}
    assert run_of(held.key).error == LOST_TOO_OFTEN
    (finished,) = ground.events("run.finished")
    assert finished["run"]["error"] == LOST_TOO_OFTEN


def test_a_cancelled_run_says_so_and_is_no_failure(ground: Ground) -> None:
    held = ground.start()
    say(held, calls=["a"])
    step(held, parks=True)
    write(lambda tx: cancel_session(tx, ground.workspace_id, ground.session_id))

    finish = finish_of(held)
    assert (finish["reason"], finish["message"]) == ("canceled", CANCELLED_NOTE)
    assert "details" not in finish
    assert results_of(held) == {"a": (CANCELLED_RESULT, True)}
    assert run_of(held.key).error == ""
    assert ground.events("agent.failed") == []


def test_a_failed_reply_that_had_its_finish_gets_the_new_one(ground: Ground) -> None:
    """The turn stopped behind it: the reader sees why, and not that all went well."""
    held = ground.start()
    message_id = say(held, "words", ["a"])
    fail(held)
    assert [event["message"]["id"] for event in ground.events("message.updated")] == [message_id]
    assert finish_of(held)["message"] == "internal error"
    parts = orjson.loads(Message.objects.get(pk=message_id).parts)
    assert [part["type"] for part in parts] == ["text", "tool_call", "finish"]


@pytest.mark.parametrize("outcome", [RunOutcome.COMPLETED, RunOutcome.CANCELLED])
def test_only_a_run_that_failed_is_told_as_failed(ground: Ground, outcome: RunOutcome) -> None:
    held = ground.start()
    end(held, outcome)
    assert ground.events("agent.failed") == []


def test_the_failure_of_a_run_without_a_run_id_names_none(ground: Ground) -> None:
    held = ground.start()
    step(held, end=End(RunOutcome.FAILED, FinishReason.ERROR, "no", "no"))
    (failed,) = ground.events("agent.failed")
    assert failed["run_id"] == ""
    assert "kind" not in failed


def test_a_run_that_ends_has_no_open_calls_and_no_lease(ground: Ground) -> None:
    held = ground.start()
    say(held, calls=["a"])
    step(held, begins=["a"])
    other = ground.start(session_id=ground.new_session())
    say(other, calls=["b"])
    step(other, begins=["b"])

    end(held)

    assert (open_calls(held.key), run_of(held.key).lease_expires_at) == ([], 0)
    assert open_calls(other.key) == ["b"]
    assert run_of(other.key).lease_expires_at > now_ms()


def test_each_run_is_told_with_the_title_of_its_own_session(ground: Ground) -> None:
    sessions = {"The first": ground.session_id, "another": ground.new_session("another")}
    for session_id in sessions.values():
        end(ground.start(session_id=session_id))
    told = {
        e["run"]["session_title"]: e["run"]["session_id"] for e in ground.events("run.finished")
    }
    assert told == sessions
