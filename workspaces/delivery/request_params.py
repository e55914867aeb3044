"""Reads a stream's parameters: the workspace, the client, the cursor. Raises ``BadField``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

from workspaces.client_ids import client_id_of
from workspaces.log.errors import BadField
from workspaces.log.ids import LARGEST_NUMBER

MAX_FIELDS = 20

Scope = Mapping[str, Any]


def workspace_of(scope: Scope) -> str:
    workspace_id: str = scope["url_route"]["kwargs"]["workspace_id"]
    return workspace_id


def query_of(scope: Scope) -> dict[str, str]:
    """Returns the first value of each parameter."""
    try:
        pairs = parse_qs(
            scope["query_string"].decode("latin-1"),
            keep_blank_values=True,
            max_num_fields=MAX_FIELDS,
        )
    except ValueError:
        raise BadField("query: has too many parameters") from None
    return {name: values[0] for name, values in pairs.items()}


def client_of(query: Mapping[str, str]) -> str | None:
    """Returns the id of the client that the stream attaches, if the request has one."""
    return client_id_of(query["client_id"]) if "client_id" in query else None


def cursor_of(scope: Scope, query: Mapping[str, str]) -> int | None:
    """Returns the number of the event to start after; ``None`` starts with new events.

    A browser that reconnects repeats its first URL and adds the header, so the header is
    newer and wins.
    """
    for name, value in scope["headers"]:
        if name == b"last-event-id" and value:
            return _number("Last-Event-ID", value.decode("latin-1"))
    return _number("after", query["after"]) if "after" in query else None


def _number(name: str, text: str) -> int:
    # Check the digits first: converting a huge number is slow.
    if not (text.isascii() and text.isdecimal()) or len(text) > 19 or int(text) > LARGEST_NUMBER:
        raise BadField(f"{name}: must be the number of an event")
    return int(text)
