"""Delegations: a tool call starts a run, or opens questions to the user, and waits for the end.

Both are rows, so the wait survives the death of any process. The waiting run is parked, as for a
permission request, and resumes when the row says that the delegation has ended.
"""

from __future__ import annotations

import orjson

from agents.models import RunKind, RunState
from agents.runs.accept import Prompt, accept_prompt
from agents.runs.lease import Lease, require_lease
from agents.runs.rows import RunRow
from agents.tools.contract import (
    ChildEnded,
    ChildTask,
    Errand,
    ErrandEnd,
    QuestionsAnswered,
    QuestionsAsked,
)
from permissions.actions.questions import ask_questions
from permissions.models import BatchState, QuestionBatch
from workspaces.actions.sessions import create_session, path_of_session
from workspaces.log.parts import Text, parts_from_wire
from workspaces.log.transaction import Transaction

ANSWER = "answer"  # in a finished child's errand
MOST_LEVELS = 4  # sessions below each other, the top one included


class TooDeep(Exception):
    """An agent's agent's agent may not have another one."""


def errand_of(tx: Transaction, held: Lease, call_id: str) -> tuple[bool, ErrandEnd | None]:
    """Whether the call was sent for before, and what came of it if it has ended."""
    child = tx.fetch(
        "SELECT state, outcome, message_id, error, errand FROM agents_run"
        " WHERE parent_id = %s AND parent_call_id = %s",
        [held.key, call_id],
    )
    if child:
        state, outcome, message_id, error, kept = child[0]
        if state != RunState.FINISHED:
            return True, None
        # A sub-agent may give its answer beside its words.
        answer = orjson.loads(kept).get(ANSWER) or _words(tx, message_id)
        return True, ChildEnded(outcome, answer, error)
    batch = QuestionBatch.objects.filter(run_key=held.key, tool_call_id=call_id).first()
    if batch is None:
        return False, None
    if batch.state == BatchState.PENDING:
        return True, None
    return True, QuestionsAnswered(
        tuple(batch.questions),
        tuple(batch.responses),
        is_dismissed=batch.state != BatchState.ANSWERED,
    )


def begin_errand(
    tx: Transaction, held: Lease, errand: Errand, *, message_id: str, call_id: str
) -> None:
    """Sends for it, once. Raises ``TooDeep``."""
    run = require_lease(tx, held)
    match errand:
        case ChildTask():
            _begin_child(tx, run, errand, message_id=message_id, call_id=call_id)
        case QuestionsAsked():
            ask_questions(
                tx,
                run.workspace_id,
                run.session_id,
                run_key=run.key,
                tool_call_id=call_id,
                questions=errand.questions,
                confirm_title=errand.confirm_title,
                confirm_description=errand.confirm_description,
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
    key = accept_prompt(
        tx,
        run.workspace_id,
        Prompt(session["id"], task.prompt),
        kind=RunKind(task.kind),
        needs_open=False,
    )
    tx.execute(
        "UPDATE agents_run SET parent_id = %s, parent_call_id = %s, errand = %s WHERE id = %s",
        [
            run.key,
            call_id,
            orjson.dumps({"working_dir": task.working_dir, "role": task.role}).decode(),
            key,
        ],
    )


def _words(tx: Transaction, message_id: str) -> str:
    rows = tx.fetch("SELECT parts FROM workspaces_message WHERE id = %s", [message_id])
    parts = parts_from_wire(orjson.loads(rows[0][0])) if rows else ()
    return "".join(part.text for part in parts if isinstance(part, Text))
