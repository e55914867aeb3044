"""Every write to the questions of tools, which come in batches and are answered once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from permissions.actions.policies import policy_of
from permissions.models import BatchState, QuestionBatch
from workspaces.log.ids import new_id
from workspaces.log.transaction import Transaction
from workspaces.log.types import Kind
from workspaces.storable import storable_json


def add_questions(
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
    """Adds a batch and its event; returns the batch's id."""
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
        **policy_of(workspace_id).due(tx.now),
    )
    batch.save(force_insert=True)
    tx.append(
        workspace_id, Kind.QUESTION_ASKED, {"batch": batch_wire(batch)}, session_id=session_id
    )
    return batch.pk


def answer_batch(
    tx: Transaction,
    batch: QuestionBatch,
    responses: Sequence[Mapping[str, Any]],
    *,
    author: Mapping[str, Any] | None = None,
) -> bool:
    """Stores the answers; returns ``False`` if the batch is already resolved."""
    stored = _storable([dict(response) for response in responses])
    return _resolve(tx, batch, BatchState.ANSWERED, responses=stored, author=author)


def dismiss_batch(
    tx: Transaction, batch: QuestionBatch, *, author: Mapping[str, Any] | None = None
) -> bool:
    """Dismisses a batch; returns ``False`` if it is already resolved."""
    return _resolve(tx, batch, BatchState.DISMISSED, author=author)


def withdraw_batches(tx: Transaction, run_key: int) -> None:
    """Withdraws the open questions of a run that has ended, so that clients close them."""
    for batch in QuestionBatch.objects.filter(run_key=run_key, state=BatchState.PENDING):
        _resolve(tx, batch, BatchState.WITHDRAWN)


def _resolve(
    tx: Transaction,
    batch: QuestionBatch,
    state: BatchState,
    *,
    responses: Sequence[Mapping[str, Any]] = (),
    author: Mapping[str, Any] | None = None,
) -> bool:
    won = QuestionBatch.objects.filter(pk=batch.pk, state=BatchState.PENDING).update(
        state=state, responses=list(responses), answered_at=tx.now, author=author
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
                "author": author,
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
    return orjson.loads(storable_json(orjson.dumps(value)))
