"""Assignments on a foreign child: a process of its own, over a real socket, on another library."""

import asyncio
import os
import signal

import pytest

from agents.fleet.parent.outcome import Ending, Order
from tests.integration.fleet.parent.listening import Ears, assign, outcome_of


@pytest.fixture
async def child(start):
    return await start(reusable=True)


async def test_a_run_streams_its_events_in_order_and_then_ends(child):
    ears = Ears()
    outcome = await outcome_of(child, "alpha __stream:300 ünï", ears)
    assert outcome.ending is Ending.COMPLETED
    assert outcome.result == "echo: alpha ünï"
    assert outcome.error == ""
    ticks = "".join(f"tick{number} " for number in range(300))
    assert ears.words == f"alpha {ticks}ünï " == outcome.produced
    assert ears.events[-1] == {"type": "complete"}
    assert outcome.events == 303
    assert outcome.is_child_usable


async def test_a_connection_carries_one_run_after_another(child):
    results = [(await outcome_of(child, f"n{number}")).result for number in range(5)]
    assert results == [f"echo: n{number}" for number in range(5)]


async def test_messages_steer_in_order(child):
    ears = Ears()
    assignment, running = assign(child, "x __await_steer:2", ears)
    await ears.heard()
    await assignment.steer("left")
    await assignment.steer("right")
    assert (await running).result == "echo: x steer=[left] steer=[right]"


@pytest.mark.parametrize("answer", [True, False])
async def test_a_question_is_relayed_and_its_answer_sent_back(child, answer):
    ears = Ears(answer)
    outcome = await outcome_of(child, "__approve:Write", ears)
    assert outcome.result == f"echo: approved={str(answer).lower()}"
    (request_id, body), *more = ears.asked
    assert more == []
    assert request_id.startswith("sa-")
    assert body["question"] == "May Write?"


async def test_a_question_that_cannot_be_answered_is_denied(child):
    outcome = await outcome_of(child, "__approve:Write", Ears(RuntimeError("database gone")))
    assert outcome.result == "echo: approved=false"


async def test_a_question_may_overtake_the_event_before_it(child):
    ears = Ears()
    outcome = await outcome_of(child, "__approve_overtakes:Write", ears)
    assert outcome.result == "echo: approved=true"
    assert ears.words == "before "


async def test_cancel_ends_a_flood(child):
    ears = Ears()
    assignment, running = assign(child, "__stream:1000000:1", ears)
    await ears.heard(20)
    await assignment.cancel()
    await assignment.cancel()
    outcome = await running
    assert (outcome.ending, outcome.result) == (Ending.CANCELLED, None)
    assert outcome.produced.startswith("tick0 ")
    assert outcome.is_child_usable
    assert (await outcome_of(child, "after")).result == "echo: after"


async def test_cancel_drops_a_waiting_question(child):
    ears = Ears(answer=None)
    assignment, running = assign(child, "__approve:Write", ears)
    await ears.was_asked()
    await assignment.cancel()
    assert (await running).ending is Ending.CANCELLED
    assert len(ears.dropped) == 1


async def test_an_assignment_cancelled_before_it_begins_is_never_sent(child):
    assignment = child.assignment(Order("x"), listener=Ears().listener)
    await assignment.cancel()
    outcome = await child.run(assignment)
    assert (outcome.ending, outcome.events) == (Ending.CANCELLED, 0)
    assert (await outcome_of(child, "after")).result == "echo: after"


async def test_a_deaf_run_is_given_up_after_its_grace(child):
    ears = Ears()
    assignment, running = assign(child, "said __deaf_ms:60000", ears, cancel_grace_seconds=0.2)
    await ears.heard()
    await assignment.cancel()
    outcome = await running
    assert outcome.ending is Ending.CANCELLED
    assert outcome.produced == "said "
    assert not outcome.is_child_usable


