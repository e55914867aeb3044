"""When a call that waits may go on: its answer has come, and so has what it sent for."""

from __future__ import annotations

import pytest

from agents.models import Run
from agents.runs.answer import Answer, dismiss_open_batch, resolve
from agents.runs.calls.permission_check import CallVerdict, check_call
from agents.runs.children.delegations import begin_delegation, delegation_result
from agents.runs.lease import Lease
from agents.runs.steps import ReplyStart, ReplyWrite, Written
from agents.states import RunOutcome
from agents.tools.contract import (
    ChildResult,
    ChildTask,
    Delegation,
    RequiredPermission,
    UserQuestions,
)
from agents.turn.effects import End
from permissions.actions.requests import AnswerOptions
from permissions.models import Grant, PermissionRequest, QuestionBatch
from tests.integration.runs.ground import (
    Ground,
    begin,
    cancelled_of,
    claim,
    end,
    held_by,
    result,
    run_of,
    say,
    step,
    used,
    write,
)
from workspaces.log.parts import FinishReason, Text
from workspaces.models import Message

QUESTION = RequiredPermission(
    "bash", "execute", "/project", "Execute command: ls", {"command": "ls"}
)
TASK = ChildTask("agent", "child", "do it", working_dir="/project/sub", role="reader")
ASKED = UserQuestions(({"id": "q", "type": "free_text", "question": "?"},))


def waiting(ground: Ground, *calls: str) -> Lease:
    held = ground.start(session_id=ground.new_session())
    say(held, calls=calls)
    return held


def ask(held: Lease, call_id: str = "c", question: RequiredPermission = QUESTION) -> CallVerdict:
    return write(
        lambda tx: check_call(tx, held, question, call_id=call_id, allowed_tools=frozenset())
    ).verdict


def send(held: Lease, delegation: Delegation, call_id: str = "c") -> None:
    message = Message.objects.filter(run_key=held.key, role="assistant").latest("position")
    write(lambda tx: begin_delegation(tx, held, delegation, message_id=message.pk, call_id=call_id))


def answer(
    ground: Ground, held: Lease, call_id: str = "c", given: Answer = Answer.ALLOW, folder: str = ""
) -> bool:
    pk = PermissionRequest.objects.get(run_key=held.key, tool_call_id=call_id).pk
    options = AnswerOptions(folder=folder)
    return write(
        lambda tx: resolve(
            tx, ground.workspace_id, request_id=pk, tool_call_id="", answer=given, options=options
        )
    ).is_first


def park(held: Lease) -> Written:
    return step(held, parks=True)


def test_a_run_parks_not_while_an_answer_to_one_of_its_calls_is_there(ground: Ground) -> None:
    held = waiting(ground, "c", "d")
    ask(held, "c")
    ask(held, "d")
    answer(ground, held, "d")
    assert park(held) == Written(answered=("d",))
    assert run_of(held.key).state == "running"


def test_the_answers_of_other_runs_let_nothing_go_on(ground: Ground) -> None:
    """Models number their calls, so calls of two runs may have the same id."""
    held, other = waiting(ground, "a", "b"), waiting(ground, "a", "b")
    ask(held, "a")
    send(held, ASKED, "b")
    ask(other, "a")
    send(other, ASKED, "b")
    answer(ground, other, "a")
    batch = QuestionBatch.objects.get(run_key=other.key).pk
    write(lambda tx: dismiss_open_batch(tx, ground.workspace_id, batch))

    assert park(held) == Written()
    assert park(other) == Written(answered=("a", "b"))
    assert run_of(held.key).state == "parked"


def test_a_child_of_another_run_lets_nothing_go_on(ground: Ground) -> None:
    held, other = waiting(ground, "c"), waiting(ground, "c")
    send(held, TASK)
    send(other, TASK)
    child = Run.objects.get(parent_id=other.key).pk
    done = begin(held_by(child, *claim()))
    say(done, "words")
    end(done)
    assert park(held) == Written()
    assert park(other) == Written(answered=("c",))
    assert write(lambda tx: delegation_result(tx, held, "c")) == (True, None)
    ended = write(lambda tx: delegation_result(tx, other, "c"))
    assert ended == (True, ChildResult("completed", "words", ""))
    end(other)
    assert run_of(child).outcome == "completed"
    ends = [event["run"]["key"] for event in ground.events("run.finished")]
    assert ends == [child, other.key]


def test_the_end_of_a_run_cancels_its_own_child_and_no_other_session(ground: Ground) -> None:
    bystander = ground.start()
    held = waiting(ground, "c")
    send(held, TASK)
    child = begin(held_by(Run.objects.get(parent_id=held.key).pk, *claim()))
    end(held)
    assert cancelled_of("worker") == [(child.key, child.fence)]
    assert run_of(bystander.key).state == "running"


def test_the_cost_of_a_child_is_shown_in_its_parents_session(ground: Ground) -> None:
    held = waiting(ground, "c")
    send(held, TASK)
    child = begin(held_by(Run.objects.get(parent_id=held.key).pk, *claim()))
    written = step(child, start=ReplyStart("m", "p"))
    assert written.message is not None
    reply = ReplyWrite(written.message["id"], (Text("x"),), FinishReason.END_TURN, used(cost=0.5))
    step(child, reply=reply, end=End(RunOutcome.COMPLETED))
    told = [event["session"] for event in ground.events("session.updated")]
    assert [one.get("cost") for one in told if one["id"] == held.session_id][-1] == 0.5


