"""Ids of clients: UUIDs that the clients choose themselves."""

from __future__ import annotations

import re
import uuid

from workspaces.storage.errors import BadField
from workspaces.storage.ids import ClientId

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def client_id_of(text: str) -> ClientId:
    """In its one spelling. Raises ``BadField``."""
    if len(text) != 36:
        raise BadField(f"invalid client_id: invalid UUID length: {len(text.encode())}")
    if not _UUID.fullmatch(text):
        raise BadField("invalid client_id: invalid UUID format")
    return ClientId(str(uuid.UUID(text)))
