"""Answering or dismissing a batch of questions: the first wins, and its run goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agents.runs import nudges
from agents.runs.resume import let_go_on
from permissions.actions.questions import answer_batch, dismiss_batch
from permissions.models import BatchState, QuestionBatch
from workspaces.log.errors import BadField
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer

Response = Mapping[str, Any]


async def answer_questions(workspace_id: str, batch_id: str, responses: Sequence[Response]) -> bool:
    """Without a batch's id it is found by its questions'. ``False``: unknown or answered before.

    Raises ``BadField`` for a response that does not fit its question.
    """
    resolved = await writer.write(
        workspace_id, lambda tx: resolve_batch(tx, workspace_id, batch_id, responses)
    )
    if resolved:
        await nudges.nudge_accepted()
    return resolved


async def dismiss_questions(workspace_id: str, batch_id: str) -> bool:
    """Without an id: the workspace's oldest open batch."""
    dismissed = await writer.write(
        workspace_id, lambda tx: dismiss_open_batch(tx, workspace_id, batch_id)
    )
    if dismissed:
        await nudges.nudge_accepted()
    return dismissed


def resolve_batch(
    tx: Transaction, workspace_id: str, batch_id: str, responses: Sequence[Response]
) -> bool:
    named = {response["request_id"] for response in responses}
    for batch in _open_batches(workspace_id, batch_id):
        questions = {question["id"]: question for question in batch.questions}
        if not batch_id and not (named & questions.keys()):
            continue
        for response in responses:
            _require_fitting(questions.get(response["request_id"]), response)
        is_first = answer_batch(tx, batch, responses)
        if is_first:
            let_go_on(tx, batch.run_key)
        return is_first
    return False


def dismiss_open_batch(tx: Transaction, workspace_id: str, batch_id: str) -> bool:
    batch = next(iter(_open_batches(workspace_id, batch_id)), None)
    if batch is None or not dismiss_batch(tx, batch):
        return False
    let_go_on(tx, batch.run_key)
    return True


def _open_batches(workspace_id: str, batch_id: str) -> Sequence[QuestionBatch]:
    """Oldest first."""
    batches = QuestionBatch.objects.filter(workspace_id=workspace_id, state=BatchState.PENDING)
    return list((batches.filter(pk=batch_id) if batch_id else batches).order_by("asked_at", "pk"))


def _require_fitting(question: Mapping[str, Any] | None, response: Response) -> None:
    if question is None:
        raise BadField(f"responses: there is no question {response['request_id']!r:.80}")
    selected = response.get("selected_ids") or ()
    known = {choice["id"] for choice in question.get("choices") or ()}
    unknown = next((chosen for chosen in selected if chosen not in known), None)
    if unknown is not None:
        raise BadField(f"responses: {unknown!r:.80} is not a choice of {question['id']}")
    if question["type"] == "single_choice" and len(selected) > 1:
        raise BadField(f"responses: {question['id']} takes one choice")
