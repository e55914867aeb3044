"""Every write to permission requests and grants."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from permissions.models import Grant, PermissionRequest, RequestState
from permissions.policy.protected import covers_folder
from workspaces.actions.sessions import path_of_session
from workspaces.log.errors import BadField
from workspaces.log.ids import new_id
from workspaces.log.transaction import Transaction
from workspaces.log.types import Kind


def ask_permission(
    tx: Transaction,
    workspace_id: str,
    session_id: str,
    *,
    run_key: int,
    tool_call_id: str,
    tool_name: str,
    action: str,
    path: str,
    description: str,
    params: Mapping[str, Any],
    files: Sequence[str] = (),
    always_asks: bool = False,
) -> str:
    """Opens a request and shows it to every client; returns its id."""
    path_of_agents = path_of_session(tx, session_id)
    request = PermissionRequest(
        id=new_id(),
        workspace_id=workspace_id,
        session_id=session_id,
        run_key=run_key,
        tool_call_id=tool_call_id,
        tool_name=tool_name,
        action=action,
        path=path,
        description=description,
        params=_storable(params),
        agent_path=path_of_agents if len(path_of_agents) > 1 else [],
        files=list(files),
        always_asks=always_asks,
        asked_at=tx.now,
    )
    request.save(force_insert=True)
    tx.append(
        workspace_id,
        Kind.PERMISSION_REQUESTED,
        {"request": native_request_wire(request)},
        session_id=session_id,
    )
    return request.pk


def is_request_for(
    request: PermissionRequest,
    *,
    tool_name: str,
    action: str,
    path: str,
    params: Mapping[str, Any],
    files: Sequence[str] = (),
) -> bool:
    """Whether what was shown and what is asked now are the same."""
    shown = (request.tool_name, request.action, request.path, request.params, request.files)
    return shown == (tool_name, action, path, _storable(params), list(files))


def _storable(params: Mapping[str, Any]) -> Any:
    # A NUL cannot be stored by PostgreSQL.
    return orjson.loads(orjson.dumps(dict(params)).replace(b"\\u0000", b"\\ufffd"))


def answer_request(
    tx: Transaction,
    request: PermissionRequest,
    *,
    granted: bool,
    for_session: bool,
    folder: str = "",
) -> bool:
    """The first answer wins; ``False`` for a later one.

    ``for_session`` grants the files of the request, or the ``folder`` that the person chose,
    for the rest of the session; never what always asks. Raises ``BadField`` for a folder that
    is not one of all these files.
    """
    if folder:
        folder = _chosen_folder(request, folder)
    state = RequestState.ALLOWED if granted else RequestState.DENIED
    won = PermissionRequest.objects.filter(pk=request.pk, state=RequestState.PENDING).update(
        state=state, answered_at=tx.now
    )
    if not won:
        return False
    if granted and for_session and not request.always_asks:
        for path in [folder] if folder else request.files or [request.path]:
            grant, _ = Grant.objects.get_or_create(
                session_id=request.session_id,
                tool_name=request.tool_name,
                action=request.action,
                path=path,
                defaults={"granted_at": tx.now, "is_folder": bool(folder)},
            )
            if folder and not grant.is_folder:
                Grant.objects.filter(pk=grant.pk).update(is_folder=True)
    _tell_resolved(tx, request, granted=granted)
    return True


def _chosen_folder(request: PermissionRequest, folder: str) -> str:
    if not request.files:
        raise BadField("folder: only a request that writes files can be allowed for a folder")
    chosen = posixpath.normpath(folder)
    if not folder.startswith("/") or not all(covers_folder(chosen, path) for path in request.files):
        raise BadField("folder: must be the absolute path of a folder that holds the files")
    return chosen


def withdraw_requests(tx: Transaction, run_key: int) -> None:
    """The run has ended: its open questions close, as denied, for whoever draws them."""
    open_ids = tx.fetch(
        "SELECT id FROM permissions_permissionrequest WHERE run_key = %s AND state = 'pending'",
        [run_key],
    )
    if not open_ids:
        return
    for request in PermissionRequest.objects.filter(pk__in=[row[0] for row in open_ids]):
        PermissionRequest.objects.filter(pk=request.pk).update(
            state=RequestState.WITHDRAWN, answered_at=tx.now
        )
        _tell_resolved(tx, request, granted=False)


def forget_session_permissions(tx: Transaction, session_id: str) -> None:
    """Removes a deleted session's requests, grants and questions."""
    for table in (
        "permissions_permissionrequest",
        "permissions_grant",
        "permissions_questionbatch",
    ):
        tx.execute(f"DELETE FROM {table} WHERE session_id = %s", [session_id])


def _tell_resolved(tx: Transaction, request: PermissionRequest, *, granted: bool) -> None:
    tx.append(
        request.workspace_id,
        Kind.PERMISSION_RESOLVED,
        {
            "request_id": request.pk,
            "session_id": request.session_id,
            "tool_call_id": request.tool_call_id,
            "granted": granted,
            "denied": not granted,
        },
        session_id=request.session_id,
    )


def native_request_wire(request: PermissionRequest) -> dict[str, Any]:
    """With what an ``allow_session`` would be for."""
    wire = request_wire(request)
    if request.files:
        wire["files"] = request.files
    if request.always_asks:
        wire["always_asks"] = True
    return wire


def request_wire(request: PermissionRequest) -> dict[str, Any]:
    wire = {
        "id": request.pk,
        "session_id": request.session_id,
        "tool_call_id": request.tool_call_id,
        "tool_name": request.tool_name,
        "description": request.description,
        "action": request.action,
        "params": request.params,
        "path": request.path,
    }
    if request.agent_path:
        wire["agent_path"] = request.agent_path
    if request.always_asks:
        wire["dangerous"] = True  # it changes what programs obey
    return wire
