"""Reads trust requests and trust decisions. Synchronous."""

from __future__ import annotations

from typing import Any

from workspaces.log.timestamps import as_rfc3339, as_seconds
from workspaces.models import TrustRequest, TrustRequestState, Workspace

TOOL = "trust"
ACTION = "trust"
ID_CHARS = 36


def pending_requests(path: str) -> list[TrustRequest]:
    return list(TrustRequest.objects.filter(path=path, state=TrustRequestState.PENDING))


def request_of(path: str, *, request_id: str, tool_call_id: str) -> TrustRequest | None:
    """Returns a folder's request with this id, or without an id the one of this tool call."""
    key = request_id or tool_call_id.removeprefix(f"{TOOL}-")
    if not _can_be_id(key):
        return None
    return TrustRequest.objects.filter(pk=key, path=path).first()


def pending_in_workspace(workspace_id: str) -> list[dict[str, Any]]:
    """Returns the open trust requests of a workspace's folder, as permission requests."""
    path = Workspace.objects.filter(pk=workspace_id).values_list("path", flat=True).first()
    return [wire_of(request) for request in pending_requests(path)] if path else []


def is_trust_request(request_id: str, tool_call_id: str = "") -> bool:
    """Whether this is the id of a trust request, or the one by which clients match it."""
    key = request_id or tool_call_id.removeprefix(f"{TOOL}-")
    return _can_be_id(key) and TrustRequest.objects.filter(pk=key).exists()


def _can_be_id(key: str) -> bool:
    """Whether a database can compare this with ids."""
    return "\0" not in key and len(key) <= ID_CHARS


def answered_requests(path: str) -> list[TrustRequest]:
    """Returns decisions, newest first; those of all folders if ``path`` is empty."""
    answered = TrustRequest.objects.filter(
        state__in=[TrustRequestState.ALLOWED, TrustRequestState.DENIED]
    )
    if path:
        answered = answered.filter(path=path)
    return list(answered.order_by("-answered_at", "path"))


def wire_of(request: TrustRequest) -> dict[str, Any]:
    """Returns a trust request in the form of a permission request, without a session."""
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


def shown_request(request: TrustRequest, workspace_id: str) -> dict[str, Any]:
    """Returns a trust request with its workspace, as the inbox lists it."""
    return wire_of(request) | {
        "workspace_id": workspace_id,
        "digest": request.digest,
        "state": request.state,
        "asked_at": as_seconds(request.asked_at),
        "answered_at": None if request.answered_at is None else as_seconds(request.answered_at),
        "author": request.author,
    }


def trust_answer_wire(request: TrustRequest) -> dict[str, Any]:
    """Returns how a request closed and who answered it, for native clients."""
    return {"state": str(request.state), "author": request.author}


def call_id_of(request_id: str) -> str:
    """Returns the tool call id by which clients match the notification of the answer."""
    return f"{TOOL}-{request_id}"


def shown_answer(request: TrustRequest) -> dict[str, Any]:
    return {
        "path": request.path,
        "digest": request.digest,
        "allowed": request.state == TrustRequestState.ALLOWED,
        "answered_at": as_rfc3339(request.answered_at or 0),
    }
