"""Every write to grants: a person's answers that also count for later calls.

A grant counts for the runs of the person who gave it, and for no other runs. Runs and grants without
a person are the owner's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django.apps import apps
from django.db.models import Q

from people.actions.audit import Act, record
from permissions.models import Grant, GrantScope, PermissionRequest
from workspaces.access import Actor, author_of
from workspaces.log.timestamps import as_seconds
from workspaces.log.transaction import Transaction
from workspaces.log.types import Kind


def add_grants(
    tx: Transaction,
    request: PermissionRequest,
    *,
    scope: GrantScope,
    paths: Sequence[str],
    is_folder: bool,
    until: int | None,
    actor: Actor | None,
) -> None:
    """Adds a grant for each path, or extends the one that its author has given before."""
    tx.lock(request.workspace_id)
    user_id = person(None if actor is None else actor.user_id)
    for path in paths:
        grant, is_new = Grant.objects.get_or_create(
            workspace_id=request.workspace_id,
            scope=scope,
            session_id=None if scope is GrantScope.WORKSPACE else request.session_id,
            run_key=request.run_key if scope is GrantScope.RUN else None,
            user_id=user_id,
            tool_name=request.tool_name,
            action=request.action,
            path=path,
            defaults={
                "is_folder": is_folder,
                "author": author_of(actor),
                "granted_at": tx.now,
                "expires_at": until,
            },
        )
        if not is_new:
            grant.is_folder = grant.is_folder or is_folder
            is_over = grant.expires_at is not None and grant.expires_at <= tx.now
            if is_over or until is None:
                grant.expires_at = until
            elif grant.expires_at is not None:
                grant.expires_at = max(grant.expires_at, until)
            grant.save(update_fields=["is_folder", "expires_at"])
        _append(tx, Kind.GRANT_CREATED, grant)


def grants_for(
    tx: Transaction,
    workspace_id: str,
    *,
    author: Mapping[str, Any] | None,
    session_ids: Collection[str],
    run_keys: Collection[int],
    tool_name: str,
    action: str,
) -> list[Grant]:
    """Returns the grants of a run's author for this tool and action that are valid now.

    ``session_ids`` and ``run_keys``: of the run and of the runs that wait for it.
    """
    found = Grant.objects.filter(
        Q(expires_at__isnull=True) | Q(expires_at__gt=tx.now),
        Q(scope=GrantScope.WORKSPACE)
        | Q(scope=GrantScope.SESSION, session_id__in=session_ids)
        | Q(scope=GrantScope.RUN, run_key__in=run_keys),
        workspace_id=workspace_id,
        tool_name=tool_name,
        action=action,
    )
    grants = list(found)
    if not grants:
        return []
    stored = (author or {}).get("user_id")
    user_id = person(None if stored is None else int(stored))
    return [grant for grant in grants if grant.user_id == user_id]


def revoke_grant(tx: Transaction, grant_id: int, *, actor: Actor | None = None) -> bool:
    """Removes a grant and appends its event; returns ``False`` if it is gone already."""
    grant = Grant.objects.filter(pk=grant_id).first()
    if grant is None:
        return False
    tx.lock(grant.workspace_id)
    if not Grant.objects.filter(pk=grant_id).delete()[0]:
        return False
    grant.pk = grant_id
    _append(tx, Kind.GRANT_REVOKED, grant)
    record(
        tx,
        actor,
        Act.REVOKE_GRANT,
        workspace_id=grant.workspace_id,
        session_id=grant.session_id or "",
        target=str(grant),
    )
    return True


def remove_expired_grants(tx: Transaction) -> int:
    """Removes the rows of grants that no longer count; their expiry is known to clients."""
    return Grant.objects.filter(expires_at__isnull=False, expires_at__lte=tx.now).delete()[0]


def person(user_id: int | None) -> int | None:
    """Returns whose grants a user's are: the user's, or ``None`` for the owner's. Synchronous."""
    if user_id is None or not apps.is_installed("people"):  # a sub-agent's process has no accounts
        return None
    from people.queries import owner_id  # noqa: PLC0415  the same

    return None if user_id == owner_id() else user_id


def grant_wire(grant: Grant) -> dict[str, Any]:
    """Returns the grant for native clients."""
    wire: dict[str, Any] = {
        "id": str(grant.pk),
        "workspace_id": grant.workspace_id,
        "scope": grant.scope,
        "tool_name": grant.tool_name,
        "action": grant.action,
        "path": grant.path,
        "is_folder": grant.is_folder,
        "author": grant.author,
        "granted_at": as_seconds(grant.granted_at),
        "expires_at": None if grant.expires_at is None else as_seconds(grant.expires_at),
    }
    if grant.session_id is not None:
        wire["session_id"] = grant.session_id
    if grant.run_key is not None:
        wire["run_key"] = grant.run_key
    return wire


def _append(tx: Transaction, kind: Kind, grant: Grant) -> None:
    tx.append(
        grant.workspace_id, kind, {"grant": grant_wire(grant)}, session_id=grant.session_id or ""
    )
