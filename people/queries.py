"""Reads the audit, the owner and the names of tokens. Synchronous: call it through ``read``, or in a command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from people.models import AuditEntry, Owner, Token
from workspaces.log.timestamps import as_rfc3339


def audit_entries(
    *, after: int | None = None, workspace_id: str = "", limit: int | None = None
) -> list[AuditEntry]:
    """Returns entries in the order of their time: the newest ones, or those after a number."""
    found = AuditEntry.objects.filter(**({"workspace_id": workspace_id} if workspace_id else {}))
    if after is not None:
        return list(found.filter(pk__gt=after).order_by("pk")[:limit])
    return list(reversed(found.order_by("-pk")[:limit]))


def audit_wire(entry: AuditEntry) -> Mapping[str, Any]:
    """An entry as clients get it."""
    return {
        "id": entry.pk,
        "at": as_rfc3339(entry.at),
        "actor": {"kind": entry.kind, "name": entry.actor, "token_id": entry.token_id},
        "client_id": entry.client_id,
        "address": entry.address,
        "act": entry.act,
        "workspace_id": entry.workspace_id,
        "session_id": entry.session_id,
        "target": entry.target,
        "outcome": entry.outcome,
        "details": entry.details,
    }


def owner_id() -> int | None:
    """Returns the user of the server's own account, once the server has started."""
    return Owner.objects.values_list("user_id", flat=True).first()


def name_of_token(token_id: str) -> str:
    """Returns the name of a token; an empty text if there is no such token."""
    return Token.objects.filter(pk=token_id).values_list("name", flat=True).first() or ""
