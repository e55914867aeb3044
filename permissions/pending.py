"""The questions that are open in a workspace, for a client that attaches late."""

from __future__ import annotations

from permissions.actions.questions import batch_wire
from permissions.actions.requests import request_wire
from permissions.models import BatchState, PermissionRequest, QuestionBatch, RequestState
from workspaces.events.v1_frames import permission_frames, question_frame
from workspaces.storage.reader import read


async def pending_frames(workspace_id: str) -> bytes:
    """As ``/v1`` envelopes, oldest first: permission requests, then questions."""
    return await read(_frames, workspace_id)


def state_of_request(run_key: int, tool_call_id: str) -> str:
    """As ``RequestState`` has it; empty for one that was never asked. Synchronous."""
    states = PermissionRequest.objects.filter(run_key=run_key, tool_call_id=tool_call_id)
    return states.values_list("state", flat=True).first() or ""


def _frames(workspace_id: str) -> bytes:
    requests = PermissionRequest.objects.filter(
        workspace_id=workspace_id, state=RequestState.PENDING
    ).order_by("asked_at")
    batches = QuestionBatch.objects.filter(
        workspace_id=workspace_id, state=BatchState.PENDING
    ).order_by("asked_at")
    return b"".join(
        [
            *(permission_frames(request_wire(request)) for request in requests),
            *(question_frame(batch_wire(batch)) for batch in batches),
        ]
    )
