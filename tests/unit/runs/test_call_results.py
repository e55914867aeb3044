"""The stored results of calls that ran, failed, or were denied."""

from __future__ import annotations

import orjson
import pytest

from agents.runs.calls.calls import Failed, arguments_of
from agents.runs.messages import denied, failure, result_of
from agents.tools.contract import ToolOutcome
from agents.turn.notes import DENIED_RESULT
from workspaces.log.parts import ToolCall

CALL = ToolCall("c", "write", '{"file_path": "a"}', finished=True)


def test_a_denial_shows_the_change_that_was_denied() -> None:
    params = {"file_path": "/a", "old_content": "one\n", "new_content": "two\n"}
    result = denied(CALL, params, "")
    shown = orjson.loads(result.metadata)
    assert (result.content, result.is_error) == (DENIED_RESULT, True)
    assert (shown["additions"], shown["removals"]) == (1, 1)
    assert "-one" in shown["diff"]


def test_a_denial_with_a_reason_begins_as_clients_recognise_it() -> None:
    result = denied(CALL, {}, "use the other file")
    assert result.content == f"{DENIED_RESULT} Reason: use the other file"
    assert not result.metadata


@pytest.mark.parametrize("text", ["[]", "1", "nonsense", '"a"'])
def test_arguments_that_are_no_object_fail_the_call(text: str) -> None:
    with pytest.raises(Failed, match="JSON"):
        arguments_of(ToolCall("c", "write", text, finished=True))


def test_results_are_storable() -> None:
    assert arguments_of(CALL) == {"file_path": "a"}
    assert result_of(CALL, ToolOutcome("a\x00b", metadata={"n": 1})).content == "a\ufffdb"
    assert failure(CALL, "no").is_error