async def test_the_wall_clock_ends_a_busy_run(child):
    outcome = await outcome_of(child, "__stream:100000:5", wall_clock_seconds=4.0)
    assert outcome.ending is Ending.OUT_OF_TIME
    assert outcome.produced.startswith("tick0 ")
    assert outcome.is_child_usable  # it ended by the cancel


async def test_the_idle_limit_ends_a_silent_run(child):
    outcome = await outcome_of(child, "said __sleep_ms:60000", idle_seconds=4.0)
    assert (outcome.ending, outcome.produced) == (Ending.IDLE, "said ")
    assert "sent nothing" in outcome.error


async def test_waiting_for_a_person_is_not_idleness(child):
    ears = Ears(answer=None)
    _, running = assign(child, "__approve:Write", ears, idle_seconds=4.0)
    await ears.was_asked()
    done, _ = await asyncio.wait({running}, timeout=5)
    assert not done
    ears.answer = True
    assert (await running).result == "echo: approved=true"


async def test_a_slow_listener_is_not_idleness(child):
    ears = Ears()
    inner, are_slow = ears.on_event, [True]

    async def slow_once(event):
        if are_slow:
            are_slow.clear()
            await asyncio.sleep(4.5)
        await inner(event)

    ears.listener = type(ears.listener)(slow_once, ears.on_approval)
    outcome = await outcome_of(child, "one __sleep_ms:5000 two", ears, idle_seconds=3.0)
    assert outcome.ending is Ending.COMPLETED


async def test_the_budget_of_steps_ends_a_run(child):
    outcome = await outcome_of(child, "said __steps:50 __sleep_ms:60000", most_steps=10)
    assert outcome.ending is Ending.OUT_OF_STEPS
    assert outcome.steps > 10
    assert outcome.produced == "said "


async def test_within_its_budget_a_run_completes(child):
    outcome = await outcome_of(child, "__steps:10", most_steps=10)
    assert (outcome.ending, outcome.steps) == (Ending.COMPLETED, 10)


async def test_a_childs_failure_is_told(child):
    outcome = await outcome_of(child, "said __fail:boom")
    assert (outcome.ending, outcome.error, outcome.produced) == (Ending.ERROR, "boom", "said ")


async def test_suspending_is_refused_with_a_sentence(child):
    outcome = await outcome_of(child, "__suspend")
    assert outcome.ending is Ending.SUSPENDED
    assert "does not support" in outcome.error
    assert outcome.result is None


async def test_a_panic_without_a_terminal_meets_the_idle_limit(child):
    outcome = await outcome_of(child, "said __panic", idle_seconds=4.0, cancel_grace_seconds=0.2)
    assert (outcome.ending, outcome.produced) == (Ending.IDLE, "said ")
    assert not outcome.is_child_usable


async def test_bad_texts_and_binary_do_not_end_a_run(child):
    bad = "__text:nonsense __text:{} __binary __text:[] fine"
    assert (await outcome_of(child, bad)).result == "echo: fine"


async def test_a_flood_of_nonsense_ends_a_run(child):
    outcome = await outcome_of(child, "__text:x " * 200)
    assert outcome.ending is Ending.LOST
    assert not outcome.is_child_usable


async def test_a_child_that_dies_is_told_with_what_it_had_produced(child):
    outcome = await outcome_of(child, "said this __die:7")
    assert outcome.ending is Ending.LOST
    assert outcome.produced == "said this "
    assert "code 7" in outcome.error
    assert "last words of the child" in outcome.error
    assert not outcome.is_child_usable
    assert not await child.is_well()


async def test_a_child_killed_mid_run_is_lost(child):
    ears = Ears()
    _, running = assign(child, "__stream:100000:2", ears)
    await ears.heard(5)
    os.kill(child.process.pid, signal.SIGKILL)
    outcome = await running
    assert outcome.ending is Ending.LOST
    assert "code -9" in outcome.error
    assert outcome.produced.startswith("tick0 ")


async def test_a_cut_connection_is_lost(child):
    outcome = await outcome_of(child, "said __drop")
    assert (outcome.ending, outcome.produced) == (Ending.LOST, "said ")


