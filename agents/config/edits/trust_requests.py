"""Opens, answers and withdraws trust requests."""

from __future__ import annotations

from functools import partial
from typing import Any

from agents.config.cache import configs
from agents.config.edits.changes import announce
from agents.config.load import LoadedConfig
from agents.config.trust.decision import TrustState, request_text
from workspaces.access import Actor, author_of
from workspaces.log.reader import read
from workspaces.log.transaction import Transaction
from workspaces.log.types import Kind
from workspaces.log.writer import writer
from workspaces.models import TrustRequest, TrustRequestState, Workspace
from workspaces.queries.trust import (
    call_id_of,
    pending_requests,
    request_of,
    trust_answer_wire,
    wire_of,
)


async def keep_trust_request(workspace_id: str, config: LoadedConfig) -> None:
    """Opens a trust request if one is needed, and withdraws outdated ones."""
    is_open = config.trust.state is TrustState.OPEN
    wanted = [config.trust.powers.digest] if is_open else []
    pending = await read(pending_requests, config.path)
    if [request.digest for request in pending] != wanted:
        await writer.write(workspace_id, partial(_keep, workspace_id, config, wanted))


async def apply_trust(path: str) -> None:
    """Loads the folder's configuration again and notifies its clients."""
    async with configs().changing:
        for workspace_id in await read(_open_workspaces, path):
            await configs().newest_config_of(workspace_id)
            await announce([workspace_id])


def answer_trust_request(
    tx: Transaction,
    workspace_id: str,
    *,
    request_id: str,
    tool_call_id: str,
    is_allowed: bool,
    actor: Actor | None,
) -> tuple[TrustRequest | None, bool]:
    """Stores the first answer; returns the request, if there is one, and whether this was it."""
    path = Workspace.objects.filter(pk=workspace_id).values_list("path", flat=True).first()
    request = request_of(path or "", request_id=request_id, tool_call_id=tool_call_id)
    is_first = request is not None and request.state == TrustRequestState.PENDING
    if request is not None and is_first:
        _answer(tx, request, is_allowed=is_allowed, actor=actor)
    return request, is_first


def set_trust(
    tx: Transaction, *, path: str, config: LoadedConfig, is_allowed: bool, actor: Actor | None
) -> None:
    """Stores an answer that was given without a request. It replaces an earlier answer."""
    powers = config.trust.powers
    description, params = request_text(powers, folder=path)
    request, _ = TrustRequest.objects.get_or_create(
        path=path,
        digest=powers.digest,
        defaults={"description": description, "params": params, "asked_at": tx.now},
    )
    _answer(tx, request, is_allowed=is_allowed, actor=actor)


def revoke_trust(tx: Transaction, *, path: str) -> int:
    """Deletes every answer for a folder; returns their number."""
    return tx.change(
        "DELETE FROM workspaces_trustrequest WHERE path = %s AND state <> 'pending'", [path]
    )


def _keep(workspace_id: str, config: LoadedConfig, wanted: list[str], tx: Transaction) -> None:
    tx.lock(workspace_id)
    for request in pending_requests(config.path):
        if request.digest not in wanted:
            _close(tx, request, TrustRequestState.WITHDRAWN)
    for digest in wanted:
        description, params = request_text(config.trust.powers, folder=config.path)
        request, is_new = TrustRequest.objects.get_or_create(
            path=config.path,
            digest=digest,
            defaults={"description": description, "params": params, "asked_at": tx.now},
        )
        if not is_new:
            if request.state != TrustRequestState.WITHDRAWN:
                continue  # it is open already, or was answered since the configuration was read
            request.state, request.asked_at = TrustRequestState.PENDING, tx.now
            request.answered_at = request.author = None
            request.save(update_fields=["state", "asked_at", "answered_at", "author"])
        tx.append(workspace_id, Kind.PERMISSION_REQUESTED, {"request": wire_of(request)})


def _answer(
    tx: Transaction, request: TrustRequest, *, is_allowed: bool, actor: Actor | None
) -> None:
    was_open = request.state == TrustRequestState.PENDING
    state = TrustRequestState.ALLOWED if is_allowed else TrustRequestState.DENIED
    request.author = author_of(actor, with_client=True)
    _close(tx, request, state, notifies=was_open)


def _close(
    tx: Transaction, request: TrustRequest, state: TrustRequestState, *, notifies: bool = True
) -> None:
    request.state, request.answered_at = state, tx.now
    request.save(update_fields=["state", "answered_at", "author"])
    if not notifies:
        return
    is_allowed = state == TrustRequestState.ALLOWED
    resolved = {
        "request_id": request.pk,
        "session_id": "",
        "tool_call_id": call_id_of(request.pk),
        "granted": is_allowed,
        "denied": not is_allowed,
        **trust_answer_wire(request),
    }
    for workspace_id in _open_workspaces(request.path):
        tx.append(workspace_id, Kind.PERMISSION_RESOLVED, resolved)


def _open_workspaces(path: str) -> list[str]:
    found = Workspace.objects.filter(path=path, is_open=True)
    return [str(key) for key in found.values_list("pk", flat=True)]


def shown_trust(config: LoadedConfig) -> dict[str, Any]:
    """Returns the state of a folder's trust, and the powers that a person must review."""
    trust = config.trust
    description, params = request_text(trust.powers, folder=config.path)
    shown: dict[str, Any] = {"path": config.path, "state": trust.state.value}
    if trust.state is TrustState.UNNEEDED:
        return shown
    return shown | {
        "digest": trust.powers.digest,
        "description": description,
        "params": params,
        "left_out": [str(problem) for problem in trust.problems()],
    }
