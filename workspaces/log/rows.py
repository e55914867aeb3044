"""Turns rows of messages and sessions into what clients get: one list of columns for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


SESSION_COLUMNS = (
    "id, parent_session_id, title, message_count, prompt_tokens, completion_tokens, cost,"
    " summary_message_id, attached_clients, is_busy, created_at, updated_at, todos,"
    " total_prompt_tokens, total_completion_tokens"
)


def session_of_row(row: Sequence[Any]) -> dict[str, Any]:
    return {
        "attached_clients": row[8],
        "completion_tokens": row[5],
        "cost": row[6],
        "created_at": row[10] // 1000,
        "id": row[0],
        "is_busy": bool(row[9]),
        "message_count": row[3],
        "parent_session_id": row[1],
        "prompt_tokens": row[4],
        "summary_message_id": row[7],
        "title": row[2],
        "todos": [] if row[12] == "[]" else orjson.loads(row[12]),
        "total_completion_tokens": row[14],
        "total_prompt_tokens": row[13],
        "updated_at": row[11] // 1000,
    }


_EMPTY: Mapping[str, Any] = session_of_row(
    ("", "", "", 0, 0, 0, 0.0, "", 0, False, 0, 0, "[]", 0, 0)
)
_EMPTY_V1: Mapping[str, Any] = {
    name: value
    for name, value in _EMPTY.items()
    if name not in {"todos", "total_completion_tokens", "total_prompt_tokens"}
}
_ALWAYS = frozenset({"created_at", "id", "title", "updated_at"})


def without_empty(session: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in session.items() if value or name in _ALWAYS}


def for_v1(session: Mapping[str, Any]) -> dict[str, Any]:
    """The session, whole or ``without_empty``, with exactly the fields of ``/v1``.

    Its clients hide their list of todos where there is none.
    """
    shown = {name: session.get(name, value) for name, value in _EMPTY_V1.items()}
    todos = session.get("todos")
    return {**shown, "todos": todos} if todos else shown
