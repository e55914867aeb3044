"""Answering a permission request: the first answer wins and lets its run go on."""

from __future__ import annotations

from enum import StrEnum

from agents.config.edits.trust_requests import answer_trust_request, apply_trust
from agents.runs import nudges
from agents.runs.resume import let_go_on
from permissions.actions.requests import answer_request
from permissions.models import PermissionRequest, RequestState
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
        let_go_on(tx, request.run_key)
    return resolved
