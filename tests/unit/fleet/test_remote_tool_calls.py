"""A sub-agent's tool calls as its session shows them."""

from typing import Any

import pytest

from agents.fleet.event_mapping import INPUT_CHARS, MOST_CALLS, RESULT_CHARS, RemoteToolCalls
from agents.llm.contract import ToolCallFinished, ToolCallStarted, ToolInputDelta
from workspaces.log.parts import ToolResult


def start(call_id: Any = "c1", name: Any = "view", **more: Any) -> dict[str, Any]:
    return {"type": "tool_start", "tool_call_id": call_id, "tool_name": name, **more}


def complete(call_id: Any = "c1", **result: Any) -> dict[str, Any]:
    return {"type": "tool_complete", "tool_call_id": call_id, "result": result}


def test_a_call_is_shown_as_a_model_would_have_made_it():
    calls = RemoteToolCalls()

    assert calls.begun(start(arguments={"path": "é"})) == (
        ToolCallStarted("c1", "view"),
        ToolInputDelta("c1", '{"path":"é"}'),
        ToolCallFinished("c1"),
    )
    assert calls.ended(complete(success=True, result="seen")) == ToolResult("c1", "view", "seen")
    assert calls.ended(complete(success=True, result="again")) is None


def test_a_failure_is_an_error():
    calls = RemoteToolCalls()
    calls.begun(start())

    result = calls.ended(complete(success=False, result="no"))

    assert result is not None
    assert result.is_error


@pytest.mark.parametrize(
    "event",
    [
        None,
        [],
        "tool_start",
        {},
        start(call_id=""),
        start(call_id=7),
        start(call_id="x" * 500),
        start(name=""),
        start(name=None),
        {"type": "tool_token"},
    ],
)
def test_nothing_else_is_a_call(event: Any):
    calls = RemoteToolCalls()

    assert calls.begun(event) == ()
    assert calls.ended(event) is None


def test_a_result_needs_its_call_and_a_call_begins_once():
    calls = RemoteToolCalls()
    assert calls.ended(complete(success=True, result="x")) is None
    assert calls.begun(start())
    assert calls.begun(start()) == ()


def test_there_are_not_too_many_and_none_is_too_large():
    calls = RemoteToolCalls()
    begun = [calls.begun(start(call_id=f"c{n}")) for n in range(MOST_CALLS + 5)]
    assert sum(bool(events) for events in begun) == MOST_CALLS
    result = calls.ended(complete("c0", success=True, result="y" * (2 * RESULT_CHARS)))
    assert result is not None
    assert len(result.content) < RESULT_CHARS + 100
    large = RemoteToolCalls().begun(start(arguments={"a": "x" * INPUT_CHARS}))
    assert large[1] == ToolInputDelta("c1", "{}")


def test_no_character_is_kept_that_no_database_stores():
    calls = RemoteToolCalls()
    (_, given, _) = calls.begun(start(arguments={"a": "\x00"}))
    assert isinstance(given, ToolInputDelta)
    assert "\\u0000" not in given.text
    result = calls.ended(complete(success=True, result="a\x00b"))
    assert result == ToolResult("c1", "view", "a\ufffdb")