def test_a_call_that_was_allowed_and_then_sends_for_something_waits_for_that(
    ground: Ground,
) -> None:
    held = waiting(ground, "c")
    ask(held)
    answer(ground, held)
    send(held, TASK)
    assert park(held) == Written()
    assert run_of(held.key).state == "parked"


def test_an_answer_lets_only_its_own_run_go_on(ground: Ground) -> None:
    held, other = waiting(ground, "c"), waiting(ground, "c")
    for one in (held, other):
        ask(one)
        park(one)
    answer(ground, held)
    assert (run_of(held.key).state, run_of(other.key).state) == ("ready", "parked")


def test_an_answer_to_a_run_that_still_works_leaves_it_to_its_worker(ground: Ground) -> None:
    held = waiting(ground, "c")
    ask(held)
    answer(ground, held)
    row = run_of(held.key)
    assert (row.state, row.worker) == ("running", "worker")


def test_an_answer_for_the_session_is_one_for_later_calls_like_it(ground: Ground) -> None:
    held = waiting(ground, "c", "d", "e")
    ask(held, "c")
    answer(ground, held, "c", Answer.ALLOW_SESSION)
    assert ask(held, "d") is CallVerdict.ALLOWED
    other = RequiredPermission(
        "bash", "execute", "/elsewhere", "Execute command: ls", {"command": "ls"}
    )
    assert ask(held, "e", other) is CallVerdict.NEEDS_ANSWER
    stranger = waiting(ground, "c")
    assert ask(stranger) is CallVerdict.NEEDS_ANSWER


@pytest.mark.parametrize("given", [Answer.ALLOW, Answer.DENY])
def test_an_answer_for_one_call_is_none_for_later_ones(ground: Ground, given: Answer) -> None:
    held = waiting(ground, "c", "d")
    ask(held, "c")
    answer(ground, held, "c", given)
    assert not Grant.objects.exists()
    assert ask(held, "d") is CallVerdict.NEEDS_ANSWER


def test_an_answer_may_be_for_a_folder(ground: Ground) -> None:
    held = waiting(ground, "c", "d")

    def edit(name: str) -> RequiredPermission:
        path = f"/project/{name}"
        return RequiredPermission("edit", "write", path, "Edit", {"file_path": path}, files=(path,))

    ask(held, "c", edit("a"))
    answer(ground, held, "c", Answer.ALLOW_SESSION, "/project")
    assert ask(held, "d", edit("b")) is CallVerdict.ALLOWED


def test_what_was_allowed_for_a_session_is_allowed_for_those_below_it(ground: Ground) -> None:
    held = waiting(ground, "a", "c")
    ask(held, "a")
    answer(ground, held, "a", Answer.ALLOW_SESSION)
    send(held, TASK)
    child = begin(held_by(Run.objects.get(parent_id=held.key).pk, *claim()))
    say(child, calls=["x"])
    assert ask(child, "x") is CallVerdict.ALLOWED


def test_a_child_run_knows_its_folder_and_role_and_no_other_run_is_changed(
    ground: Ground,
) -> None:
    bystander = ground.start()
    held = waiting(ground, "c")
    send(held, TASK)
    child = Run.objects.get(parent_id=held.key)
    assert (child.working_dir, child.role) == ("/project/sub", "reader")
    assert (child.parent_call_id, child.client_id) == ("c", "")
    for key in (bystander.key, held.key):
        row = run_of(key)
        assert (row.parent_id, row.parent_call_id) == (None, "")
        assert (row.working_dir, row.role) == ("", "")


def test_the_result_of_each_child_is_that_of_its_own_call(ground: Ground) -> None:
    held = waiting(ground, "a", "b")
    for call_id in ("a", "b"):
        send(held, TASK, call_id)
    for call_id in ("a", "b"):
        key = Run.objects.get(parent_id=held.key, parent_call_id=call_id).pk
        child = begin(held_by(key, *claim(limit=1)))
        say(child, f"the words for {call_id}", [])
        end(child)
    for call_id in ("a", "b"):
        ended = write(lambda tx, call_id=call_id: delegation_result(tx, held, call_id))
        assert ended == (True, ChildResult("completed", f"the words for {call_id}", ""))


def test_a_child_whose_last_message_is_gone_has_no_words(ground: Ground) -> None:
    held = waiting(ground, "c")
    send(held, TASK)
    child = begin(held_by(Run.objects.get(parent_id=held.key).pk, *claim()))
    say(child, calls=["x"])
    step(child, results=[result("x")])
    end(child)
    Message.objects.filter(session_id=child.session_id).delete()
    assert write(lambda tx: delegation_result(tx, held, "c")) == (
        True,
        ChildResult("completed", "", ""),
    )


def test_the_questions_of_another_run_are_not_this_ones(ground: Ground) -> None:
    held, other = waiting(ground, "c"), waiting(ground, "c")
    send(other, ASKED)
    assert write(lambda tx: delegation_result(tx, held, "c")) == (False, None)
    assert write(lambda tx: delegation_result(tx, other, "c")) == (True, None)
    assert write(lambda tx: delegation_result(tx, other, "d")) == (False, None)
