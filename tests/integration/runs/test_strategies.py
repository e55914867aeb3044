"""What each strategy does with a busy session, in one transaction."""

from __future__ import annotations

from typing import Any

import pytest

from agents.runs.accept import Accepted, Prompt, accept_run
from agents.runs.steps import ReplyStart
from agents.states import Strategy
from agents.turn.notes import CANCELLED_NOTE, CANCELLED_RESULT
from agents.turn.options import Budget, RunOptions
from tests.integration.runs.ground import (
    Ground,
    begin,
    cancelled_of,
    claim,
    end,
    held_by,
    result,
    results_of,
    run_of,
    say,
    step,
    write,
)
from workspaces.access import Actor, IdentityKind
from workspaces.log.errors import RunIdTaken, SessionBusy
from workspaces.models import Event, Message, Session

ANN = Actor(IdentityKind.USER, "ann", 7)


def send(ground: Ground, strategy: str, text: str = "now", **more: Any) -> Accepted:
    prompt = Prompt(ground.session_id, text, strategy=Strategy(strategy), **more)
    return write(lambda tx: accept_run(tx, ground.workspace_id, prompt))


def queue_of(ground: Ground) -> list[int]:
    rows = Session.objects.get(pk=ground.session_id).runs.filter(state="accepted")
    return list(rows.order_by("accept_number").values_list("pk", flat=True))


def test_reject_accepts_nothing_in_a_busy_session(ground: Ground) -> None:
    ground.start()
    before = Event.objects.count()

    with pytest.raises(SessionBusy):
        send(ground, "reject", run_id="r")

    assert Event.objects.count() == before
    assert queue_of(ground) == []


def test_reject_is_accepted_by_an_idle_session_and_known_when_it_comes_again(
    ground: Ground,
) -> None:
    first = send(ground, "reject", run_id="r")
    again = send(ground, "reject", run_id="r")

    assert first.is_new
    assert (again.key, again.is_new) == (first.key, False)


def test_the_same_run_id_with_another_strategy_is_another_request(ground: Ground) -> None:
    send(ground, "enqueue", run_id="r")
    with pytest.raises(RunIdTaken):
        send(ground, "interrupt", run_id="r")


@pytest.mark.parametrize("options", [RunOptions(effort="low"), RunOptions(budget=Budget(steps=3))])
def test_the_same_run_id_with_other_options_is_another_request(
    ground: Ground, options: RunOptions
) -> None:
    send(ground, "enqueue", run_id="r", options=options)
    with pytest.raises(RunIdTaken):
        send(ground, "enqueue", run_id="r")


def test_steer_joins_the_running_turn_with_its_run_id(ground: Ground) -> None:
    held = ground.start()
    waiting = ground.accept("waits", run_id="waits")
    steering = send(ground, "steer", run_id="joins")
    say(held, calls=["c"])
    step(held, results=[result("c")], start=ReplyStart("model", "provider", fold=True))

    (folded,) = ground.events("run.folded")
    assert folded["run"]["key"] == steering.key
    assert (folded["run"]["run_id"], folded["run"]["folded_into"]) == ("joins", held.key)
    assert run_of(steering.key).outcome == "folded"
    assert queue_of(ground) == [waiting]


def test_steering_prompts_without_a_next_step_run_next_in_their_order(ground: Ground) -> None:
    held = ground.start()
    waiting = ground.accept("waits", run_id="waits")
    first, second = send(ground, "steer", run_id="a").key, send(ground, "steer", run_id="b").key
    assert queue_of(ground) == [first, second, waiting]

    end(held)

    (claimed,) = claim()
    assert claimed.key == first
    say(begin(held_by(first, claimed)), calls=["c"])
    lease = held_by(first, claimed)
    step(lease, results=[result("c")], start=ReplyStart("model", "provider", fold=True))
    assert run_of(second).outcome == "folded"
    assert queue_of(ground) == [waiting]


def test_a_prompt_with_options_never_joins_another_turn(ground: Ground) -> None:
    held = ground.start()
    cheap = send(ground, "enqueue", options=RunOptions(budget=Budget(steps=1)))
    say(held, calls=["c"])
    step(held, results=[result("c")], start=ReplyStart("model", "provider", fold=True))

    assert ground.events("run.folded") == []
    assert queue_of(ground) == [cheap.key]


