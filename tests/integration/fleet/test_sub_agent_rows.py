"""What is written of a sub-agent's run beside its messages."""

from __future__ import annotations

import pytest

from agents.models import Run, RunKind, SubAgent
from agents.runs.accept import Prompt, accept_prompt
from agents.runs.children.delegations import (
    assign_sub_agent,
    begin_delegation,
    begin_sub_agent,
    delegation_result,
    end_sub_agent,
    note_sub_agent,
    take_prompts,
)
from agents.runs.finish import rescue_run
from agents.runs.lease import Lease, LeaseLost
from agents.runs.prompting.begin import begin_run
from agents.runs.queries import is_held
from agents.runs.reply import Checkpoint, save_checkpoints
from agents.runs.steps import ReplyStart, ReplyWrite, Step, write_step
from agents.runs.transitions import claim_runs, expire_all_leases
from agents.states import RunOutcome, SubAgentState
from agents.tools.agent import child_outcome
from agents.tools.contract import ChildResult, ChildTask
from agents.turn.effects import End
from tests.integration.runs.ground import register_worker
from workspaces.actions.sessions import create_session
from workspaces.actions.workspaces import Opening, open_workspace
from workspaces.log.parts import FinishReason, Text, ToolCall
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer
from workspaces.models import Message


def write(job):
    return writer.write_and_wait("", job)


def claimed(kind: RunKind) -> Lease:
    register_worker("w")

    def job(tx: Transaction) -> Lease:
        (run,) = claim_runs(tx, worker="w", limit=9)
        assert run.kind == kind
        return Lease(run.key, run.fence, run.workspace_id, run.session_id)

    return write(job)


@pytest.fixture
def parent(db: None) -> Lease:
    """A run at work."""

    def job(tx: Transaction) -> None:
        workspace = open_workspace(tx, Opening("/project", "/data"))
        session_id = create_session(tx, workspace.pk, title="The first")["id"]
        accept_prompt(tx, workspace.pk, Prompt(session_id, "go", "run-1"))

    write(job)
    held = claimed(RunKind.PROMPT)
    write(lambda tx: begin_run(tx, held))
    return held


@pytest.fixture
def child(parent: Lease) -> Lease:
    """The sub-agent that its call has sent for, at work, with its reply open."""
    task = ChildTask("fleet", "title", "do it", role="reader")
    write(lambda tx: begin_delegation(tx, parent, task, message_id="m", call_id="c"))
    held = claimed(RunKind.FLEET)
    write(lambda tx: begin_run(tx, held))
    write(lambda tx: write_step(tx, held, Step(start=ReplyStart("reader", "fleet"))))
    write(lambda tx: begin_sub_agent(tx, held, role="reader"))
    write(lambda tx: note_sub_agent(tx, held, state=SubAgentState.RUNNING, child_id="child-1"))
    return held


def said(held: Lease, words: str) -> ReplyWrite:
    message = Message.objects.get(run_key=held.key, role="assistant")
    return ReplyWrite(message.pk, (Text(words),), FinishReason.END_TURN)


def end(held: Lease, *, answer: str) -> None:
    step = Step(reply=said(held, "words"), end=End(RunOutcome.COMPLETED))
    write(lambda tx: end_sub_agent(tx, held, step, ending="completed", answer=answer, events=7))


def test_its_answer_is_its_calls_and_its_words_are_its_sessions(
    parent: Lease, child: Lease
) -> None:
    end(child, answer="the \x00answer")

    sent, ended = write(lambda tx: delegation_result(tx, parent, "c"))
    assert Run.objects.get(pk=parent.key).answer == ""  # the answer is the child's own
    assert (sent, ended) == (True, ChildResult("completed", "the \ufffdanswer", ""))
    assert "words" in Message.objects.get(run_key=child.key, role="assistant").parts


def test_without_an_answer_its_words_are(parent: Lease, child: Lease) -> None:
    end(child, answer="")
    assert write(lambda tx: delegation_result(tx, parent, "c"))[1] == ChildResult(
        "completed", "words", ""
    )


def test_what_is_told_after_its_end_does_not_revive_it(child: Lease) -> None:
    end(child, answer="x")
    write(lambda tx: note_sub_agent(tx, child, state=SubAgentState.WAITING, last_event="token"))

    row = SubAgent.objects.get()
    assert (row.state, row.ending, row.events) == ("ended", "completed", 7)
    assert row.last_event == ""
    assert row.ended_at is not None


def test_one_whose_worker_died_fails_and_its_parent_gets_what_it_reported(
    parent: Lease, child: Lease
) -> None:
    message = Message.objects.get(run_key=child.key, role="assistant")
    called = ToolCall("x", "deploy", "{}", finished=True)
    parts = (Text("half of it"), called)
    write(
        lambda tx: save_checkpoints(
            tx, [Checkpoint(child, message.pk, message.stream_number, parts)]
        )
    )
    write(expire_all_leases)
    outcome = write(lambda tx: rescue_run(tx, child.key, worker="w"))

    assert outcome == "failed"
    row = SubAgent.objects.get()
    assert (row.state, row.ending) == ("ended", "lost")
    assert row.ended_at is not None
    run = Run.objects.get(pk=child.key)
    assert (run.state, run.outcome) == ("finished", "failed")
    _, ended = write(lambda tx: delegation_result(tx, parent, "c"))
    assert isinstance(ended, ChildResult)
    given = child_outcome(ended)
    assert given.is_error
    assert "the outcome is unknown" in given.content
    assert "It had called: deploy." in given.content
    assert given.content.endswith("Its answer so far:\nhalf of it")


def test_one_that_had_no_assignment_yet_starts_again(parent: Lease, child: Lease) -> None:
    SubAgent.objects.update(state=SubAgentState.STARTING)
    write(expire_all_leases)
    assert write(lambda tx: rescue_run(tx, child.key, worker="w")) == "ready"
    assert Run.objects.get(pk=parent.key).state == "running"

    again = claimed(RunKind.FLEET)
    with pytest.raises(LeaseLost):  # the worker before it sends no assignment any more
        write(lambda tx: assign_sub_agent(tx, child, child_id="child-1"))
    write(lambda tx: begin_sub_agent(tx, again, role="reader"))
    write(lambda tx: assign_sub_agent(tx, again, child_id="child-2"))

    row = SubAgent.objects.get()
    assert (row.state, row.child_id) == ("running", "child-2")


def test_a_claim_that_was_taken_over_is_no_longer_held(child: Lease) -> None:
    assert is_held(child.key, child.fence)
    assert not is_held(child.key, child.fence - 1)
    write(expire_all_leases)
    write(lambda tx: rescue_run(tx, child.key, worker="w"))
    assert not is_held(child.key, child.fence)


def test_prompts_to_its_session_steer_it_once_and_in_order(child: Lease) -> None:
    for text in ("left", "right"):
        prompt = Prompt(child.session_id, text)
        write(lambda tx, prompt=prompt: accept_prompt(tx, child.workspace_id, prompt))
    own = Prompt(child.session_id, "a turn of its own", "run-2")
    write(lambda tx: accept_prompt(tx, child.workspace_id, own))

    assert write(lambda tx: take_prompts(tx, child)) == ["left", "right"]
    assert write(lambda tx: take_prompts(tx, child)) == []
    assert Run.objects.get(run_id="run-2").state == "accepted"
