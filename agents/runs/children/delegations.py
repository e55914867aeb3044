"""Delegations: a tool call starts a run, or opens questions to the user, and waits for the end.

Both are rows, so a wait survives the death of any process. The waiting run is parked, as for a
permission request, and resumes when the row shows that the delegation has ended. A run in a
sub-agent also has a row for operators, and stores its answer for the call that waits.
"""

from __future__ import annotations

import orjson

from agents.fleet.parent.outcome import ChildOutcome as Ended
from agents.fleet.parent.outcome import Ending
from agents.models import RunKind, SubAgent
from agents.runs.accept import ParentCall, Prompt, accept_prompt
from agents.runs.lease import Lease, require_lease
from agents.runs.messages import fold_prompts
from agents.runs.reply import Reply
from agents.runs.rows import RunRow, read_delegated, store_answer
from agents.runs.steps import ReplyWrite, Step, Written, write_step
from agents.states import RunOutcome, RunState, SubAgentState
from agents.tools.contract import (
    ChildResult,
    ChildTask,
    Delegation,
    DelegationResult,
    UserAnswers,
    UserQuestions,
)
from agents.tools.limits import MAX_AGENT_ANSWER, cut_middle
from agents.turn.effects import End
from agents.turn.notes import CANCELLED_NOTE
from permissions.actions.questions import add_questions
from permissions.models import BatchState, QuestionBatch
from workspaces.actions.sessions import create_session, path_of_session
from workspaces.log.parts import FinishReason, Text, parts_from_wire
from workspaces.log.timestamps import now_ms
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer
from workspaces.storable import storable_text

MOST_LEVELS = 4  # of nested sessions, including the top one


class TooDeep(Exception):
    """The session is nested too deeply for another delegation."""


def delegation_result(
    tx: Transaction, held: Lease, call_id: str
) -> tuple[bool, DelegationResult | None]:
    """Returns whether the call's delegation exists, and its end if it has ended."""
    child = read_delegated(tx, held.key, call_id)
    if child is not None:
        if child.state != RunState.FINISHED:
            return True, None
        # A sub-agent may send an answer that is not the text of its last message.
        answer = child.answer or _words(tx, child.message_id)
        return True, ChildResult(child.outcome, answer, child.error)
    batch = QuestionBatch.objects.filter(run_key=held.key, tool_call_id=call_id).first()
    if batch is None:
        return False, None
    if batch.state == BatchState.PENDING:
        return True, None
    return True, UserAnswers(
        tuple(batch.questions),
        tuple(batch.responses),
        is_dismissed=batch.state != BatchState.ANSWERED,
    )


def begin_delegation(
    tx: Transaction, held: Lease, delegation: Delegation, *, message_id: str, call_id: str
) -> None:
    """Starts the delegation. Raises ``TooDeep`` and ``LeaseLost``."""
    run = require_lease(tx, held)
    match delegation:
        case ChildTask():
            _begin_child(tx, run, delegation, message_id=message_id, call_id=call_id)
        case UserQuestions():
            add_questions(
                tx,
                run.workspace_id,
                run.session_id,
                run_key=run.key,
                tool_call_id=call_id,
                questions=delegation.questions,
                confirm_title=delegation.confirm_title,
                confirm_description=delegation.confirm_description,
            )


def _begin_child(
    tx: Transaction, run: RunRow, task: ChildTask, *, message_id: str, call_id: str
) -> None:
    if len(path_of_session(tx, run.session_id)) >= MOST_LEVELS:
        raise TooDeep
    session = create_session(
        tx,
        run.workspace_id,
        title=task.title,
        session_id=f"{message_id}$${call_id}",
        parent_session_id=run.session_id,
    )
    accept_prompt(
        tx,
        run.workspace_id,
        Prompt(session["id"], task.prompt),
        kind=RunKind(task.kind),
        delegated_by=ParentCall(
            run.key, call_id, task.working_dir, task.role, run.author, run.options
        ),
    )


def _words(tx: Transaction, message_id: str) -> str:
    rows = tx.fetch("SELECT parts FROM workspaces_message WHERE id = %s", [message_id])
    parts = parts_from_wire(orjson.loads(rows[0][0])) if rows else ()
    return "".join(part.text for part in parts if isinstance(part, Text))


WRITE_MS = 5_000
ERROR_CHARS = 4_000  # of a sub-agent's error: each call that it leaves open stores it as well


