"""A call is allowed for exactly what the person was shown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agents.runs.answer import Answer, resolve
from agents.runs.calls.permission_check import CallVerdict, QuestionChanged, check_call
from agents.runs.lease import Lease
from agents.tools.contract import RequiredPermission
from permissions.models import PermissionRequest
from tests.integration.runs.ground import Ground, end, open_ground, run_of, say, step, write
from workspaces.actions.workspaces import set_permission_mode
from workspaces.delivery.v1_frames import permission_frames
from workspaces.models import PermissionMode

QUESTION = RequiredPermission(
    "write",
    "write",
    "/project",
    "Create file a",
    {"file_path": "/project/a", "new_content": "x\x00", "old_content": ""},
)


@pytest.fixture
def held(ground: Ground) -> Lease:
    held = ground.start()
    say(held, calls=["c", "d"])
    return held


def judge(held: Lease, question: RequiredPermission = QUESTION, call_id: str = "c") -> CallVerdict:
    return write(
        lambda tx: check_call(tx, held, question, call_id=call_id, allowed_tools=frozenset())
    ).verdict


def answer(ground: Ground, given: Answer, call_id: str = "c") -> bool:
    return write(
        lambda tx: resolve(
            tx, ground.workspace_id, request_id="", tool_call_id=call_id, answer=given
        )
    ).is_first


def test_a_call_is_asked_for_once(ground: Ground, held: Lease) -> None:
    assert judge(held) is CallVerdict.NEEDS_ANSWER
    assert judge(held) is CallVerdict.NEEDS_ANSWER
    assert len(ground.events("permission.requested")) == 1


def test_a_call_that_was_allowed_may_run(ground: Ground, held: Lease) -> None:
    judge(held)
    assert answer(ground, Answer.ALLOW)
    assert judge(held) is CallVerdict.ALLOWED


def test_a_call_that_was_denied_may_not_run(ground: Ground, held: Lease) -> None:
    judge(held)
    assert answer(ground, Answer.DENY)
    assert judge(held) is CallVerdict.DENIED


@pytest.mark.parametrize(
    "changed",
    [
        replace(QUESTION, params={**QUESTION.params, "file_path": "/etc/a"}),
        replace(QUESTION, params={**QUESTION.params, "new_content": "y"}),
        replace(QUESTION, params={}),
        replace(QUESTION, path="/etc"),
        replace(QUESTION, action="execute"),
        replace(QUESTION, tool_name="bash"),
    ],
)
def test_a_call_that_would_do_something_else_now_is_not_allowed(
    ground: Ground, held: Lease, changed: RequiredPermission
) -> None:
    judge(held)
    assert answer(ground, Answer.ALLOW)
    with pytest.raises(QuestionChanged):
        judge(held, changed)


def test_a_changed_question_does_not_change_what_is_open_or_denied(
    ground: Ground, held: Lease
) -> None:
    changed = replace(QUESTION, path="/etc")
    judge(held)
    assert judge(held, changed) is CallVerdict.NEEDS_ANSWER
    answer(ground, Answer.DENY)
    assert judge(held, changed) is CallVerdict.DENIED


def test_the_mode_of_another_workspace_is_not_this_ones(ground: Ground, held: Lease) -> None:
    other = open_ground("/other")
    write(lambda tx: set_permission_mode(tx, other.workspace_id, mode=PermissionMode.YOLO))
    assert judge(held) is CallVerdict.NEEDS_ANSWER


def test_an_answer_is_for_one_call(ground: Ground, held: Lease) -> None:
    judge(held)
    judge(held, call_id="d")
    answer(ground, Answer.ALLOW, "d")
    assert judge(held) is CallVerdict.NEEDS_ANSWER
    assert judge(held, call_id="d") is CallVerdict.ALLOWED


def test_the_first_answer_wins(ground: Ground, held: Lease) -> None:
    judge(held)
    assert answer(ground, Answer.DENY)
    assert answer(ground, Answer.ALLOW) is False
    assert judge(held) is CallVerdict.DENIED


def test_an_answer_lets_a_parked_run_go_on(ground: Ground, held: Lease) -> None:
    judge(held)
    step(held, parks=True)
    assert answer(ground, Answer.ALLOW)
    assert run_of(held.key).state == "ready"


def test_the_end_of_a_run_takes_its_open_question_with_it(ground: Ground, held: Lease) -> None:
    judge(held)
    end(held)
    assert PermissionRequest.objects.get().state == "withdrawn"
    assert not answer(ground, Answer.ALLOW)
    (resolved,) = ground.events("permission.resolved")
    assert resolved["denied"] is True


@pytest.mark.parametrize("mode", [PermissionMode.YOLO, PermissionMode.SYSADMIN])
@pytest.mark.parametrize("question", [QUESTION, replace(QUESTION, always_asks=True)])
def test_a_mode_that_asks_for_nothing_lets_everything_run(
    ground: Ground, held: Lease, mode: PermissionMode, question: RequiredPermission
) -> None:
    write(lambda tx: set_permission_mode(tx, ground.workspace_id, mode=mode))
    assert judge(held, question) is CallVerdict.ALLOWED
    write(lambda tx: set_permission_mode(tx, ground.workspace_id, mode=PermissionMode.NORMAL))
    assert judge(held, question) is CallVerdict.NEEDS_ANSWER


def test_a_request_for_a_file_that_programs_obey_is_marked_as_dangerous(
    ground: Ground, held: Lease
) -> None:
    judge(held)
    judge(held, replace(QUESTION, always_asks=True), "d")
    ordinary, dangerous = (event["request"] for event in ground.events("permission.requested"))
    assert "dangerous" not in ordinary
    assert dangerous["dangerous"] is True
    assert b'"dangerous":true' in permission_frames(dangerous)


def test_a_request_of_another_workspace_is_not_answered_from_here(
    ground: Ground, held: Lease
) -> None:
    judge(held)
    other = open_ground("/other")
    pk = PermissionRequest.objects.get().pk
    for by in ({"request_id": pk, "tool_call_id": ""}, {"request_id": "", "tool_call_id": "c"}):
        assert not write(
            lambda tx, by=by: resolve(tx, other.workspace_id, answer=Answer.ALLOW, **by)
        ).is_first
    assert judge(held) is CallVerdict.NEEDS_ANSWER


def test_a_call_id_that_a_later_run_uses_again_is_answered_there(
    ground: Ground, held: Lease
) -> None:
    judge(held)
    answer(ground, Answer.DENY)
    end(held)
    later = ground.start("again")
    say(later, calls=["c"])
    judge(later)
    assert answer(ground, Answer.ALLOW)
    assert judge(later) is CallVerdict.ALLOWED


def test_a_request_is_answered_by_its_id(ground: Ground, held: Lease) -> None:
    judge(held)
    judge(held, call_id="d")
    pk = PermissionRequest.objects.get(tool_call_id="d").pk
    given = {"request_id": pk, "tool_call_id": "c", "answer": Answer.ALLOW}
    assert write(lambda tx: resolve(tx, ground.workspace_id, **given)).is_first
    assert judge(held) is CallVerdict.NEEDS_ANSWER
    assert judge(held, call_id="d") is CallVerdict.ALLOWED
