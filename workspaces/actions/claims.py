"""Every write to claims: which clients keep a workspace open, and until when."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Q

from workspaces.actions.sessions import append_session
from workspaces.log.errors import ClientNotAttached, ClientRetired, SessionUnknown
from workspaces.log.transaction import Transaction
from workspaces.models import ClientClaim, RetiredClient, Session

# While a stream is open, its process renews the claim; after a crash the claim expires.
RENEWED_FOR_MS = 30_000
# Renewed each second, the claims of 1,000 clients would be most of what an idle server writes to
# PostgreSQL (docs/scaling.md).
RENEWED_EVERY_MS = 10_000

# Two statements: every accepted prompt looks for its client, which the ORM does in 122 µs instead
# of 7 (docs/where-we-leave-django.md).


def claim_workspace(
    tx: Transaction, workspace_id: str, client_id: str, *, grace_seconds: float
) -> None:
    """Claims a workspace for the grace; an open stream keeps the claim valid for longer."""
    if RetiredClient.objects.filter(client_id=client_id).exists():
        raise ClientRetired
    expires_at = tx.now + int(grace_seconds * 1000)
    claim, made = ClientClaim.objects.get_or_create(
        workspace_id=workspace_id,
        client_id=client_id,
        defaults={"expires_at": expires_at, "created_at": tx.now},
    )
    if not made and not claim.is_streaming:
        claim.expires_at = expires_at
        claim.save(update_fields=["expires_at"])


def attach_stream(tx: Transaction, workspace_id: str, client_id: str, *, holder: str) -> None:
    """Marks the claim as streaming, in the process ``holder``. Raises ``ClientRetired``."""
    if RetiredClient.objects.filter(client_id=client_id).exists():
        raise ClientRetired
    ClientClaim.objects.update_or_create(
        workspace_id=workspace_id,
        client_id=client_id,
        defaults={
            "is_streaming": True,
            "holder": holder,
            "expires_at": tx.now + RENEWED_FOR_MS,
        },
    )


def detach_stream(
    tx: Transaction, workspace_id: str, client_id: str, *, holder: str, grace_seconds: float
) -> None:
    """Starts the claim's grace after the client's last stream in this process closed."""
    claim = ClientClaim.objects.filter(
        workspace_id=workspace_id, client_id=client_id, holder=holder, is_streaming=True
    ).first()
    if claim is None:  # the client streams from another process, or was released
        return
    claim.is_streaming = False
    claim.expires_at = tx.now + int(grace_seconds * 1000)
    claim.save(update_fields=["is_streaming", "expires_at"])
    _recount(tx, workspace_id, [claim.current_session_id])


def renew_claims(tx: Transaction, *, holder: str) -> None:
    """Renews the claims of this process's streams, unless they were renewed a short time ago."""
    due = tx.now + RENEWED_FOR_MS - RENEWED_EVERY_MS
    held = ClientClaim.objects.filter(holder=holder, is_streaming=True)
    # A claim that lasts longer is of a time before the database's clock was set.
    outside = Q(expires_at__lte=due) | Q(expires_at__gt=tx.now + RENEWED_FOR_MS)
    held.filter(outside).update(expires_at=tx.now + RENEWED_FOR_MS)


def release_claim(tx: Transaction, workspace_id: str, client_id: str) -> None:
    """Releases a client's claim. Releasing twice is no error."""
    _drop(tx, ClientClaim.objects.filter(workspace_id=workspace_id, client_id=client_id))


def retire_client(tx: Transaction, client_id: str) -> list[str]:
    """Retires a client permanently; returns the workspaces that it had claimed."""
    RetiredClient.objects.get_or_create(client_id=client_id, defaults={"retired_at": tx.now})
    return _drop(tx, ClientClaim.objects.filter(client_id=client_id))


def drop_lapsed_claims(tx: Transaction) -> list[str]:
    """Removes expired claims; returns their workspaces."""
    return _drop(tx, ClientClaim.objects.filter(expires_at__lte=tx.now))


def drop_claims_except(
    tx: Transaction, workspace_ids: Iterable[str], *, grace_seconds: float
) -> list[str]:
    """Removes all claims, when the only server of a database starts; returns their workspaces.

    Claims of ``workspace_ids`` stay for the grace: their clients may return.
    """
    kept = ClientClaim.objects.filter(workspace_id__in=workspace_ids)
    expires_at = tx.now + int(grace_seconds * 1000)
    for claim in kept.order_by("workspace_id"):
        claim.is_streaming, claim.expires_at = False, expires_at
        claim.save(update_fields=["is_streaming", "expires_at"])
        _recount(tx, claim.workspace_id, [claim.current_session_id])
    return _drop(tx, ClientClaim.objects.exclude(workspace_id__in=workspace_ids))


def set_current_session(
    tx: Transaction,
    workspace_id: str,
    client_id: str,
    *,
    session_id: str,
    user_id: int | None = None,
) -> None:
    """Stores which session the client shows, and to whom; an empty id clears it."""
    claim = ClientClaim.objects.filter(
        workspace_id=workspace_id, client_id=client_id, is_streaming=True
    ).first()
    if claim is None:
        raise ClientNotAttached
    if (
        session_id
        and not Session.objects.filter(
            pk=session_id, workspace_id=workspace_id, is_deleting=False
        ).exists()
    ):
        raise SessionUnknown
    before, claim.current_session_id = claim.current_session_id, session_id
    claim.user_id = user_id
    claim.save(update_fields=["current_session_id", "user_id"])
    _recount(tx, workspace_id, {before, session_id})


def _drop(tx: Transaction, claims: Iterable[ClientClaim]) -> list[str]:
    """Deletes claims; returns their workspaces by id, the order in which all jobs lock."""
    workspaces: dict[str, set[str]] = {}
    for claim in sorted(claims, key=lambda claim: claim.workspace_id):
        claim.delete()
        workspaces.setdefault(claim.workspace_id, set()).add(claim.current_session_id)
    for workspace_id, session_ids in workspaces.items():
        _recount(tx, workspace_id, session_ids)
    return list(workspaces)


def _recount(tx: Transaction, workspace_id: str, session_ids: Iterable[str]) -> None:
    for session_id in filter(None, session_ids):
        count = ClientClaim.objects.filter(
            workspace_id=workspace_id, current_session_id=session_id, is_streaming=True
        ).count()
        changed = (
            Session.objects.filter(pk=session_id)
            .exclude(attached_clients=count)
            .update(attached_clients=count)
        )
        if changed:
            append_session(tx, workspace_id, session_id)
