"""Reading what has been answered for a folder, and what is still open. Synchronous."""

from __future__ import annotations

from typing import Any

from workspaces.log.timestamps import as_rfc3339
from workspaces.models import TrustRequest, TrustRequestState, Workspace

TOOL = "trust"
ACTION = "trust"


def pending_requests(path: str) -> list[TrustRequest]:
    return list(TrustRequest.objects.filter(path=path, state=TrustRequestState.PENDING))


def pending_in_workspace(workspace_id: str) -> list[dict[str, Any]]:
    """The open request of a workspace's folder, as permission requests are shown."""
    path = Workspace.objects.filter(pk=workspace_id).values_list("path", flat=True).first()
    return [wire_of(request) for request in pending_requests(path)] if path else []


def answered_requests(path: str) -> list[TrustRequest]:
    """Newest first; of every folder where ``path`` is empty."""
    answered = TrustRequest.objects.filter(
        state__in=[TrustRequestState.ALLOWED, TrustRequestState.DENIED]
    )
    if path:
        answered = answered.filter(path=path)
    return list(answered.order_by("-answered_at", "path"))


def wire_of(request: TrustRequest) -> dict[str, Any]:
    """It belongs to the workspace: there is no session and no call of a tool."""
    return {
        "id": request.pk,
        "session_id": "",
        "tool_call_id": call_id_of(request.pk),
        "tool_name": TOOL,
        "description": request.description,
        "action": ACTION,
        "params": request.params,
        "path": request.path,
    }


def call_id_of(request_id: str) -> str:
    """Clients match the answer's notification by this id."""
    return f"{TOOL}-{request_id}"


def shown_answer(request: TrustRequest) -> dict[str, Any]:
    return {
        "path": request.path,
        "digest": request.digest,
        "allowed": request.state == TrustRequestState.ALLOWED,
        "answered_at": as_rfc3339(request.answered_at or 0),
    }
