"""Reads a workspace's open permission requests and questions, for clients that attach late."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from permissions.actions.questions import batch_wire
from permissions.actions.requests import answer_wire, native_request_wire
from permissions.models import BatchState, PermissionRequest, QuestionBatch, RequestState
from workspaces.delivery.v1_frames import permission_frames, question_frame
from workspaces.log.reader import read
from workspaces.log.timestamps import as_seconds
from workspaces.queries.trust import pending_in_workspace

if TYPE_CHECKING:
    from django.db.models import QuerySet


async def pending_frames(workspace_id: str) -> bytes:
    """Returns the ``/v1`` envelopes of permission requests, then of questions, oldest first."""
    return await read(_frames, workspace_id)


def state_of_request(run_key: int, tool_call_id: str) -> str:
    """Returns a tool call's ``RequestState``, or ``""`` without a request. Synchronous."""
    return _of_call(run_key, tool_call_id).values_list("state", flat=True).first() or ""


def reason_of(run_key: int, tool_call_id: str) -> str:
    """Returns why a person allowed a tool call, for the model. Synchronous."""
    return _of_call(run_key, tool_call_id).values_list("reason", flat=True).first() or ""


def request_of_call(run_key: int, tool_call_id: str) -> PermissionRequest | None:
    """Returns the request about a tool call. Synchronous."""
    return _of_call(run_key, tool_call_id).first()


def _of_call(run_key: int, tool_call_id: str) -> QuerySet[PermissionRequest]:
    """Returns the request about a call that counts."""
    requests = PermissionRequest.objects.filter(run_key=run_key, tool_call_id=tool_call_id)
    return requests.filter(is_replaced=False)


def read_pending(workspace_id: str) -> dict[str, Any]:
    """Returns the open requests and questions for the native snapshot. Synchronous."""
    return {
        "permissions": _wires(workspace_id),
        "questions": [batch_wire(batch) for batch in _batches(workspace_id)],
    }


def approval_wire(request: PermissionRequest) -> dict[str, Any]:
    """Returns a request in any state for REST."""
    return {
        **native_request_wire(request),
        **answer_wire(request),
        "workspace_id": request.workspace_id,
        "is_overdue": request.notified_at is not None,
        "answered_at": _seconds(request.answered_at),
    }


def question_wire(batch: QuestionBatch) -> dict[str, Any]:
    """Returns a batch of questions in any state for REST."""
    wire = {
        **batch_wire(batch),
        "workspace_id": batch.workspace_id,
        "state": str(batch.state),
        "author": batch.author,
        "asked_at": as_seconds(batch.asked_at),
        "is_overdue": batch.notified_at is not None,
        "answered_at": _seconds(batch.answered_at),
        "responses": batch.responses,
    }
    if batch.deny_at is not None:
        wire["deny_at"] = as_seconds(batch.deny_at)
    return wire


def _seconds(moment: int | None) -> int | None:
    return None if moment is None else as_seconds(moment)


def _frames(workspace_id: str) -> bytes:
    return b"".join(
        [
            *(permission_frames(wire) for wire in _wires(workspace_id)),
            *(question_frame(batch_wire(batch)) for batch in _batches(workspace_id)),
        ]
    )


def _wires(workspace_id: str) -> list[dict[str, Any]]:
    """Returns the open requests; trust comes first, because what runs may do depends on it."""
    requests = PermissionRequest.objects.filter(
        workspace_id=workspace_id, state=RequestState.PENDING
    ).order_by("asked_at")
    return [*pending_in_workspace(workspace_id), *map(native_request_wire, requests)]


def _batches(workspace_id: str) -> QuerySet[QuestionBatch]:
    return QuestionBatch.objects.filter(
        workspace_id=workspace_id, state=BatchState.PENDING
    ).order_by("asked_at")
