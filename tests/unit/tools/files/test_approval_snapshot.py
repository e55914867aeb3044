"""A call runs only on the facts that its question was about."""

import dataclasses
from pathlib import Path

import pytest

from agents.tools.contract import ToolContext, ToolRefusal
from agents.tools.files import approval_snapshot
from tests.doubles.tool_context import make_tool_doubles

KEPT = 10_000


def calls(folder: Path, count: int) -> list[ToolContext]:
    context = make_tool_doubles(folder).context
    return [dataclasses.replace(context, call_id=f"call {number}") for number in range(count)]


def test_other_facts_are_refused_and_the_same_are_not(tmp_path: Path) -> None:
    (context,) = calls(tmp_path, 1)
    approval_snapshot.remember(context, "a path", 1)
    approval_snapshot.check(context, "a path", 1)
    approval_snapshot.remember(context, "a path", 1)
    with pytest.raises(ToolRefusal, match="path or the file has changed"):
        approval_snapshot.check(context, "a path", 2)


def test_a_call_without_a_question_is_not_refused(tmp_path: Path) -> None:
    (context,) = calls(tmp_path, 1)
    approval_snapshot.check(context, "a path")


def test_a_question_counts_for_one_run_of_its_own_call(tmp_path: Path) -> None:
    (context,) = calls(tmp_path, 1)
    approval_snapshot.remember(context, "a path")
    for name in ("session_id", "message_id", "call_id"):
        approval_snapshot.check(dataclasses.replace(context, **{name: "another"}), "another path")
    approval_snapshot.check(context, "a path")
    approval_snapshot.check(context, "another path")


def test_the_newest_question_of_a_call_counts(tmp_path: Path) -> None:
    (context,) = calls(tmp_path, 1)
    approval_snapshot.remember(context, "a path")
    approval_snapshot.remember(context, "another path")
    approval_snapshot.check(context, "another path")


def test_the_latest_questions_are_kept(tmp_path: Path) -> None:
    contexts = calls(tmp_path, KEPT)
    for context in contexts:
        approval_snapshot.remember(context, "a path")
    for context in (contexts[0], contexts[-1]):
        with pytest.raises(ToolRefusal):
            approval_snapshot.check(context, "another path")


def test_a_question_that_is_put_again_is_among_the_latest(tmp_path: Path) -> None:
    again, next_one, *others, last = calls(tmp_path, KEPT + 1)
    for context in (again, next_one, *others, again, last):
        approval_snapshot.remember(context, "a path")
    approval_snapshot.check(next_one, "another path")  # forgotten, as the oldest
    for context in (again, last):
        with pytest.raises(ToolRefusal):
            approval_snapshot.check(context, "another path")
