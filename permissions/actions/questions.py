"""Every write to the questions that a tool asks the user: asked in batches, answered once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from permissions.models import BatchState, QuestionBatch
from workspaces.log.ids import new_id
from workspaces.log.transaction import Transaction
from workspaces.log.types import Kind


def ask_questions(
    tx: Transaction,
    workspace_id: str,
    session_id: str,
    *,
    run_key: int,
    tool_call_id: str,
    questions: Sequence[Mapping[str, Any]],
    confirm_title: str = "",
    confirm_description: str = "",
) -> str:
    """Opens a batch and shows it to every client; returns its id."""
    batch = QuestionBatch(
        id=new_id(),
        workspace_id=workspace_id,
        session_id=session_id,
        run_key=run_key,
        tool_call_id=tool_call_id,
        questions=_storable([dict(question) for question in questions]),
        confirm_title=_storable(confirm_title),
        confirm_description=_storable(confirm_description),
        asked_at=tx.now,
    )
    batch.save(force_insert=True)
    tx.append(
        workspace_id, Kind.QUESTION_ASKED, {"batch": batch_wire(batch)}, session_id=session_id
    )
    return batch.pk


def answer_batch(
    tx: Transaction, batch: QuestionBatch, responses: Sequence[Mapping[str, Any]]
) -> bool:
    """The first answer wins; ``False`` for a later one."""
    stored = _storable([dict(response) for response in responses])
    return _resolve(tx, batch, BatchState.ANSWERED, responses=stored)


def dismiss_batch(tx: Transaction, batch: QuestionBatch) -> bool:
    """Nobody wants to answer; ``False`` when somebody did."""
    return _resolve(tx, batch, BatchState.DISMISSED)


def withdraw_batches(tx: Transaction, run_key: int) -> None:
    """The run has ended: its open questions close for whoever draws them."""
    open_ids = tx.fetch(
        "SELECT id FROM permissions_questionbatch WHERE run_key = %s AND state = 'pending'",
        [run_key],
    )
    if not open_ids:  # at the end of almost every run
        return
    for batch in QuestionBatch.objects.filter(pk__in=[row[0] for row in open_ids]):
        _resolve(tx, batch, BatchState.WITHDRAWN)


def _resolve(
    tx: Transaction,
    batch: QuestionBatch,
    state: BatchState,
    *,
    responses: Sequence[Mapping[str, Any]] = (),
) -> bool:
    won = QuestionBatch.objects.filter(pk=batch.pk, state=BatchState.PENDING).update(
        state=state, responses=list(responses), answered_at=tx.now
    )
    if won:
        tx.append(
            batch.workspace_id,
            Kind.QUESTION_RESOLVED,
            {
                "batch_id": batch.pk,
                "session_id": batch.session_id,
                "tool_call_id": batch.tool_call_id,
                "state": state.value,
            },
            session_id=batch.session_id,
        )
    return bool(won)


def batch_wire(batch: QuestionBatch) -> dict[str, Any]:
    wire: dict[str, Any] = {
        "id": batch.pk,
        "session_id": batch.session_id,
        "tool_call_id": batch.tool_call_id,
        "questions": batch.questions,
    }
    if batch.confirm_title:
        wire["confirm_title"] = batch.confirm_title
    if batch.confirm_description:
        wire["confirm_description"] = batch.confirm_description
    return wire


def _storable(value: Any) -> Any:
    # A NUL cannot be stored by PostgreSQL.
    return orjson.loads(orjson.dumps(value).replace(b"\\u0000", b"\\ufffd"))
