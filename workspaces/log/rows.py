"""The columns of sessions and messages: what a SELECT lists, how a row is decoded, how one is added.

The fields of each tuple are the columns in their order, so a list of columns and its rows agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson


def placeholders(count: int) -> str:
    """Returns the text of so many placeholders, for a list of values."""
    return ", ".join(["%s"] * count)


class MessageRow(NamedTuple):
    id: str
    session_id: str
    role: str
    parts: str  # JSON
    model: str
    provider: str
    created_at: int
    updated_at: int
    is_summary: bool
    author: str | None  # JSON


MESSAGE_COLUMNS = ", ".join(MessageRow._fields)


class NewMessage(NamedTuple):
    """A message as it is added."""

    id: str
    workspace_id: str
    session_id: str
    position: int
    stream_number: int
    role: str
    parts: str  # JSON, with references to attached data
    model: str
    provider: str
    is_finished: bool
    is_summary: bool
    run_key: int | None
    created_at: int
    updated_at: int
    author: str | None = None  # JSON


INSERT_MESSAGE = (
    f"INSERT INTO workspaces_message ({', '.join(NewMessage._fields)})"
    f" VALUES ({placeholders(len(NewMessage._fields))})"
)


def message_wire(row: MessageRow | NewMessage, parts: Any = None) -> dict[str, Any]:
    """Returns the message for clients; times are milliseconds in rows and seconds on the wire.

    ``parts``: those of the wire, if the caller has them.
    """
    message = {
        "created_at": row.created_at // 1000,
        "id": row.id,
        "model": row.model,
        "parts": orjson.loads(row.parts) if parts is None else parts,
        "provider": row.provider,
        "role": row.role,
        "session_id": row.session_id,
        "updated_at": row.updated_at // 1000,
    }
    if row.is_summary:
        message["is_summary_message"] = True
    if row.author:
        message["author"] = orjson.loads(row.author)
    return message


def message_for_v1(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the message with exactly the fields of ``/v1``."""
    if "author" not in message:
        return message
    return {name: value for name, value in message.items() if name != "author"}


class SessionRow(NamedTuple):
    id: str
    parent_session_id: str
    title: str
    message_count: int
    prompt_tokens: int
    completion_tokens: int
    cost: float
    summary_message_id: str
    attached_clients: int
    is_busy: bool
    created_at: int
    updated_at: int
    todos: str  # JSON
    total_prompt_tokens: int
    total_completion_tokens: int
    pinned_at: int | None
    archived_at: int | None
    forked_from: str


SESSION_COLUMNS = ", ".join(SessionRow._fields)


class NewSession(NamedTuple):
    """A session as it is added. Columns without a field here have a default in the database."""

    id: str
    workspace_id: str
    parent_session_id: str
    title: str
    created_at: int
    updated_at: int
    message_count: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    context_tokens: int = 0
    summary_message_id: str = ""
    todos: str = "[]"  # JSON
    attached_clients: int = 0
    forked_from: str = ""
    is_busy: bool = False
    is_deleting: bool = False
    last_accept: int = 0
    cancel_mark: int = 0


INSERT_SESSION = (
    f"INSERT INTO workspaces_session ({', '.join(NewSession._fields)})"
    f" VALUES ({placeholders(len(NewSession._fields))}) RETURNING {SESSION_COLUMNS}"
)


def session_wire(row: SessionRow) -> dict[str, Any]:
    """Returns the session for native clients."""
    return {
        "archived_at": (row.archived_at or 0) // 1000,
        "attached_clients": row.attached_clients,
        "completion_tokens": row.completion_tokens,
        "cost": row.cost,
        "created_at": row.created_at // 1000,
        "forked_from": row.forked_from,
        "id": row.id,
        "is_busy": bool(row.is_busy),
        "message_count": row.message_count,
        "parent_session_id": row.parent_session_id,
        "pinned_at": (row.pinned_at or 0) // 1000,
        "prompt_tokens": row.prompt_tokens,
        "summary_message_id": row.summary_message_id,
        "title": row.title,
        "todos": [] if row.todos == "[]" else orjson.loads(row.todos),
        "total_completion_tokens": row.total_completion_tokens,
        "total_prompt_tokens": row.total_prompt_tokens,
        "updated_at": row.updated_at // 1000,
    }


_EMPTY: Mapping[str, Any] = session_wire(
    SessionRow(
        id="",
        parent_session_id="",
        title="",
        message_count=0,
        prompt_tokens=0,
        completion_tokens=0,
        cost=0.0,
        summary_message_id="",
        attached_clients=0,
        is_busy=False,
        created_at=0,
        updated_at=0,
        todos="[]",
        total_prompt_tokens=0,
        total_completion_tokens=0,
        pinned_at=None,
        archived_at=None,
        forked_from="",
    )
)
_NATIVE_ONLY = frozenset(
    {
        "archived_at",
        "forked_from",
        "pinned_at",
        "todos",
        "total_completion_tokens",
        "total_prompt_tokens",
    }
)
_EMPTY_V1: Mapping[str, Any] = {
    name: value for name, value in _EMPTY.items() if name not in _NATIVE_ONLY
}
_ALWAYS = frozenset({"created_at", "id", "title", "updated_at"})


def without_empty(session: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in session.items() if value or name in _ALWAYS}


def for_v1(session: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the session, complete or ``without_empty``, with exactly the fields of ``/v1``.

    Clients hide their list of todos if the field is absent.
    """
    shown = {name: session.get(name, value) for name, value in _EMPTY_V1.items()}
    todos = session.get("todos")
    return {**shown, "todos": todos} if todos else shown
