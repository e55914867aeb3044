"""Creates and revokes tokens. Synchronous: call it in a write's transaction."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from django.contrib.auth.models import User

from people.actions.audit import Act, record
from people.models import ALL_SCOPES, Token
from workspaces.access import Actor, Right
from workspaces.log.errors import BadField, TokenUnknown
from workspaces.log.timestamps import now_ms
from workspaces.log.transaction import Transaction
from workspaces.models import Workspace

# Scanners of repositories and logs recognise leaked tokens by their beginning.
PREFIX = "crush_"
_SHOWN = len(PREFIX) + 6
_BYTES = 32
NAME_LIMIT = 100
SHORTEST_ADOPTED = len(PREFIX) + 32


@dataclass(frozen=True, slots=True)
class NewToken:
    row: Token
    text: str  # shown once


def digest_of(text: str) -> str:
    """The stored form. A token is random, so a slow hash would protect nothing."""
    return hashlib.sha256(text.encode()).hexdigest()


def create_token(
    tx: Transaction,
    *,
    actor: Actor | None = None,
    user: User,
    name: str,
    created_by: User | None,
    scopes: Collection[Right] | None = None,
    workspaces: Sequence[Workspace] | None = None,
    expires_at: int | None = None,
) -> NewToken:
    """Stores a new token. ``None`` limits nothing. Raises ``BadField``."""
    name = name.strip()
    if not name or len(name) > NAME_LIMIT:
        raise BadField(f"name: must have between 1 and {NAME_LIMIT} characters")
    if scopes is not None and not scopes:
        raise BadField("scopes: must name at least one right")
    if workspaces is not None and not workspaces:
        raise BadField("workspaces: must name at least one workspace")
    if expires_at is not None and expires_at <= now_ms():
        raise BadField("expires_at: must be in the future")
    text = PREFIX + secrets.token_urlsafe(_BYTES)
    row = Token.objects.create(
        user=user,
        name=name,
        prefix=text[:_SHOWN],
        digest=digest_of(text),
        scopes=[ALL_SCOPES] if scopes is None else sorted(scopes),
        has_all_workspaces=workspaces is None,
        created_by=created_by,
        expires_at=expires_at,
    )
    if workspaces is not None:
        row.workspaces.set(workspaces)
    details = {"user": user.get_username(), "scopes": row.scopes, "expires_at": expires_at}
    record(tx, actor, Act.CREATE_TOKEN, target=str(row), details=details)
    return NewToken(row, text)


def adopt_token(text: str, *, user: User, name: str) -> None:
    """Stores a token that was made elsewhere, once. Raises ``BadField``."""
    if not text.startswith(PREFIX) or len(text) < SHORTEST_ADOPTED or not text.isascii():
        raise BadField(
            f"the token must be {PREFIX} and at least {SHORTEST_ADOPTED - len(PREFIX)} random"
            " characters"
        )
    Token.objects.get_or_create(
        digest=digest_of(text),
        defaults={
            "user": user,
            "name": name,
            "prefix": text[:_SHOWN],
            "scopes": [ALL_SCOPES],
            "created_by": user,
        },
    )


def revoke_token(tx: Transaction, token_id: str, *, actor: Actor | None = None) -> Token:
    """Revokes a token for good; a second time it changes nothing. Raises ``TokenUnknown``."""
    row = Token.objects.select_related("user").filter(id=token_id).first()
    if row is None:
        raise TokenUnknown
    if row.revoked_at is None:
        row.revoked_at = now_ms()
        row.save(update_fields=["revoked_at"])
        record(tx, actor, Act.REVOKE_TOKEN, target=str(row))
    return row
