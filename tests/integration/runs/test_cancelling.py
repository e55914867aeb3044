"""What a cancel, a cleared queue and a client that leaves end, and what they leave alone."""

from __future__ import annotations

import pytest

from agents.models import Run
from agents.runs.cancel import cancel_session, clear_queued
from agents.runs.lease import Lease
from agents.runs.queries import cancelled_running
from agents.runs.teardown import retire_everywhere
from agents.states import RunOutcome
from agents.turn.notes import CANCELLED_NOTE, CANCELLED_RESULT
from tests.integration.runs.ground import (
    Ground,
    begin,
    claim,
    end,
    held_by,
    results_of,
    run_of,
    say,
    step,
    write,
)
from workspaces.log.errors import SessionUnknown
from workspaces.models import ClientClaim, Message, Session


def cancel(ground: Ground, session_id: str = "") -> int | None:
    return write(
        lambda tx: cancel_session(tx, ground.workspace_id, session_id or ground.session_id)
    )


def clear(ground: Ground) -> int:
    return write(lambda tx: clear_queued(tx, ground.workspace_id, ground.session_id))


def parked(ground: Ground, session_id: str) -> Lease:
    held = ground.start(session_id=session_id)
    say(held, calls=["c"])
    step(held, parks=True)
    return held


def test_a_cancel_touches_no_other_session(ground: Ground) -> None:
    other = ground.new_session()
    running = ground.start(session_id=other)
    waiting = parked(ground, ground.new_session())
    ground.accept()

    assert cancel(ground) is None

    assert cancelled_running("worker") == []
    assert run_of(running.key).state == "running"
    assert run_of(waiting.key).state == "parked"
    assert Session.objects.get(pk=other).is_busy


def test_a_cancel_behind_a_parked_run_ends_both_in_order(ground: Ground) -> None:
    waiting = parked(ground, ground.session_id)
    behind = ground.accept("behind", run_id="r")

    assert cancel(ground) is None

    ended = [event["run"]["key"] for event in ground.events("run.finished")]
    assert ended == [waiting.key, behind]
    assert results_of(waiting) == {"c": (CANCELLED_RESULT, True)}
    reply = Message.objects.filter(run_key=waiting.key, role="assistant").get()
    assert CANCELLED_NOTE in reply.parts
    assert not Session.objects.get(pk=ground.session_id).is_busy


def test_a_session_of_another_workspace_is_not_cancelled_from_here(ground: Ground) -> None:
    held = ground.start()
    with pytest.raises(SessionUnknown):
        write(lambda tx: cancel_session(tx, "another workspace", ground.session_id))
    assert cancelled_running("worker") == []
    assert run_of(held.key).state == "running"


@pytest.mark.parametrize("state", ["running", "parked", "ready"])
def test_clearing_the_queue_leaves_a_run_that_once_waited_and_has_begun(
    ground: Ground, state: str
) -> None:
    first = ground.start("first")
    second = ground.accept("second", run_id="r")
    end(first)
    held = begin(held_by(second, *claim()))
    if state == "parked":
        say(held, calls=["c"])
        step(held, parks=True)
    elif state == "ready":
        step(held, releases=True)
    third = ground.accept("third")

    assert clear(ground) == 1

    assert run_of(second).state == state
    assert run_of(third).outcome == "cancelled"
    assert Session.objects.get(pk=ground.session_id).is_busy


def test_clearing_the_queue_leaves_a_prompt_that_waits_behind_nothing(ground: Ground) -> None:
    first, second = ground.accept("first"), ground.accept("second")
    assert clear(ground) == 1
    assert (run_of(first).state, run_of(second).state) == ("accepted", "finished")


def test_a_session_whose_last_prompts_are_cleared_is_no_longer_busy(ground: Ground) -> None:
    """What they waited behind has ended, and no worker has claimed them yet."""
    first = ground.start("first")
    ground.accept("second")
    end(first)
    assert Session.objects.get(pk=ground.session_id).is_busy

    assert clear(ground) == 1

    assert not Session.objects.get(pk=ground.session_id).is_busy
    assert "is_busy" not in ground.events("session.updated")[-1]["session"]


def test_clearing_the_queue_leaves_a_cancelled_run_to_its_worker(ground: Ground) -> None:
    held = ground.start()
    covered = ground.accept("covered by the cancel")
    assert cancel(ground) == 2
    later = ground.accept("later")
    assert clear(ground) == 2
    assert run_of(held.key).state == "running"
    assert run_of(covered).outcome == run_of(later).outcome == "cancelled"


def test_clearing_an_empty_queue_sends_no_event(ground: Ground) -> None:
    ground.start()
    before = len(ground.events("session.updated"))
    assert clear(ground) == 0
    assert len(ground.events("session.updated")) == before


def test_of_a_client_that_leaves_each_waiting_run_ends_once(ground: Ground) -> None:
    """Also those that a cancel of their session takes along with the first."""
    keys = [ground.accept(f"{n}", run_id=f"{n}", client_id="c") for n in range(3)]
    Session.objects.filter(pk=ground.session_id).update(cancel_mark=3)

    assert write(lambda tx: retire_everywhere(tx, "c")) == []

    ended = [event["run"]["key"] for event in ground.events("run.finished")]
    assert ended == keys
    assert not Session.objects.get(pk=ground.session_id).is_busy


def test_a_client_that_leaves_ends_its_runs_in_every_session_and_workspace(
    ground: Ground,
) -> None:
    ClientClaim.objects.create(workspace_id=ground.workspace_id, client_id="d", expires_at=10**15)
    mine = [
        ground.accept(run_id="1", client_id="c"),
        ground.accept(run_id="2", client_id="c", session_id=ground.new_session()),
    ]
    others = ground.accept(run_id="3", client_id="d", session_id=ground.new_session())

    write(lambda tx: retire_everywhere(tx, "c"))

    assert [run_of(key).outcome for key in mine] == ["cancelled", "cancelled"]
    assert run_of(others).state == "accepted"
    held = begin(held_by(others, *claim()))
    assert end(held).is_cancelled is False


def test_a_client_that_leaves_ends_nothing_twice(ground: Ground) -> None:
    held = ground.start(run_id="r", client_id="c")
    end(held, RunOutcome.COMPLETED)
    assert write(lambda tx: retire_everywhere(tx, "c")) == []
    assert run_of(held.key).outcome == "completed"
    assert not run_of(held.key).is_withdrawn
    assert len(ground.events("run.finished")) == 1
    assert Run.objects.count() == 1