async def test_a_frozen_child_is_found_deaf_by_its_pings(start):
    child = await start(ping_seconds=1.0)
    ears = Ears()
    _, running = assign(child, "said __sleep_ms:60000", ears)
    await ears.heard()
    os.kill(child.process.pid, signal.SIGSTOP)
    outcome = await running
    assert (outcome.ending, outcome.produced) == (Ending.UNRESPONSIVE, "said ")


async def test_a_silent_child_that_answers_pings_lives(start):
    child = await start(ping_seconds=3.0)
    assert (await outcome_of(child, "__sleep_ms:7000 done")).result == "echo: done"


async def test_two_megabytes_pass_each_way(child):
    size = 2_300_000
    outcome = await outcome_of(child, f"__big:{size} __length " + "y" * size)
    assert outcome.ending is Ending.COMPLETED
    assert f"chars={size + 24}"[:8] in outcome.result


async def test_too_large_an_assignment_is_refused_and_the_child_is_fine(child):
    outcome = await outcome_of(child, "y" * (17 * 1024 * 1024))
    assert outcome.ending is Ending.ERROR
    assert "16 MiB" in outcome.error
    assert outcome.is_child_usable
    assert (await outcome_of(child, "after")).result == "echo: after"


@pytest.mark.parametrize("old", ["__sleep_ms:60000", "__deaf_ms:300"])
async def test_a_superseded_runs_terminal_is_not_the_new_ones(child, old):
    """A quick old run ends first, a deaf one last: both orders of the two terminals."""
    ears = Ears()
    assignment, running = assign(child, f"old {old}", ears)
    await ears.heard()
    await assignment.supersede(Order("new"))
    outcome = await running
    assert (outcome.ending, outcome.result) == (Ending.COMPLETED, "echo: new")
    assert (await outcome_of(child, "after")).result == "echo: after"


async def test_a_superseded_run_that_dies_without_a_terminal_holds_nothing(child):
    ears = Ears()
    old = "old __panic:100"
    assignment, running = assign(child, old, ears, late_terminal_seconds=0.5)
    await ears.heard()
    await assignment.supersede(Order("new"))
    outcome = await running
    assert outcome.result == "echo: new"
    assert not outcome.is_child_usable  # the late one would be taken for the next run's


async def test_what_is_said_to_an_ended_assignment_does_not_reach_the_next(child):
    ended, running = assign(child, "one")
    await running
    ears = Ears()
    _, running = assign(child, "two __sleep_ms:150 three", ears)
    await ears.heard()
    await ended.cancel()
    await ended.steer("x")
    await ended.supersede(Order("four"))
    assert (await running).result == "echo: two three"


async def test_a_message_from_before_the_run_is_kept_for_it(child):
    assignment = child.assignment(Order("__await_steer"), listener=Ears().listener)
    await assignment.steer("early")
    assert (await child.run(assignment)).result == "echo: steer=[early]"


async def test_a_superseding_run_can_be_cancelled(child):
    ears = Ears()
    assignment, running = assign(child, "old __sleep_ms:60000", ears)
    await ears.heard()
    await assignment.supersede(Order("new __sleep_ms:60000"))
    await ears.heard(2)
    await assignment.cancel()
    assert (await running).ending is Ending.CANCELLED


async def test_a_listener_that_fails_raises_and_ends_the_childs_run(child):
    ears = Ears()

    async def fail(event):
        raise RuntimeError("disk full")

    ears.listener = type(ears.listener)(fail, ears.on_approval)
    with pytest.raises(RuntimeError, match="disk full"):
        await outcome_of(child, "x __sleep_ms:60000", ears)
    assert not child.connection.is_open


async def test_a_cancelled_task_closes_the_connection(child):
    ears = Ears()
    _, running = assign(child, "x __sleep_ms:60000", ears)
    await ears.heard()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not child.connection.is_open
