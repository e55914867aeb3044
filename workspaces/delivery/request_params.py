"""Reads a stream's parameters: the workspace, the client, the cursor. Raises ``BadField``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

from workspaces.client_ids import client_id_of
from workspaces.log.errors import BadField

MAX_FIELDS = 20
LARGEST_NUMBER = 2**63 - 1  # of the log

Scope = Mapping[str, Any]


def workspace_of(scope: Scope) -> str:
    workspace_id: str = scope["url_route"]["kwargs"]["workspace_id"]
    return workspace_id


def query_of(scope: Scope) -> dict[str, str]:
    """Each parameter's first value."""
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
    """The client that the stream attaches, if it names one."""
    return client_id_of(query["client_id"]) if "client_id" in query else None


def cursor_of(scope: Scope, query: Mapping[str, str]) -> int | None:
    """The number after which to begin; ``None`` begins now.

    A browser that reconnects repeats its first address and adds the header, which
    is newer then: the header wins.
    """
    for name, value in scope["headers"]:
        if name == b"last-event-id" and value:
            return _number("Last-Event-ID", value.decode("latin-1"))
    return _number("after", query["after"]) if "after" in query else None


def _number(name: str, text: str) -> int:
    # By its digits first: a huge number is slow to convert.
    if not (text.isascii() and text.isdecimal()) or len(text) > 19 or int(text) > LARGEST_NUMBER:
        raise BadField(f"{name}: must be the number of an event")
    return int(text)