def test_nothing_joins_a_turn_that_requests_no_permission(ground: Ground) -> None:
    """Its author chose this for one prompt, not for those of others."""
    free = send(ground, "enqueue", options=RunOptions(permission_mode="yolo"))
    held = begin(held_by(free.key, *claim()))
    joining = send(ground, "steer")
    say(held, calls=["c"])
    step(held, results=[result("c")], start=ReplyStart("model", "provider", fold=True))

    assert ground.events("run.folded") == []
    assert queue_of(ground) == [joining.key]


def test_interrupt_ends_the_running_run_alone_and_runs_next(ground: Ground) -> None:
    held = ground.start()
    say(held, "half", calls=["c"])
    waiting = ground.accept("waits", run_id="waits")

    interrupting = send(ground, "interrupt", run_id="now")

    assert interrupting.stopped == held.key
    assert [key for key, _ in cancelled_of("worker")] == [held.key]
    assert run_of(interrupting.key).replaces == held.key
    assert queue_of(ground) == [interrupting.key, waiting]
    assert claim() == []  # not before the worker has ended the other one
    assert step(held, results=[result("c")]).is_cancelled

    (moved,) = ground.events("queue.reordered")
    assert moved["runs"] == [{"key": waiting, "accept_number": 3}]


def test_interrupt_ends_a_parked_run_at_once_and_keeps_its_messages(ground: Ground) -> None:
    held = ground.start()
    say(held, "half", calls=["c"])
    step(held, parks=True)

    interrupting = send(ground, "interrupt")

    assert interrupting.stopped is None
    assert run_of(held.key).outcome == "cancelled"
    assert results_of(held) == {"c": (CANCELLED_RESULT, True)}
    reply = Message.objects.filter(run_key=held.key, role="assistant").get()
    assert "half" in reply.parts
    assert CANCELLED_NOTE in reply.parts
    assert [run.key for run in claim()] == [interrupting.key]


def test_interrupt_ends_a_prompt_that_no_worker_has_claimed_yet(ground: Ground) -> None:
    first = ground.accept("first", run_id="first")

    second = send(ground, "interrupt")

    assert run_of(first).outcome == "cancelled"
    assert [run.key for run in claim()] == [second.key]


def test_interrupt_between_two_turns_ends_none_and_runs_before_the_queue(ground: Ground) -> None:
    held = ground.start()
    waiting = ground.accept("waits", run_id="waits")
    end(held)

    interrupting = send(ground, "interrupt")

    assert run_of(waiting).outcome == ""
    assert run_of(interrupting.key).replaces is None
    assert queue_of(ground) == [interrupting.key, waiting]


def test_an_interrupt_that_comes_again_ends_no_second_run(ground: Ground) -> None:
    held = ground.start()
    key = send(ground, "interrupt", run_id="now").key
    step(held, start=ReplyStart("model", "provider"))  # sees the cancel
    write(lambda tx: None)

    again = send(ground, "interrupt", run_id="now")

    assert (again.key, again.is_new, again.stopped) == (key, False, None)
    assert not run_of(key).is_withdrawn


def test_an_interrupting_prompt_that_waits_runs_after_the_next_one(ground: Ground) -> None:
    held = ground.start()
    first = send(ground, "interrupt", run_id="a")
    second = send(ground, "interrupt", run_id="b")

    assert (first.stopped, second.stopped) == (held.key, held.key)
    assert queue_of(ground) == [second.key, first.key]


def test_a_cancel_after_an_interrupt_covers_it_too(ground: Ground) -> None:
    from agents.runs.cancel import cancel_session

    ground.start()
    waiting = ground.accept("waits", run_id="waits")
    key = send(ground, "interrupt").key

    write(lambda tx: cancel_session(tx, ground.workspace_id, ground.session_id))
    later = ground.accept("later", run_id="later")

    mark = Session.objects.get(pk=ground.session_id).cancel_mark
    assert run_of(waiting).accept_number <= mark
    assert run_of(key).accept_number <= mark
    assert run_of(later).accept_number > mark


def test_a_prompt_passes_none_that_a_cancel_covers_already(ground: Ground) -> None:
    from agents.runs.cancel import cancel_session

    held = ground.start()
    cancelled = ground.accept("waits", run_id="waits")
    write(lambda tx: cancel_session(tx, ground.workspace_id, ground.session_id))

    fresh = send(ground, "interrupt")
    step(held)
    from agents.runs.finish import close_session_work, settle_cancelled
    from agents.runs.lease import require_lease

    def settle(tx: Any) -> None:
        settle_cancelled(tx, require_lease(tx, held))
        close_session_work(tx, ground.workspace_id, ground.session_id)

    write(settle)
    assert run_of(cancelled).outcome == "cancelled"
    assert [run.key for run in claim()] == [fresh.key]
