"""A message row as the wire's message object: one list of columns, one function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

MESSAGE_COLUMNS = "id, session_id, role, parts, model, provider, created_at, updated_at, is_summary"


def message_of_row(row: Sequence[Any]) -> dict[str, Any]:
    return message_wire(
        id=row[0],
        session_id=row[1],
        role=row[2],
        parts=orjson.loads(row[3]),
        model=row[4],
        provider=row[5],
        created_at=row[6],
        updated_at=row[7],
        is_summary=row[8],
    )


def message_wire(
    *,
    id: str,
    session_id: str,
    role: str,
    parts: Sequence[Any],
    model: str,
    provider: str,
    created_at: int,
    updated_at: int,
    is_summary: bool = False,
) -> dict[str, Any]:
    """Times are in milliseconds here and in seconds on the wire."""
    message = {
        "created_at": created_at // 1000,
        "id": id,
        "model": model,
        "parts": parts,
        "provider": provider,
        "role": role,
        "session_id": session_id,
        "updated_at": updated_at // 1000,
    }
    if is_summary:
        message["is_summary_message"] = True
    return message
