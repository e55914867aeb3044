"""Ids of clients, UUIDs that the clients choose themselves, and the connections they use."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from typing import Any

from workspaces.log.errors import BadField
from workspaces.log.ids import ClientId

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def client_id_of(text: str) -> ClientId:
    """In its one spelling. Raises ``BadField``."""
    if len(text) != 36:
        raise BadField(f"invalid client_id: invalid UUID length: {len(text.encode())}")
    if not _UUID.fullmatch(text):
        raise BadField("invalid client_id: invalid UUID format")
    return ClientId(str(uuid.UUID(text)))


CONNECTION = "crush.connection"  # the server's extension of an ASGI scope


class ClientConnection:
    """Which client a kept-alive connection belongs to, as its own requests say.

    Prompts carry no client id, but a terminal client keeps its connections for itself: once one
    of its requests has named a client, the others on that connection are that client's too. A
    proxy may share one connection between several clients; then nothing is said.
    """

    __slots__ = ("_client_id", "_is_shared")

    def __init__(self) -> None:
        self._client_id = ""
        self._is_shared = False

    def note(self, client_id: str) -> None:
        """A request on this connection named this client."""
        if self._client_id not in ("", client_id):
            self._is_shared = True
        self._client_id = client_id

    @property
    def client_id(self) -> str:
        """Empty where it is not known, or ambiguous."""
        return "" if self._is_shared else self._client_id


def connection_of(scope: Mapping[str, Any]) -> ClientConnection:
    """A server that does not offer the extension knows nothing of connections."""
    extension = (scope.get("extensions") or {}).get(CONNECTION)
    return ClientConnection() if extension is None else extension["connection"]
