"""Every write to clients' claims: who holds a workspace open, and until when."""

from __future__ import annotations

from collections.abc import Iterable

from workspaces.actions.sessions import tell_session
from workspaces.log.errors import ClientNotAttached, ClientRetired, SessionUnknown
from workspaces.log.transaction import Transaction
from workspaces.models import ClientClaim, RetiredClient, Session

# While a stream is open its process renews the claim; after a crash it lapses by itself.
RENEWED_FOR_MS = 30_000


def claim_workspace(
    tx: Transaction, workspace_id: str, client_id: str, *, grace_seconds: float
) -> None:
    """The client holds the workspace for the grace, or as long as it streams."""
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
    """The client's stream is open, in the process ``holder``."""
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
    """The client's last stream in this process closed: it has a grace to come back."""
    claim = ClientClaim.objects.filter(
        workspace_id=workspace_id, client_id=client_id, holder=holder, is_streaming=True
    ).first()
    if claim is None:  # it has another stream elsewhere, or was released
        return
    claim.is_streaming = False
    claim.expires_at = tx.now + int(grace_seconds * 1000)
    claim.save(update_fields=["is_streaming", "expires_at"])
    _recount(tx, workspace_id, [claim.current_session_id])


def renew_claims(tx: Transaction, *, holder: str) -> None:
    """This process still holds its clients' streams."""
    ClientClaim.objects.filter(holder=holder, is_streaming=True).update(
        expires_at=tx.now + RENEWED_FOR_MS
    )


def only_client(tx: Transaction, workspace_id: str) -> str:
    """The client that holds the workspace alone; empty where there are several, or none."""
    clients = tx.fetch(
        "SELECT client_id FROM workspaces_clientclaim WHERE workspace_id = %s LIMIT 2",
        [workspace_id],
    )
    return clients[0][0] if len(clients) == 1 else ""


def require_unretired(tx: Transaction, client_id: str) -> None:
    """Raises ``ClientRetired``."""
    if tx.fetch("SELECT 1 FROM workspaces_retiredclient WHERE client_id = %s", [client_id]):
        raise ClientRetired


def release_claim(tx: Transaction, workspace_id: str, client_id: str) -> None:
    """The client lets go at once. Releasing twice is no error."""
    _drop(tx, ClientClaim.objects.filter(workspace_id=workspace_id, client_id=client_id))


def retire_client(tx: Transaction, client_id: str) -> list[str]:
    """Ends the client for good; returns the workspaces that it held."""
    RetiredClient.objects.get_or_create(client_id=client_id, defaults={"retired_at": tx.now})
    return _drop(tx, ClientClaim.objects.filter(client_id=client_id))


def drop_lapsed_claims(tx: Transaction) -> list[str]:
    """Removes the claims whose time is over; returns their workspaces."""
    return _drop(tx, ClientClaim.objects.filter(expires_at__lte=tx.now))


def drop_all_claims(tx: Transaction) -> list[str]:
    """At the start of a server that is alone: no client of an earlier process is attached."""
    return _drop(tx, ClientClaim.objects.all())


def set_current_session(
    tx: Transaction, workspace_id: str, client_id: str, *, session_id: str
) -> None:
    """Which session the client looks at; an empty id clears it."""
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
    claim.save(update_fields=["current_session_id"])
    _recount(tx, workspace_id, {before, session_id})


def _drop(tx: Transaction, claims: Iterable[ClientClaim]) -> list[str]:
    """Returns the workspaces in the order of their ids, in which all jobs lock them."""
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
            tell_session(tx, workspace_id, session_id)
