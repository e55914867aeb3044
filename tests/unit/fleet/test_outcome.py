"""Pure rules of the parent: deadlines, the choice among terminals, what a run has produced."""

import pytest

from agents.fleet.parent.outcome import (
    MOST_CHARACTERS,
    SENTENCES,
    Deadlines,
    Ending,
    Produced,
    RunLimits,
    Terminals,
)
from agents.fleet.wire.frames import Status, Terminal

CANCELLED = Terminal(Status.CANCELLED)
OLD = Terminal(Status.COMPLETED, result="old")
NEW = Terminal(Status.COMPLETED, result="new")
FAILED = Terminal(Status.ERROR, error="new")


def test_without_limits_nothing_is_due():
    deadlines = Deadlines(RunLimits(), 0)
    assert deadlines.next_look() is None
    assert deadlines.passed(1e9) is None


def test_the_earlier_limit_counts():
    deadlines = Deadlines(RunLimits(wall_clock_seconds=10, idle_seconds=3), 100)
    assert deadlines.next_look() == 103
    assert deadlines.passed(102.9) is None
    assert deadlines.passed(103) is Ending.IDLE
    assert deadlines.passed(200) is Ending.IDLE
    deadlines.record_activity(109)
    assert deadlines.passed(110) is Ending.OUT_OF_TIME


def test_a_question_stops_idleness_and_not_the_clock():
    deadlines = Deadlines(RunLimits(wall_clock_seconds=10, idle_seconds=3), 0)
    deadlines.count_questions(+1, 1)
    deadlines.count_questions(+1, 1)
    deadlines.count_questions(-1, 2)
    assert deadlines.passed(9) is None
    assert deadlines.passed(10) is Ending.OUT_OF_TIME
    deadlines.count_questions(-1, 5)
    assert deadlines.passed(8) is Ending.IDLE


def test_a_run_that_was_told_to_stop_has_its_grace_once():
    deadlines = Deadlines(RunLimits(idle_seconds=1, cancel_grace_seconds=5), 0)
    deadlines.stopping(10)
    deadlines.stopping(14)
    assert deadlines.next_look() == 15
    assert not deadlines.is_given_up(14.9)
    assert deadlines.is_given_up(15)


def test_a_late_terminal_is_awaited_from_the_last_event():
    deadlines = Deadlines(RunLimits(late_terminal_seconds=5), 0)
    assert not deadlines.is_terminal_late(100)
    deadlines.awaiting_late_terminal(10)
    deadlines.record_activity(12)
    assert deadlines.next_look() == 17
    assert not deadlines.is_terminal_late(16)
    assert deadlines.is_terminal_late(17)


def test_a_run_that_was_not_superseded_has_one_terminal():
    terminals = Terminals()
    assert terminals.take(NEW)
    assert terminals.chosen(was_cancelled=False) == NEW


@pytest.mark.parametrize(
    ("taken", "was_cancelled", "chosen"),
    [
        ((CANCELLED, NEW), False, NEW),
        ((NEW, CANCELLED), False, NEW),
        ((FAILED, CANCELLED), False, FAILED),
        ((OLD, NEW), False, NEW),  # the old one ended just before it was superseded
        ((CANCELLED, CANCELLED), True, CANCELLED),
        ((OLD, CANCELLED), True, CANCELLED),
        ((CANCELLED, NEW), True, NEW),  # it ended just before it was cancelled
    ],
)
def test_the_new_runs_terminal_is_chosen_in_either_order(taken, was_cancelled, chosen):
    terminals = Terminals()
    terminals.superseded()
    assert [terminals.take(each) for each in taken] == [False, True]
    assert terminals.chosen(was_cancelled=was_cancelled) == chosen


def test_only_an_end_by_itself_may_be_the_newest_runs():
    terminals = Terminals()
    terminals.superseded()
    terminals.take(CANCELLED)
    assert not terminals.may_be_over
    terminals.superseded()
    terminals.take(NEW)
    assert terminals.may_be_over


def test_words_steps_and_events_are_counted():
    produced = Produced(frozenset({"tool_start"}))
    odd = [None, 1, [], {}, {"type": 5}, {"type": ["token"]}, {"type": "token", "content": 5}]
    for event in [*odd, {"type": "token", "content": "a"}, {"type": "tool_start", "content": "b"}]:
        produced.take(event)
    assert (produced.text, produced.steps, produced.events) == ("a", 1, 9)


def test_the_words_are_bounded():
    produced = Produced(frozenset())
    for _ in range(3):
        produced.take({"type": "token", "content": "x" * (MOST_CHARACTERS - 1)})
    assert len(produced.text) == MOST_CHARACTERS


def test_every_ending_has_its_sentence():
    assert set(SENTENCES) == set(Ending)
