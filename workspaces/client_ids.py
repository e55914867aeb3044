"""Ids of clients, which are UUIDs chosen by the clients, and the clients of connections."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from typing import Any

from workspaces.log.errors import BadField
from workspaces.log.ids import ClientId

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def client_id_of(text: str) -> ClientId:
    """Returns the id in its canonical form. Raises ``BadField``."""
    if len(text) != 36:
        raise BadField(f"invalid client_id: invalid UUID length: {len(text.encode())}")
    if not _UUID.fullmatch(text):
        raise BadField("invalid client_id: invalid UUID format")
    return ClientId(str(uuid.UUID(text)))


CONNECTION = "crush.connection"  # the server's extension of an ASGI scope


class ClientConnection:
    """The client of a keep-alive connection, taken from the connection's requests.

    Prompts contain no client id, but a terminal client does not share its connections: once a
    request has named a client, all requests on that connection are from it. A proxy may share a
    connection between several clients; then the client is unknown.
    """

    __slots__ = ("_client_id", "_is_shared")

    def __init__(self) -> None:
        self._client_id = ""
        self._is_shared = False

    def note(self, client_id: str) -> None:
        """Records the client id of a request on this connection."""
        if self._client_id not in ("", client_id):
            self._is_shared = True
        self._client_id = client_id

    @property
    def client_id(self) -> str:
        """Returns the client id, or ``""`` if it is unknown or ambiguous."""
        return "" if self._is_shared else self._client_id


def connection_of(scope: Mapping[str, Any]) -> ClientConnection:
    """Returns the scope's connection, or an empty one if the server lacks the extension."""
    extension = (scope.get("extensions") or {}).get(CONNECTION)
    return ClientConnection() if extension is None else extension["connection"]
