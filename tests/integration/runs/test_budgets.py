"""A run ends before the request to a model that its budget does not allow."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from agents.llm.contract import Usage
from agents.llm.usage import RequestUsage
from agents.models import Run, RunKind
from agents.runs.accept import ParentCall, Prompt, accept_prompt
from agents.runs.steps import ReplyStart, ReplyWrite
from agents.turn.options import Budget, RunOptions
from tests.integration.runs.ground import (
    Ground,
    begin,
    claim,
    held_by,
    result,
    results_of,
    run_of,
    step,
    write,
)
from workspaces.actions.sessions import create_session
from workspaces.log.parts import FinishReason, ToolCall
from workspaces.models import Message, Session

START = ReplyStart("model", "provider")
USED = RequestUsage("provider", "model", Usage(input=60, output=40), 0.25)


def start(ground: Ground, **limits: Any) -> Any:
    prompt = Prompt(ground.session_id, "go", options=RunOptions(budget=Budget(**limits)))
    key = write(lambda tx: accept_prompt(tx, ground.workspace_id, prompt))
    return begin(held_by(key, *claim()))


def reply(held: Any, call: str = "c") -> None:
    """A whole reply that calls a tool, and its use."""
    message = Message.objects.filter(run_key=held.key, role="assistant").latest("position")
    parts = (ToolCall(call, "bash", "{}", finished=True),)
    step(held, reply=ReplyWrite(message.pk, parts, FinishReason.TOOL_USE, USED))


@pytest.mark.parametrize(
    ("limits", "exceeded", "sentence"),
    [
        ({"steps": 1}, ["steps"], "Over budget: 1 of 1 steps"),
        ({"tokens": 100}, ["tokens"], "Over budget: 100 of 100 tokens"),
        ({"cost": 0.25}, ["cost"], "Over budget: $0.2500 of $0.2500"),
        ({"cost": 0.2, "steps": 1, "tokens": 101}, ["cost", "steps"], None),
    ],
)
def test_the_step_after_a_limit_is_not_begun(
    ground: Ground, limits: dict[str, Any], exceeded: list[str], sentence: str | None
) -> None:
    held = start(ground, **limits)
    assert not step(held, start=START).has_ended
    reply(held)

    written = step(held, results=[result("c")], start=START)

    assert written.has_ended
    row = run_of(held.key)
    assert (row.state, row.outcome) == ("finished", "over_budget")
    (ended,) = [event["run"] for event in ground.events("run.finished")]
    assert ended["budget"]["exceeded"] == exceeded
    assert ended["budget"]["limits"] == limits
    reached = ended["budget"]["reached"]
    assert (reached["steps"], reached["tokens"], reached["cost"]) == (1, 100, 0.25)
    assert row.over_budget == ended["budget"]
    assert sentence is None or ended["error"] == row.error == sentence
    assert results_of(held) == {"c": ("done", False)}
    last = Message.objects.filter(run_key=held.key, role="assistant").get()
    (finish,) = [part["data"] for part in orjson.loads(last.parts) if part["type"] == "finish"]
    assert finish["reason"] == "error"
    assert finish["message"] + finish.get("details", "")
    (failed,) = ground.events("agent.failed")
    assert failed["error"] == row.error
    assert not Session.objects.get(pk=ground.session_id).is_busy


def test_a_run_below_its_limits_goes_on(ground: Ground) -> None:
    held = start(ground, steps=2, tokens=101, cost=0.26, seconds=3_600)
    step(held, start=START)
    reply(held)

    written = step(held, results=[result("c")], start=START)

    assert not written.has_ended
    assert run_of(held.key).state == "running"


def test_time_counts_from_the_begin_of_the_run(ground: Ground) -> None:
    held = start(ground, seconds=10)
    Run.objects.filter(pk=held.key).update(started_at=run_of(held.key).started_at - 10_000)

    assert step(held, start=START).has_ended

    assert run_of(held.key).over_budget["exceeded"] == ["seconds"]
    last = Message.objects.filter(run_key=held.key, role="assistant").get()
    assert last.pk == run_of(held.key).message_id


def test_a_child_run_shares_the_budget_of_the_run_that_waits_for_it(ground: Ground) -> None:
    held = start(ground, steps=2)
    step(held, start=START)
    reply(held)

    def delegate(tx: Any) -> int:
        session = create_session(
            tx, ground.workspace_id, title="child", parent_session_id=ground.session_id
        )
        call = ParentCall(held.key, "c", "", "", None, RunOptions(budget=Budget(steps=2)))
        prompt = Prompt(session["id"], "look")
        return accept_prompt(tx, ground.workspace_id, prompt, kind=RunKind.AGENT, delegated_by=call)

    child_key = write(delegate)
    step(held, parks=True)
    child = begin(held_by(child_key, *claim()))
    assert not step(child, start=START).has_ended
    reply(child, "d")

    assert step(child, results=[result("d")], start=START).has_ended

    assert run_of(child_key).over_budget["reached"]["steps"] == 2
    again = held_by(held.key, *claim())
    assert step(again, results=[result("c")], start=START).has_ended
    assert run_of(held.key).outcome == "over_budget"


def test_prompts_that_wait_stay_when_a_run_is_over_its_budget(ground: Ground) -> None:
    held = start(ground, steps=1)
    step(held, start=START)
    reply(held)
    waiting = ground.accept("waits")

    step(held, results=[result("c")], start=ReplyStart("model", "provider", fold=True))

    assert ground.events("run.folded") == []
    assert [run.key for run in claim()] == [waiting]
