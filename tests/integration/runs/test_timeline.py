"""How long each part of a run took."""

from __future__ import annotations

from typing import Any

from agents.models import RunKind, RunStep
from agents.runs.objects.run_timeline import ReplyTimes, run_timeline
from agents.runs.rows import delete_runs
from agents.runs.steps import ReplyStart, ReplyWrite
from agents.states import RunOutcome
from permissions.actions.requests import request_permission
from permissions.models import PermissionRequest, RequestState
from tests.integration.runs.ground import (
    Ground,
    end,
    result,
    run_of,
    say,
    step,
    used,
    write,
)
from workspaces.log.parts import FinishReason, Text
from workspaces.models import Message


def timeline(key: int) -> list[dict[str, Any]]:
    entries, is_complete = run_timeline(run_of(key))
    assert is_complete
    return entries


def test_replies_calls_and_answers_are_in_the_order_of_time(ground: Ground) -> None:
    held = ground.start()
    step(held, start=ReplyStart("model", "provider"))
    message = Message.objects.get(run_key=held.key, role="assistant")
    began = message.created_at
    reply = ReplyWrite(
        message.pk,
        (Text("words"),),
        FinishReason.END_TURN,
        used(70, 5, 0.5),
        times=ReplyTimes(began, began + 1, attempts=3),
    )
    step(held, reply=reply, model="model", provider="provider")
    request_id = write(
        lambda tx: request_permission(
            tx,
            ground.workspace_id,
            ground.session_id,
            run_key=held.key,
            tool_call_id="c2",
            tool_name="bash",
            action="execute",
            path="/project",
            description="",
            params={},
        )
    )
    later = 4_000_000_000_000
    PermissionRequest.objects.filter(pk=request_id).update(
        asked_at=later, state=RequestState.ALLOWED, answered_at=later + 7, author={"name": "ann"}
    )
    say(held, calls=["c1", "c2"])
    step(held, results=[result("c1"), result("c2")], started={"c2": later + 8})

    queue, shown, asked, call = timeline(held.key)
    assert (queue["kind"], queue["ended_at"]) == ("queue", run_of(held.key).started_at / 1000)  # type: ignore[operator]  # begun
    assert (shown["kind"], shown["name"], shown["provider"]) == ("reply", "model", "provider")
    assert (shown["started_at"], shown["first_at"]) == (began / 1000, (began + 1) / 1000)
    assert (shown["attempts"], shown["outcome"], shown["message_id"]) == (3, "end_turn", message.pk)
    assert (shown["prompt_tokens"], shown["completion_tokens"], shown["cost"]) == (70, 5, 0.5)
    assert (asked["kind"], asked["outcome"], asked["author"]) == (
        "approval",
        "allowed",
        {"name": "ann"},
    )
    assert asked["ended_at"] == (later + 7) / 1000
    assert (call["kind"], call["name"], call["call_id"]) == ("call", "bash", "c2")
    assert (call["outcome"], call["started_at"]) == ("done", (later + 8) / 1000)


def test_a_run_that_waits_has_its_queue_alone(ground: Ground) -> None:
    (queue,) = timeline(ground.accept())
    assert (queue["kind"], queue["ended_at"]) == ("queue", None)


def test_child_runs_are_listed(ground: Ground) -> None:
    held = ground.start()
    child = ground.accept(kind=RunKind.AGENT, session_id=ground.new_session())
    run = run_of(child)
    run.parent_id, run.parent_call_id = held.key, "call"
    run.save()
    found = [entry for entry in timeline(held.key) if entry["kind"] == "child_run"]
    assert [(each["run_key"], each["call_id"], each["ended_at"]) for each in found] == [
        (child, "call", None)
    ]


def test_a_deleted_session_leaves_no_times(ground: Ground) -> None:
    held = ground.start()
    say(held, calls=["c1"])
    step(held, results=[result("c1")], started={"c1": 1})
    end(held, RunOutcome.COMPLETED)
    assert RunStep.objects.count() == 1
    write(lambda tx: delete_runs(tx, ground.session_id))
    assert not RunStep.objects.exists()
