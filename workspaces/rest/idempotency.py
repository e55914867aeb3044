"""``Idempotency-Key``: a request that is sent again gets the response of the first one.

The key is claimed before the request is carried out and its response is stored afterwards. When the
server dies in between, the claim expires after a minute, and the request is carried out again.
Prompts are exact even then, because their key is also the id of their run.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import orjson
from django.db.models import Q
from rest_framework.request import Request
from rest_framework.response import Response

from workspaces.access import Caller
from workspaces.log.errors import BadField, KeyInUse, KeyTaken
from workspaces.log.secrets import box
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer
from workspaces.models import IdempotencyKey

HEADER = "Idempotency-Key"
KEY_LIMIT = 200
KEPT_MS = 24 * 3600 * 1000
CLAIM_MS = 60 * 1000
# Rows that are deleted with each new one, so that the table does not grow.
DELETED_AT_ONCE = 20


class Replayed(Exception):
    """The request was carried out before; this is its response."""

    def __init__(self, response: Response) -> None:
        super().__init__()
        self.response = response


@dataclass(frozen=True, slots=True)
class Claim:
    row_id: int


def key_of(request: Request) -> str:
    """Returns the key of a request, or ``""`` without one. Raises ``BadField``."""
    key = str(request.headers.get(HEADER, ""))
    if len(key) > KEY_LIMIT or not key.isprintable():
        raise BadField(f"{HEADER}: must have at most {KEY_LIMIT} printable characters")
    return key


def claim(request: Request, caller: Caller) -> Claim | None:
    """Claims the key of a request, if it has one.

    Raises ``Replayed``, ``KeyTaken`` if another request had this key, and ``KeyInUse`` while the
    first request is being carried out.
    """
    key = key_of(request)
    if not key:
        return None
    who = caller.identity
    owner = f"{who.kind}:{who.token_id or who.user_id or ''}"
    content = f"{request.method} {request.get_full_path()}\n".encode() + request.body
    digest = hashlib.sha256(content).hexdigest()

    def insert(tx: Transaction) -> IdempotencyKey | None:
        """Returns the row of an earlier request, or None when this one has the key."""
        _delete_expired(tx.now)
        row, is_new = IdempotencyKey.objects.get_or_create(
            caller=owner, key=key, defaults={"digest": digest, "created_at": tx.now}
        )
        claimed.append(row.pk)
        if is_new:
            return None
        if row.digest == digest and row.status is None and row.created_at < tx.now - CLAIM_MS:
            row.created_at = tx.now
            row.save(update_fields=["created_at"])
            return None
        return row

    claimed: list[int] = []
    earlier = writer.write_and_wait("", insert)
    if earlier is None:
        return Claim(claimed[-1])
    if earlier.digest != digest:
        raise KeyTaken
    if earlier.status is None:
        raise KeyInUse
    data = orjson.loads(box().open(earlier.sealed_body)) if earlier.sealed_body else None
    raise Replayed(Response(data, status=earlier.status, headers={"Idempotency-Replayed": "true"}))


def store(claimed: Claim, response: Response) -> None:
    """Keeps the response for a day. Encrypted: it may hold a new token."""
    body = "" if response.data is None else orjson.dumps(response.data, default=dict).decode()
    sealed = box().seal(body) if body else ""

    def update(_: Transaction) -> None:
        IdempotencyKey.objects.filter(pk=claimed.row_id).update(
            status=response.status_code, sealed_body=sealed
        )

    writer.write_and_wait("", update)


def release(claimed: Claim) -> None:
    """Lets the next request with this key be carried out."""

    def delete(_: Transaction) -> None:
        IdempotencyKey.objects.filter(pk=claimed.row_id, status=None).delete()

    writer.write_and_wait("", delete)


def _delete_expired(now: int) -> None:
    expired = IdempotencyKey.objects.filter(Q(created_at__lt=now - KEPT_MS))
    IdempotencyKey.objects.filter(
        pk__in=list(expired.values_list("pk", flat=True)[:DELETED_AT_ONCE])
    ).delete()
