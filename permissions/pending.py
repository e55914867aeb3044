"""The questions that are open in a workspace, for a client that attaches late."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from permissions.actions.questions import batch_wire
from permissions.actions.requests import native_request_wire
from permissions.models import BatchState, PermissionRequest, QuestionBatch, RequestState
from workspaces.delivery.v1_frames import permission_frames, question_frame
from workspaces.log.reader import read
from workspaces.queries.trust import pending_in_workspace

if TYPE_CHECKING:
    from django.db.models import QuerySet


async def pending_frames(workspace_id: str) -> bytes:
    """As ``/v1`` envelopes, oldest first: permission requests, then questions."""
    return await read(_frames, workspace_id)


def state_of_request(run_key: int, tool_call_id: str) -> str:
    """As ``RequestState`` has it; empty for one that was never asked. Synchronous."""
    states = PermissionRequest.objects.filter(run_key=run_key, tool_call_id=tool_call_id)
    return states.values_list("state", flat=True).first() or ""


def read_pending(workspace_id: str) -> dict[str, Any]:
    """The same as the native snapshot has it. Synchronous."""
    return {
        "permissions": _wires(workspace_id),
        "questions": [batch_wire(batch) for batch in _batches(workspace_id)],
    }


def _frames(workspace_id: str) -> bytes:
    return b"".join(
        [
            *(permission_frames(wire) for wire in _wires(workspace_id)),
            *(question_frame(batch_wire(batch)) for batch in _batches(workspace_id)),
        ]
    )


def _wires(workspace_id: str) -> list[dict[str, Any]]:
    """Whether the folder is trusted comes first: what runs may do depends on it."""
    requests = PermissionRequest.objects.filter(
        workspace_id=workspace_id, state=RequestState.PENDING
    ).order_by("asked_at")
    return [*pending_in_workspace(workspace_id), *map(native_request_wire, requests)]


def _batches(workspace_id: str) -> QuerySet[QuestionBatch]:
    return QuestionBatch.objects.filter(
        workspace_id=workspace_id, state=BatchState.PENDING
    ).order_by("asked_at")
