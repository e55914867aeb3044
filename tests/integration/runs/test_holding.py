"""A worker that lost its run writes nothing more for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agents.models import Run
from agents.runs.calls.permission_check import check_call
from agents.runs.children.delegations import (
    begin_delegation,
    begin_sub_agent,
    end_sub_agent,
    take_prompts,
)
from agents.runs.finish import rescue_run
from agents.runs.lease import Lease, LeaseLost, require_lease
from agents.runs.messages import MOST_LOST_WORKERS
from agents.runs.prompting.begin import begin_run
from agents.runs.steps import ReplyStart, Step, write_step
from agents.states import RunOutcome
from agents.tools.contract import ChildTask, RequiredPermission
from agents.turn.effects import End
from tests.integration.runs.ground import Ground, claim, end, result, run_of, say, step, write
from workspaces.log.timestamps import now_ms
from workspaces.log.transaction import Transaction
from workspaces.models import Event

FAR = 10**15


def ask(tx: Transaction, held: Lease) -> object:
    question = RequiredPermission(
        "bash", "execute", "/project", "Execute command: ls", {"command": "ls"}
    )
    return check_call(tx, held, question, call_id="c", allowed_tools=frozenset())


def finish_child(tx: Transaction, held: Lease) -> object:
    step = Step(end=End(RunOutcome.COMPLETED))
    return end_sub_agent(tx, held, step, ending="completed", answer="x", events=1)


WRITES = {
    "hold": require_lease,
    "begin_run": begin_run,
    "start a reply": lambda tx, held: write_step(tx, held, Step(start=ReplyStart("m", "p"))),
    "store a result": lambda tx, held: write_step(tx, held, Step(results=[result("c")])),
    "begin a tool": lambda tx, held: write_step(tx, held, Step(begins={"c": "report"})),
    "park": lambda tx, held: write_step(tx, held, Step(parks=True)),
    "hand over": lambda tx, held: write_step(tx, held, Step(releases=True)),
    "end": lambda tx, held: write_step(tx, held, Step(end=End(RunOutcome.COMPLETED))),
    "end as cancelled": lambda tx, held: write_step(tx, held, Step(end=End(RunOutcome.CANCELLED))),
    "judge a call": ask,
    "begin a child run": lambda tx, held: begin_delegation(
        tx, held, ChildTask("agent", "t", "do"), message_id="m", call_id="c"
    ),
    "begin a sub-agent": lambda tx, held: begin_sub_agent(tx, held, role="r"),
    "end a sub-agent": finish_child,
    "take prompts": take_prompts,
}


@pytest.mark.parametrize("name", WRITES)
def test_a_worker_whose_run_was_claimed_again_writes_nothing(ground: Ground, name: str) -> None:
    late = ground.start()
    say(late, calls=["c"])
    assert write(lambda tx: rescue_run(tx, late.key, worker="worker")) == "ready"
    (again,) = claim("another worker")
    before = Event.objects.count()

    with pytest.raises(LeaseLost):
        write(lambda tx: WRITES[name](tx, late))

    assert Event.objects.count() == before
    row = run_of(late.key)
    assert (row.state, row.worker, row.fence) == ("running", "another worker", again.fence)


@pytest.mark.parametrize("name", WRITES)
def test_a_worker_whose_run_was_settled_writes_nothing(ground: Ground, name: str) -> None:
    """The fence stays the same then: the state tells that the run has ended."""
    late = ground.start()
    say(late, calls=["c"])
    step(late, begins=["c"])
    Run.objects.filter(pk=late.key).update(lost_workers=MOST_LOST_WORKERS - 1)
    assert write(lambda tx: rescue_run(tx, late.key, worker="worker")) == "interrupted"
    assert run_of(late.key).fence == late.fence
    before = Event.objects.count()

    with pytest.raises(LeaseLost):
        write(lambda tx: WRITES[name](tx, late))

    assert Event.objects.count() == before
    row = run_of(late.key)
    assert (row.state, row.outcome) == ("finished", "interrupted")


def test_a_run_that_ended_or_was_given_up_is_no_longer_held(ground: Ground) -> None:
    ended = ground.start()
    end(ended)
    with pytest.raises(LeaseLost):
        end(ended)

    given_up = ground.start("second")
    step(given_up, releases=True)
    with pytest.raises(LeaseLost):
        step(given_up, releases=True)


def test_a_run_that_is_unknown_is_not_held(ground: Ground) -> None:
    held = ground.start()
    with pytest.raises(LeaseLost):
        write(lambda tx: require_lease(tx, replace(held, key=held.key + 1_000)))


def test_a_claim_that_stands_gives_the_row(ground: Ground) -> None:
    held = ground.start("the prompt", run_id="r")
    row = write(lambda tx: require_lease(tx, held))
    assert (row.key, row.prompt, row.run_id, row.state) == (held.key, "the prompt", "r", "running")
    assert row.started_at is not None
    assert row.started_at <= now_ms()
