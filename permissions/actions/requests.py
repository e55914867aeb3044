"""Every write to permission requests."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from permissions.actions.grants import add_grants
from permissions.actions.policies import policy_of
from permissions.models import Grant, GrantScope, PermissionRequest, QuestionBatch, RequestState
from permissions.policy.protected import covers_folder
from workspaces.access import Actor, author_of
from workspaces.actions.sessions import path_of_session
from workspaces.log.errors import BadField
from workspaces.log.ids import new_id
from workspaces.log.timestamps import as_seconds
from workspaces.log.transaction import Transaction
from workspaces.log.types import Kind
from workspaces.models import PermissionMode
from workspaces.storable import storable_json


@dataclass(frozen=True, slots=True)
class AnswerOptions:
    """What an answer to a permission request may carry, besides allow or deny."""

    scope: GrantScope = GrantScope.ONCE
    folder: str = ""  # a grant covers everything in it, instead of the request's files
    until: int | None = None  # milliseconds: the end of the grant
    reason: str = ""  # for the model
    arguments: Mapping[str, Any] | None = field(default=None, repr=False)  # instead of the call's

    def check(self, request: PermissionRequest, *, granted: bool, now: int) -> None:
        """Raises ``BadField`` for what does not belong together."""
        is_once = self.scope is GrantScope.ONCE
        if not granted and not (is_once and self.arguments is None):
            raise BadField("scope, arguments: belong to an answer that allows the call")
        if is_once and self.folder:
            raise BadField("folder: needs a scope of run, session or workspace")
        if is_once and self.until is not None:
            raise BadField("until: needs a scope of run, session or workspace")
        if self.until is not None and self.until <= now:
            raise BadField("until: must be in the future")
        if self.arguments is not None and not is_once:
            raise BadField("scope: changed arguments are allowed once")
        if self.arguments is not None and not request.schema:
            raise BadField("arguments: those of this call cannot be changed")


def request_permission(
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
    schema: Mapping[str, Any] | None = None,
    cut_output: str | None = None,
) -> str:
    """Adds a permission request and its event; returns the request's id.

    ``schema``: of the tool's arguments, if an answer may change them. ``cut_output``: the request
    is whether a call runs again whose tool was cut, and this is what it had printed.
    """
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
        schema=_storable(schema or {}),
        cut_output=cut_output,
        asked_at=tx.now,
        **policy_of(workspace_id).due(tx.now),
    )
    request.save(force_insert=True)
    tx.append(
        workspace_id,
        Kind.PERMISSION_REQUESTED,
        {"request": native_request_wire(request)},
        session_id=session_id,
    )
    return request.pk


def skips_requests(tx: Transaction, workspace_id: str, *, mode: str) -> bool:
    """Whether nothing is requested. ``mode``: the prompt's own; empty: the workspace's counts."""
    if mode:
        return mode != PermissionMode.NORMAL
    ((skip,),) = tx.fetch(
        "SELECT skip_permissions FROM workspaces_workspace WHERE id = %s", [workspace_id]
    )
    return bool(skip)


def is_request_for(
    request: PermissionRequest,
    *,
    tool_name: str,
    action: str,
    path: str,
    params: Mapping[str, Any],
    files: Sequence[str] = (),
) -> bool:
    """Whether a stored request equals the current one of the tool call."""
    shown = (request.tool_name, request.action, request.path, request.params, request.files)
    return shown == (tool_name, action, path, _storable(params), list(files))


def _storable(params: Mapping[str, Any]) -> Any:
    return orjson.loads(storable_json(orjson.dumps(dict(params))))


def answer_request(
    tx: Transaction,
    request: PermissionRequest,
    *,
    granted: bool,
    options: AnswerOptions,
    actor: Actor | None = None,
    author: Mapping[str, Any] | None = None,
) -> bool:
    """Stores the answer; returns ``False`` if the request is already resolved.

    A scope other than once grants the files of the request, or the folder that the person chose,
    but never a request that counts once. ``author``: without an ``actor``, who answers. Raises
    ``BadField`` for options that do not fit, and for a folder that does not contain all files.
    """
    options.check(request, granted=granted, now=tx.now)
    folder = _chosen_folder(request, options.folder) if options.folder else ""
    scope = GrantScope.ONCE if _counts_once(request) else options.scope
    arguments = options.arguments
    answer: dict[str, Any] = {
        "state": RequestState.ALLOWED if granted else RequestState.DENIED,
        "answered_at": tx.now,
        "author": author if actor is None else author_of(actor, with_client=True),
        "reason": options.reason,
        "scope": scope if granted else "",
        "until": None if scope is GrantScope.ONCE else options.until,
        "arguments": "" if arguments is None else orjson.dumps(_storable(arguments)).decode(),
    }
    won = PermissionRequest.objects.filter(pk=request.pk, state=RequestState.PENDING).update(
        **answer
    )
    if not won:
        return False
    for name, value in answer.items():
        setattr(request, name, value)
    if granted and scope is not GrantScope.ONCE:
        add_grants(
            tx,
            request,
            scope=scope,
            paths=[folder] if folder else request.files or [request.path],
            is_folder=bool(folder),
            until=options.until,
            actor=actor,
        )
    _append_resolved(tx, request)
    return True


def _counts_once(request: PermissionRequest) -> bool:
    return request.always_asks or request.cut_output is not None


def store_changed_call(_: Transaction, request: PermissionRequest, **shown: Any) -> None:
    """Stores what the call does with the arguments that its answer changed.

    ``shown``: the columns of a request for these arguments.
    """
    shown["params"] = _storable(shown["params"])
    shown["files"] = list(shown["files"])
    PermissionRequest.objects.filter(pk=request.pk).update(is_changed=True, **shown)


def replace_request(_: Transaction, request: PermissionRequest) -> None:
    """Lets a further request about the same call count instead of this answered one."""
    PermissionRequest.objects.filter(pk=request.pk).update(is_changed=True, is_replaced=True)


def _chosen_folder(request: PermissionRequest, folder: str) -> str:
    if not request.files:
        raise BadField("folder: only a request that writes files can be allowed for a folder")
    chosen = posixpath.normpath(folder)
    if not folder.startswith("/") or not all(covers_folder(chosen, path) for path in request.files):
        raise BadField("folder: must be the absolute path of a folder that holds the files")
    return chosen


def withdraw_requests(tx: Transaction, run_key: int) -> None:
    """Denies the open requests of a run that has ended, so that clients close them."""
    for request in PermissionRequest.objects.filter(run_key=run_key, state=RequestState.PENDING):
        request.state, request.answered_at = RequestState.WITHDRAWN, tx.now
        request.save(update_fields=["state", "answered_at"])
        _append_resolved(tx, request)


def forget_session_permissions(_: Transaction, session_id: str) -> None:
    """Removes a deleted session's requests, grants and questions."""
    for model in (PermissionRequest, Grant, QuestionBatch):
        model.objects.filter(session_id=session_id).delete()


