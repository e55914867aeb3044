"""What follows for a call that was cut, by its rule: a result, a person's decision, or the end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agents.runs.answer import Answer
from agents.runs.calls.permission_check import CallVerdict, QuestionChanged
from agents.runs.finish import rescue_run
from agents.runs.lease import Lease
from agents.runs.rescue.cut_calls import cut_decision
from agents.runs.rows import store_call_outputs
from agents.turn.notes import NOT_REPEATED_NOTE, UNKNOWN_RESULT
from permissions.actions.requests import RUN_AGAIN
from permissions.models import Grant, GrantScope
from tests.integration.runs.answering import QUESTION, answer, request_of, verdict, waiting
from tests.integration.runs.ground import (
    Ground,
    begin,
    claim,
    held_by,
    results_of,
    run_of,
    step,
    write,
)
from workspaces.actions.workspaces import set_permission_mode
from workspaces.log.parts import ToolCall
from workspaces.models import PermissionMode

CALL = ToolCall("c", "bash", "{}", finished=True)


def cut(held: Lease, rule: str = "ask", *, printed: str = "half-way") -> str:
    """The tool of the call runs, prints, and its worker is lost; returns what was done."""
    step(held, begins={"c": rule})
    write(lambda tx: store_call_outputs(tx, [(held.key, held.fence, {"c": printed})]))
    return write(lambda tx: rescue_run(tx, held.key, worker="worker"))


def again(held: Lease) -> Lease:
    return begin(held_by(held.key, *claim()))


def decision(held: Lease) -> tuple[bool, str]:
    waits, result = cut_decision(held.key, CALL)
    return waits, "" if result is None else result.content


@pytest.fixture
def asked(ground: Ground) -> Lease:
    """A run with a call that a person has allowed."""
    held = waiting(ground, "c")
    assert verdict(held) is CallVerdict.NEEDS_ANSWER
    answer(held)
    return held


def test_a_request_about_a_cut_call_shows_the_call_and_what_it_printed(asked: Lease) -> None:
    assert cut(asked) == "ready"
    request = request_of(asked)
    assert (request.tool_name, request.action) == ("bash", "execute")
    assert request.params == QUESTION.params
    assert (request.description, request.cut_output) == (QUESTION.description, "half-way")
    assert results_of(asked) == {}
    assert decision(asked) == (True, "")


def test_an_allowed_second_run_is_allowed_once(asked: Lease) -> None:
    cut(asked)
    held = again(asked)
    answer(held, scope=GrantScope.SESSION)
    assert decision(held) == (False, "")
    assert verdict(held) is CallVerdict.ALLOWED
    assert not Grant.objects.exists()
    with pytest.raises(QuestionChanged):
        verdict(held, question=replace(QUESTION, path="/elsewhere"))


@pytest.mark.parametrize("reason", ["", "It costs money."])
def test_a_denied_second_run_gives_the_model_the_unknown_outcome(asked: Lease, reason: str) -> None:
    cut(asked)
    held = again(asked)
    answer(held, Answer.DENY, reason=reason)
    waits, content = decision(held)
    assert not waits
    assert content.startswith(f"{UNKNOWN_RESULT} {NOT_REPEATED_NOTE}")
    assert reason in content
    assert content.endswith("\nhalf-way")


def test_a_call_that_is_cut_again_has_another_request(ground: Ground, asked: Lease) -> None:
    cut(asked)
    first = request_of(asked)
    held = again(asked)
    answer(held)
    cut(held, printed="again")
    second = request_of(held)
    assert second.pk != first.pk
    assert (second.state, second.cut_output) == ("pending", "again")
    descriptions = [e["request"]["description"] for e in ground.events("permission.requested")]
    assert [text.count(RUN_AGAIN) for text in descriptions] == [0, 1, 1]


def test_a_call_without_an_earlier_request_is_shown_with_its_arguments(ground: Ground) -> None:
    held = waiting(ground, "c")
    cut(held)
    request = request_of(held)
    assert (request.tool_name, request.action, request.params) == ("bash", "repeat", {})
    held = again(held)
    answer(held)
    assert verdict(held) is CallVerdict.ALLOWED
    # A file that programs obey was not in what the person saw.
    with pytest.raises(QuestionChanged):
        verdict(held, question=replace(QUESTION, always_asks=True))


def test_a_workspace_that_requests_nothing_has_no_request(ground: Ground) -> None:
    held = waiting(ground, "c")
    write(lambda tx: set_permission_mode(tx, ground.workspace_id, mode=PermissionMode.YOLO))
    assert cut(held) == "ready"
    assert ground.events("permission.requested") == []
    assert results_of(held)["c"][0].startswith(UNKNOWN_RESULT)


def test_the_rule_interrupt_ends_the_run_and_keeps_the_output(ground: Ground) -> None:
    held = waiting(ground, "c", "d")
    assert cut(held, "interrupt") == "interrupted"
    row = run_of(held.key)
    assert (row.state, row.outcome) == ("finished", "interrupted")
    assert "permissions.cut_calls" in row.error
    results = results_of(held)
    assert results["c"][0].endswith("\nhalf-way")
    assert results["d"] == (row.error, True)
    assert run_of(held.key).open_calls == "[]"


def test_calls_with_a_rule_are_read_by_an_earlier_release(ground: Ground) -> None:
    """It reads a list of ids, of an object its keys."""
    held = waiting(ground, "c", "d")
    step(held, begins={"c": "report"})
    assert run_of(held.key).open_calls == '["c"]'
    step(held, begins={"d": "ask"})
    assert run_of(held.key).open_calls == '{"c":"report","d":"ask"}'
