"""Stores the content of attachments once.

A prompt's run, its message and its event all contain the same megabytes. Their rows hold a
reference in place of the content: an object where the wire has a string. Readers get the wire form
back. Older rows with their content inside are read as they are.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from workspaces.log.statements import Statements

# Smaller contents are cheaper inside the row.
SMALLEST_CHARS = 1_000
# Statements, because the log lies below the models.
_FIELD = b'"Data":'
# Inside a JSON string the quotes would be escaped, so this matches only references.
_REFERENCE = re.compile(_FIELD + rb'\{"attachment":"([0-9a-f]{64})"\}')
_MARK = _FIELD.decode() + '{"attachment":'


def store_attached(
    cursor: Statements, workspace_id: str, parts: Sequence[Mapping[str, Any]], *, now: int
) -> list[Mapping[str, Any]]:
    """Stores the content of attachments; returns the parts with references to it."""
    return [_stored(cursor, workspace_id, part, now) for part in parts]


def _stored(
    cursor: Statements, workspace_id: str, part: Mapping[str, Any], now: int
) -> Mapping[str, Any]:
    content = part["data"].get("Data") if part["type"] == "binary" else None
    if not isinstance(content, str) or len(content) < SMALLEST_CHARS:
        return part
    # The key includes the workspace, so that a reference never leads to data of another one.
    key = hashlib.sha256(f"{workspace_id}\0{content}".encode()).hexdigest()
    cursor.execute("SELECT 1 FROM workspaces_attachment WHERE id = %s", [key])
    if cursor.fetchone() is None:
        cursor.execute(
            "INSERT INTO workspaces_attachment (id, workspace_id, content, created_at)"
            " VALUES (%s, %s, %s, %s) ON CONFLICT (id) DO NOTHING",
            [key, workspace_id, content, now],
        )
    return {**part, "data": {**part["data"], "Data": {"attachment": key}}}


def load_attached(cursor: Statements, stored: str) -> str:
    """Returns stored JSON in its wire form, with references replaced by the content."""
    if _MARK not in stored:
        return stored
    return _REFERENCE.sub(lambda found: _content(cursor, found[1]), stored.encode()).decode()


def _content(cursor: Statements, key: bytes) -> bytes:
    cursor.execute("SELECT content FROM workspaces_attachment WHERE id = %s", [key.decode()])
    (content,) = cursor.fetchone() or ("",)
    return _FIELD + orjson.dumps(content)
