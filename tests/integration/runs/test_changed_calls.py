"""A person may allow a call with other arguments than the model's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from agents.models import Run
from agents.runs.calls.permission_check import (
    CallVerdict,
    CheckedCall,
    QuestionChanged,
    change_call,
)
from agents.runs.lease import Lease
from agents.tools.contract import RequiredPermission
from permissions.models import PermissionRequest
from tests.integration.runs.answering import (
    ANN,
    BOB,
    QUESTION,
    SCHEMA,
    answer,
    check,
    request_of,
    verdict,
    waiting,
)
from tests.integration.runs.ground import Ground, run_of, step, write
from workspaces.log.errors import BadField
from workspaces.log.parts import ToolCall
from workspaces.models import Message


def change(held: Lease, arguments: str, question: RequiredPermission | None) -> None:
    message = Message.objects.filter(run_key=held.key, role="assistant").latest("position")
    call = ToolCall("c", "bash", arguments, finished=True)
    write(
        lambda tx: change_call(
            tx, held, question, call, message_id=message.pk, schema=SCHEMA, hook_decisions={}
        )
    )


def stored_call(held: Lease) -> dict[str, Any]:
    message = Message.objects.filter(run_key=held.key, role="assistant").latest("position")
    return next(
        orjson.loads(part["data"]["input"])
        for part in orjson.loads(message.parts)
        if part["type"] == "tool_call" and part["data"]["id"] == "c"
    )


def test_a_call_runs_with_the_arguments_of_the_answer(ground: Ground) -> None:
    held = waiting(ground, "c")
    check(held)
    answer(held, arguments={"command": "pwd"})
    given = check(held)
    assert (given.verdict, orjson.loads(given.arguments)) == (
        CallVerdict.ALLOWED,
        {"command": "pwd"},
    )
    changed = replace(QUESTION, description="Execute command: pwd", params={"command": "pwd"})
    change(held, given.arguments, changed)
    assert check(held, "c", changed) == CheckedCall(CallVerdict.ALLOWED)
    assert stored_call(held) == {"command": "pwd"}
    assert request_of(held).params == {"command": "pwd"}
    assert len(ground.events("message.updated")) == 1
    with pytest.raises(QuestionChanged):
        check(held, "c", QUESTION)


def test_changed_arguments_are_stored_once(ground: Ground) -> None:
    held = waiting(ground, "c")
    check(held)
    answer(held, arguments={"command": "pwd"})
    for _ in range(2):
        change(held, '{"command":"pwd"}', replace(QUESTION, params={"command": "pwd"}))
    assert len(ground.events("message.updated")) == 1


def test_changed_arguments_that_write_a_protected_file_need_another_answer(ground: Ground) -> None:
    held = waiting(ground, "c")
    check(held)
    first = request_of(held)
    answer(held, arguments={"command": "pwd"}, actor=ANN)
    dangerous = replace(QUESTION, params={"command": "pwd"}, always_asks=True)
    change(held, '{"command":"pwd"}', dangerous)

    assert verdict(held, "c", dangerous) is CallVerdict.NEEDS_ANSWER
    second = request_of(held)
    assert second.pk != first.pk
    assert (second.state, second.always_asks) == ("pending", True)
    # An answer that was meant for the first request does not count for the second.
    assert not answer(held, request_id=first.pk, actor=BOB).is_first
    assert verdict(held, "c", dangerous) is CallVerdict.NEEDS_ANSWER
    step(held, parks=True)
    assert run_of(held.key).state == "parked"
    assert answer(held, actor=BOB).is_first
    assert run_of(held.key).state == "ready"


def test_the_arguments_of_a_call_without_a_schema_cannot_be_changed(ground: Ground) -> None:
    held = waiting(ground, "c")
    check(held)
    PermissionRequest.objects.update(schema={})
    with pytest.raises(BadField, match="cannot be changed"):
        answer(held, arguments={"command": "pwd"})


def test_the_hooks_of_a_changed_call_run_again_after_a_crash_too(ground: Ground) -> None:
    held = waiting(ground, "c")
    check(held)
    Run.objects.filter(pk=held.key).update(hook_decisions='{"c":{"decision":"allow"}}')
    answer(held, arguments={"command": "pwd"})
    change(held, '{"command":"pwd"}', replace(QUESTION, params={"command": "pwd"}))
    assert run_of(held.key).hook_decisions == "{}"