def _append_resolved(tx: Transaction, request: PermissionRequest) -> None:
    granted = request.state == RequestState.ALLOWED
    tx.append(
        request.workspace_id,
        Kind.PERMISSION_RESOLVED,
        {
            "request_id": request.pk,
            "session_id": request.session_id,
            "tool_call_id": request.tool_call_id,
            "granted": granted,
            "denied": not granted,
            **answer_wire(request),
        },
        session_id=request.session_id,
    )


def answer_wire(request: PermissionRequest) -> dict[str, Any]:
    """Returns a request's state for native clients: who answered it, and what the answer carries."""
    wire: dict[str, Any] = {"state": str(request.state), "author": request.author}
    if request.reason:
        wire["reason"] = request.reason
    if request.scope:
        wire["scope"] = str(request.scope)
    if request.until is not None:
        wire["until"] = as_seconds(request.until)
    if request.arguments:
        wire["has_changed_arguments"] = True
    return wire


def native_request_wire(request: PermissionRequest) -> dict[str, Any]:
    """Returns the request for native clients, with the files that a grant would cover."""
    wire = request_wire(request)
    if request.files:
        wire["files"] = request.files
    if _counts_once(request):
        wire["always_asks"] = True
    if request.cut_output is not None:
        wire["cut_output"] = request.cut_output
    wire["asked_at"] = as_seconds(request.asked_at)
    if request.deny_at is not None:
        wire["deny_at"] = as_seconds(request.deny_at)
    return wire


RUN_AGAIN = "Run again? The outcome of its first run is unknown."
CHOICES = (
    f"{RUN_AGAIN} The server stopped while it ran, and it may have had all, some or none of its"
    " effects. If you allow it, it runs again. If you deny it, the model gets the result that the"
    " outcome is unknown, and the run continues."
)


def shown_description(request: PermissionRequest) -> str:
    """Returns the description for people: of a cut call with what it had printed."""
    if request.cut_output is None:
        return request.description
    output = f"Its output until then:\n{request.cut_output}" if request.cut_output else ""
    return "\n\n".join(filter(None, (CHOICES, request.description, output)))


def _shown_params(request: PermissionRequest) -> Any:
    """Returns the details to show; clients that show a command show this one of its texts."""
    params = request.params
    if request.cut_output is None or "description" not in params:
        return params
    return params | {"description": f"{RUN_AGAIN} {params['description']}".strip()}


def request_wire(request: PermissionRequest) -> dict[str, Any]:
    wire = {
        "id": request.pk,
        "session_id": request.session_id,
        "tool_call_id": request.tool_call_id,
        "tool_name": request.tool_name,
        "description": shown_description(request),
        "action": request.action,
        "params": _shown_params(request),
        "path": request.path,
    }
    if request.agent_path:
        wire["agent_path"] = request.agent_path
    if request.always_asks:
        wire["dangerous"] = True  # it changes a protected file
    return wire
