"""A run that another run's call waits for: begun once, paid for by its parent, ended with it."""

from __future__ import annotations

import pytest

from agents.models import Run
from agents.runs.cancel import cancel_session
from agents.runs.children.delegations import TooDeep, begin_delegation, delegation_result
from agents.runs.finish import rescue_run
from agents.runs.lease import Lease
from agents.runs.messages import MOST_LOST_WORKERS
from agents.runs.steps import ReplyStart, ReplyWrite, Written
from agents.states import RunOutcome
from agents.tools.contract import ChildResult, ChildTask
from agents.turn.effects import End
from tests.integration.runs.ground import (
    Ground,
    begin,
    claim,
    end,
    held_by,
    run_of,
    say,
    step,
    used,
    write,
)
from workspaces.log.parts import FinishReason, Text
from workspaces.models import Message, Session

FAR = 10**15
TASK = ChildTask("agent", "the child", "do it")


def send(held: Lease, call_id: str = "c") -> int:
    """Sends for a child run; its key."""
    message_id = Message.objects.filter(run_key=held.key, role="assistant").latest("position").pk
    write(lambda tx: begin_delegation(tx, held, TASK, message_id=message_id, call_id=call_id))
    return Run.objects.get(parent_id=held.key, parent_call_id=call_id).pk


@pytest.fixture
def parent(ground: Ground) -> Lease:
    held = ground.start()
    say(held, calls=["c"])
    return held


def park(held: Lease) -> Written:
    return step(held, parks=True)


def test_a_child_run_has_a_session_below_its_parents(ground: Ground, parent: Lease) -> None:
    key = send(parent)

    child = run_of(key)
    session = Session.objects.get(pk=child.session_id)
    assert session.parent_session_id == ground.session_id
    assert (session.title, child.prompt, child.kind) == ("the child", "do it", "agent")
    assert write(lambda tx: delegation_result(tx, parent, "c")) == (True, None)
    assert write(lambda tx: delegation_result(tx, parent, "another")) == (False, None)


def test_the_parent_goes_on_when_its_child_has_ended_and_pays_for_it(
    ground: Ground, parent: Lease
) -> None:
    key = send(parent)
    park(parent)
    child = begin(held_by(key, *claim()))
    step(child, start=ReplyStart("m", "p"))
    message = Message.objects.get(run_key=key, role="assistant")
    reply = ReplyWrite(message.pk, (Text("the answer"),), FinishReason.END_TURN, used(3, cost=0.5))
    step(child, reply=reply, end=End(RunOutcome.COMPLETED))

    assert run_of(parent.key).state == "ready"
    assert Session.objects.get(pk=ground.session_id).cost == 0.5
    ended = write(lambda tx: delegation_result(tx, parent, "c"))
    assert ended == (True, ChildResult("completed", "the answer", ""))


def test_a_child_that_ends_before_its_parent_parks_is_found_then(parent: Lease) -> None:
    key = send(parent)
    child = begin(held_by(key, *claim()))
    say(child, "words")
    end(child)

    assert park(parent) == Written(answered=("c",))
    assert run_of(parent.key).state == "running"


def test_a_child_that_runs_is_left_to_its_worker_when_its_parent_ends(
    ground: Ground, parent: Lease
) -> None:
    """It is cancelled, but its worker writes its end: nobody else may while that one runs it."""
    key = send(parent)
    child = begin(held_by(key, *claim("the child's worker")))
    say(child, calls=["x"])
    write(lambda tx: cancel_session(tx, ground.workspace_id, ground.session_id))
    step(parent, end=End(RunOutcome.CANCELLED))

    row = run_of(key)
    assert (row.state, row.worker) == ("running", "the child's worker")
    assert step(child, begins=["x"]) == Written(is_cancelled=True)

    step(child, refusals={"x": "cancelled"}, end=End(RunOutcome.CANCELLED))
    assert run_of(key).outcome == "cancelled"


@pytest.mark.parametrize("state", ["accepted", "parked"])
def test_a_child_that_nobody_runs_ends_with_its_parent(parent: Lease, state: str) -> None:
    key = send(parent)
    if state == "parked":
        child = begin(held_by(key, *claim()))
        say(child, calls=["x"])
        step(child, parks=True)
    assert run_of(key).state == state

    step(parent, end=End(RunOutcome.FAILED, error="no"))

    assert run_of(key).outcome == "cancelled"
    assert not Session.objects.get(pk=run_of(key).session_id).is_busy


def test_the_end_of_a_child_whose_worker_died_lets_its_parent_go_on(parent: Lease) -> None:
    key = send(parent)
    park(parent)
    child = begin(held_by(key, *claim()))
    step(child, start=ReplyStart("m", "p"))
    assert write(lambda tx: rescue_run(tx, key, worker="worker")) == "ready"
    assert run_of(parent.key).state == "parked"  # the child continues, so its parent waits
    Run.objects.filter(pk=key).update(lost_workers=MOST_LOST_WORKERS - 1)
    begin(held_by(key, *claim()))

    assert write(lambda tx: rescue_run(tx, key, worker="worker")) == "interrupted"

    assert run_of(parent.key).state == "ready"
    sent, ended = write(lambda tx: delegation_result(tx, parent, "c"))
    assert sent
    assert isinstance(ended, ChildResult)
    assert ended.outcome == "interrupted"


def test_sessions_are_nested_only_so_deep(parent: Lease) -> None:
    held = parent
    for _ in range(3):
        key = send(held)
        held = begin(held_by(key, *claim()))
        say(held, calls=["c"])
    with pytest.raises(TooDeep):
        send(held)
