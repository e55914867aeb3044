"""Stores answers to permission requests and questions. The first one counts and resumes the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from agents.config.edits.trust_requests import answer_trust_request, apply_trust
from agents.runs import nudges
from agents.runs.resume import mark_ready
from permissions.actions.questions import answer_batch, dismiss_batch
from permissions.actions.requests import answer_request
from permissions.models import BatchState, PermissionRequest, QuestionBatch, RequestState
from workspaces.log.errors import BadField
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer


class Answer(StrEnum):
    ALLOW = "allow"
    ALLOW_SESSION = "allow_session"
    DENY = "deny"


async def answer(
    workspace_id: str,
    *,
    request_id: str,
    tool_call_id: str = "",
    answer: Answer,
    folder: str = "",
) -> bool:
    """``False`` when the request is unknown or was answered before.

    With ``folder`` an ``allow_session`` is for every file in it. Raises ``BadField``.
    """
    resolved, trusted = await writer.write(
        workspace_id,
        lambda tx: _resolve(
            tx,
            workspace_id,
            request_id=request_id,
            tool_call_id=tool_call_id,
            answer=answer,
            folder=folder,
        ),
    )
    if trusted:
        await apply_trust(trusted)
    elif resolved:
        await nudges.nudge_accepted()
    return resolved


def _resolve(
    tx: Transaction,
    workspace_id: str,
    *,
    request_id: str,
    tool_call_id: str,
    answer: Answer,
    folder: str,
) -> tuple[bool, str]:
    """With the folder, where the question was whether that is trusted."""
    trusted = answer_trust_request(
        tx,
        workspace_id,
        request_id=request_id,
        tool_call_id=tool_call_id,
        is_allowed=answer is not Answer.DENY,
    )
    if trusted:
        return True, trusted
    resolved = resolve(
        tx,
        workspace_id,
        request_id=request_id,
        tool_call_id=tool_call_id,
        answer=answer,
        folder=folder,
    )
    return resolved, ""


def resolve(
    tx: Transaction,
    workspace_id: str,
    *,
    request_id: str,
    tool_call_id: str,
    answer: Answer,
    folder: str = "",
) -> bool:
    """By the request's id; a client that sends none is matched by its tool call."""
    by = {"pk": request_id} if request_id else {"tool_call_id": tool_call_id}
    request = (
        PermissionRequest.objects.filter(
            workspace_id=workspace_id, state=RequestState.PENDING, **by
        )
        .order_by("asked_at")
        .first()
    )
    if request is None:
        return False
    resolved = answer_request(
        tx,
        request,
        granted=answer is not Answer.DENY,
        for_session=answer is Answer.ALLOW_SESSION,
        folder=folder,
    )
    if resolved:
        mark_ready(tx, request.run_key)
    return resolved


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
            mark_ready(tx, batch.run_key)
        return is_first
    return False


def dismiss_open_batch(tx: Transaction, workspace_id: str, batch_id: str) -> bool:
    batch = next(iter(_open_batches(workspace_id, batch_id)), None)
    if batch is None or not dismiss_batch(tx, batch):
        return False
    mark_ready(tx, batch.run_key)
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
