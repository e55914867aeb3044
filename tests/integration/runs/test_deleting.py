"""What goes with a deleted session, when it goes, and what of other sessions stays."""

from __future__ import annotations

import pytest

from agents.models import Run, SubAgent
from agents.runs.cancel import mark_deleted
from agents.runs.children.delegations import begin_delegation, begin_sub_agent
from agents.runs.finish import delete_if_marked
from agents.runs.lease import Lease
from agents.runs.steps import ReplyStart
from agents.states import RunOutcome
from agents.tools.contract import ChildTask
from agents.turn.effects import End
from permissions.models import Grant
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
    write,
)
from workspaces.log.errors import SessionUnknown
from workspaces.models import Message, Session


def delete(ground: Ground, session_id: str = "") -> int | None:
    return write(lambda tx: mark_deleted(tx, ground.workspace_id, session_id or ground.session_id))


def with_child(ground: Ground, session_id: str) -> tuple[Lease, Lease]:
    """A run whose call waits for a sub-agent, and the sub-agent's run; a worker holds both."""
    parent = ground.start(session_id=session_id)
    message_id = say(parent, calls=["c"])
    task = ChildTask("fleet", "child", "do it", role="reader")
    write(lambda tx: begin_delegation(tx, parent, task, message_id=message_id, call_id="c"))
    key = Run.objects.get(parent_id=parent.key).pk
    child = begin(held_by(key, *claim()))
    write(lambda tx: begin_sub_agent(tx, child, role="reader"))
    step(parent, parks=True)
    return parent, child


def finish(child: Lease) -> None:
    say(child, "words")
    end(child)


def test_a_session_goes_with_its_rows_and_those_of_its_children(ground: Ground) -> None:
    _, child = with_child(ground, ground.session_id)
    other_parent, other_child = with_child(ground, ground.new_session())
    finish(child)
    assert SubAgent.objects.get(run_id=child.key).state == "ended"
    assert SubAgent.objects.get(run_id=other_child.key).state == "starting"
    for session_id in (ground.session_id, other_parent.session_id):
        Grant.objects.create(
            workspace_id=ground.workspace_id,
            session_id=session_id,
            tool_name="t",
            action="a",
            path="/p",
            granted_at=1,
        )

    assert delete(ground) is None

    assert set(Run.objects.values_list("pk", flat=True)) == {other_parent.key, other_child.key}
    assert run_of(other_child.key).parent_id == other_parent.key
    assert SubAgent.objects.get().run_id == other_child.key
    assert Grant.objects.get().session_id == other_parent.session_id
    left = set(Session.objects.values_list("pk", "is_deleting"))
    assert left == {(other_parent.session_id, False), (other_child.session_id, False)}
    assert set(Message.objects.values_list("session_id", flat=True)) == {
        other_parent.session_id,
        other_child.session_id,
    }


def test_a_child_session_goes_alone_and_its_parent_keeps_its_run(ground: Ground) -> None:
    parent, child = with_child(ground, ground.session_id)
    finish(child)
    assert delete(ground, child.session_id) is None
    assert Session.objects.get().pk == ground.session_id
    assert Run.objects.get().pk == parent.key
    assert not SubAgent.objects.exists()


def test_a_child_that_still_runs_goes_when_its_worker_has_ended_it(ground: Ground) -> None:
    _, child = with_child(ground, ground.session_id)

    assert delete(ground) is None

    assert Session.objects.get().pk == child.session_id
    for late in (
        lambda: ground.accept("late", session_id=child.session_id),
        lambda: delete(ground),
    ):
        with pytest.raises(SessionUnknown):
            late()
    step(child, end=End(RunOutcome.CANCELLED))
    assert not Session.objects.exists()
    assert not Run.objects.exists()


def test_a_run_that_waits_for_a_child_whose_session_is_deleted_goes_on(ground: Ground) -> None:
    parent, child = with_child(ground, ground.session_id)
    assert delete(ground, child.session_id) == 1
    step(child, end=End(RunOutcome.CANCELLED))
    assert run_of(parent.key).state == "ready"
    assert Session.objects.get().pk == ground.session_id


def test_a_session_with_folded_prompts_can_be_deleted(ground: Ground) -> None:
    """Their rows name the run that they were folded into."""
    other = ground.new_session()
    folded = {}
    for session_id in (ground.session_id, other):
        held = ground.start(session_id=session_id)
        say(held, calls=["c"])
        folded[session_id] = ground.accept("more", session_id=session_id)
        step(held, results=[result("c")])
        step(held, start=ReplyStart("m", "p", fold=True))
        assert run_of(folded[session_id]).folded_into_id == held.key
        end(held)

    assert delete(ground) is None

    assert not Run.objects.filter(session_id=ground.session_id).exists()
    assert run_of(folded[other]).folded_into_id is not None


def test_a_session_of_another_workspace_is_not_deleted_from_here(ground: Ground) -> None:
    other = open_ground("/other")
    with pytest.raises(SessionUnknown):
        delete(ground, other.session_id)
    assert Session.objects.filter(is_deleting=False).count() == 2


def test_a_session_that_is_deleted_takes_no_other_along(ground: Ground) -> None:
    busy = ground.new_session("busy")
    held = ground.start(session_id=busy)
    idle = ground.new_session("idle")

    assert delete(ground) is None

    assert set(Session.objects.values_list("pk", "is_deleting")) == {(busy, False), (idle, False)}
    end(held)
    assert run_of(held.key).outcome == "completed"
    assert Session.objects.filter(pk=busy).exists()


def test_a_session_that_is_being_deleted_is_unknown_and_waits_for_its_own_end(
    ground: Ground,
) -> None:
    busy = ground.new_session("busy")
    held = ground.start(session_id=busy)
    assert delete(ground, busy) == 1
    with pytest.raises(SessionUnknown):
        delete(ground, busy)
    assert delete(ground) is None
    assert Session.objects.get().pk == busy
    step(held, end=End(RunOutcome.CANCELLED))
    assert not Session.objects.exists()


def test_only_a_deleted_session_is_erased(ground: Ground) -> None:
    write(lambda tx: delete_if_marked(tx, ground.workspace_id, ground.session_id))
    assert Session.objects.get().pk == ground.session_id