def begin_sub_agent(tx: Transaction, held: Lease, *, role: str) -> None:
    require_lease(tx, held)
    SubAgent.objects.update_or_create(
        run_id=held.key,
        defaults={
            "workspace_id": held.workspace_id,
            "role": role,
            "state": SubAgentState.STARTING,
            "started_at": tx.now,
        },
    )


def assign_sub_agent(tx: Transaction, held: Lease, **facts: object) -> None:
    """Stores that the assignment is sent next: from now on, no worker sends it again.

    Raises ``LeaseLost``.
    """
    require_lease(tx, held)
    note_sub_agent(tx, held, state=SubAgentState.RUNNING, **facts)


def note_sub_agent(_: Transaction, held: Lease, **facts: object) -> None:
    """Updates the row that operators see, unless the sub-agent has ended or its row is gone."""
    row = SubAgent.objects.filter(run_id=held.key)
    row.exclude(state=SubAgentState.ENDED).update(**facts)


def end_sub_agent(
    tx: Transaction, held: Lease, step: Step, *, ending: str, answer: str, events: int
) -> Written:
    """Ends the sub-agent's run, and stores its answer for the call that waits."""
    run = require_lease(tx, held)
    if answer:
        store_answer(tx, run.key, storable_text(answer))
    written = write_step(tx, held, step)
    if not written.is_cancelled:
        # The run's end has marked the row as ended, without these details.
        SubAgent.objects.filter(run_id=held.key).update(
            state=SubAgentState.ENDED, ending=ending, events=events, ended_at=tx.now
        )
    return written


def take_prompts(tx: Transaction, held: Lease) -> list[str]:
    """Folds the session's queued prompts without a run_id into the run; returns their texts."""
    return fold_prompts(tx, require_lease(tx, held))


class SubAgentNotes:
    def __init__(self, held: Lease) -> None:
        self._held = held
        self._last_event, self._events = "", 0
        self._written_event, self._written_events, self._written_at = "", 0, 0

    def count(self, event: str) -> None:
        """Counts an event from the sub-agent. ``event`` is its kind, or empty without one."""
        self._last_event = event or self._last_event
        self._events += 1

    async def write_events(self) -> None:
        """Writes the newest event and the count into the row.

        An event of a new kind is written at once, others every ``WRITE_MS``: there may be thousands.
        """
        now = now_ms()
        is_new = self._last_event != self._written_event
        if self._events == self._written_events or not (
            is_new or now >= self._written_at + WRITE_MS
        ):
            return
        self._written_event, self._written_events, self._written_at = (
            self._last_event,
            self._events,
            now,
        )
        await self.write(last_event=self._last_event, last_event_at=now, events=self._events)

    async def write_waiting(self, waits: bool) -> None:
        await self.write(state=SubAgentState.WAITING if waits else SubAgentState.RUNNING)

    async def write(self, **facts: object) -> None:
        def job(tx: Transaction) -> None:
            note_sub_agent(tx, self._held, **facts)

        await writer.write(self._held.workspace_id, job)


async def write_end(held: Lease, reply: Reply | None, ended: Ended) -> None:
    """Ends the run, as cancelled if the cancel mark covers it. Raises ``LeaseLost``."""
    written = await _write(held, reply, ended)
    if written.is_cancelled:
        await _write(held, reply, Ended(Ending.CANCELLED, events=ended.events))


async def _write(held: Lease, reply: Reply | None, ended: Ended) -> Written:
    step = _last_step(reply, ended)
    answer = cut_middle(ended.result or "", MAX_AGENT_ANSWER)
    return await writer.write(
        held.workspace_id,
        lambda tx: end_sub_agent(
            tx,
            held,
            step,
            ending=ended.ending.value,
            answer=answer,
            events=ended.events,
        ),
    )


def _last_step(reply: Reply | None, ended: Ended) -> Step:
    match ended.ending:
        case Ending.COMPLETED:
            reason, end = FinishReason.END_TURN, End(RunOutcome.COMPLETED)
        case Ending.CANCELLED:
            reason = FinishReason.CANCELED
            end = End(RunOutcome.CANCELLED, reason, CANCELLED_NOTE)
        case _:
            reason = FinishReason.ERROR
            error = cut_middle(storable_text(ended.error), ERROR_CHARS)
            end = End(RunOutcome.FAILED, reason, error, error)
    write = ReplyWrite(reply.message_id, reply.parts(), reason) if reply is not None else None
    return Step(reply=write, end=end)
