"""Every write to sessions. Each function is a job's part: it takes the open transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from workspaces.log.errors import SessionUnknown
from workspaces.log.ids import new_id
from workspaces.log.rows import SESSION_COLUMNS, session_of_row, without_empty
from workspaces.log.transaction import Transaction
from workspaces.log.types import Kind

DEEPEST = 16  # sessions below each other


def create_session(
    tx: Transaction,
    workspace_id: str,
    *,
    title: str,
    session_id: str = "",
    parent_session_id: str = "",
) -> dict[str, Any]:
    """Adds a session and tells of it. A child session brings its own id."""
    session_id = session_id or new_id()
    tx.execute(
        "INSERT INTO workspaces_session (id, workspace_id, parent_session_id, title,"
        " message_count, prompt_tokens, completion_tokens, cost, summary_message_id, todos,"
        " attached_clients, is_busy, is_deleting, last_accept, cancel_mark, created_at, updated_at)"
        " VALUES (%s, %s, %s, %s, 0, 0, 0, 0, '', '[]', 0, %s, %s, 0, 0, %s, %s)",
        [session_id, workspace_id, parent_session_id, title, False, False, tx.now, tx.now],
    )
    session = read_session(tx, workspace_id, session_id)
    _tell(tx, workspace_id, Kind.SESSION_CREATED, session)
    return session


def read_session(tx: Transaction, workspace_id: str, session_id: str) -> dict[str, Any]:
    """The session as native clients see it. Raises ``SessionUnknown``."""
    rows = tx.fetch(
        f"SELECT {SESSION_COLUMNS} FROM workspaces_session"
        " WHERE id = %s AND workspace_id = %s AND is_deleting = %s",
        [session_id, workspace_id, False],
    )
    if not rows:
        raise SessionUnknown
    return session_of_row(rows[0])


def tell_session(tx: Transaction, workspace_id: str, session_id: str) -> dict[str, Any] | None:
    """Appends the session's new state; nothing for one that is being deleted."""
    try:
        session = read_session(tx, workspace_id, session_id)
    except SessionUnknown:
        return None
    _tell(tx, workspace_id, Kind.SESSION_UPDATED, session)
    return session


def _tell(tx: Transaction, workspace_id: str, kind: Kind, session: dict[str, Any]) -> None:
    told = {"session": without_empty(session)}
    tx.append(workspace_id, kind, told, session_id=session["id"])


def rename_session(
    tx: Transaction, workspace_id: str, session_id: str, *, title: str
) -> dict[str, Any]:
    """Raises ``SessionUnknown``."""
    read_session(tx, workspace_id, session_id)
    tx.execute(
        "UPDATE workspaces_session SET title = %s, updated_at = %s WHERE id = %s",
        [title, tx.now, session_id],
    )
    session = tell_session(tx, workspace_id, session_id)
    if session is None:
        raise SessionUnknown
    return session


def add_usage(
    tx: Transaction,
    session_id: str,
    *,
    prompt_tokens: int = 0,
    completion_tokens: int = 0,
    cost: float,
) -> None:
    """Adds a model request to the session's totals and cost; the caller appends the event."""
    tx.execute(
        "UPDATE workspaces_session SET total_prompt_tokens = total_prompt_tokens + %s,"
        " total_completion_tokens = total_completion_tokens + %s, cost = cost + %s,"
        " updated_at = %s WHERE id = %s",
        [prompt_tokens, completion_tokens, cost, tx.now, session_id],
    )


def set_last_request(
    tx: Transaction, session_id: str, *, prompt_tokens: int, completion_tokens: int
) -> None:
    """The tokens of the conversation's newest request: clients divide them by the window."""
    tx.execute(
        "UPDATE workspaces_session SET prompt_tokens = %s, completion_tokens = %s WHERE id = %s",
        [prompt_tokens, completion_tokens, session_id],
    )


def replace_todos(
    tx: Transaction, workspace_id: str, session_id: str, *, todos: Sequence[Mapping[str, str]]
) -> None:
    tx.execute(
        "UPDATE workspaces_session SET todos = %s, updated_at = %s WHERE id = %s",
        [orjson.dumps(list(todos)).decode(), tx.now, session_id],
    )
    tell_session(tx, workspace_id, session_id)


def set_context(
    tx: Transaction, session_id: str, *, tokens: int, summary_message_id: str = ""
) -> None:
    """What the conversation takes of the model's window now; a summary is its new start."""
    tx.execute(
        "UPDATE workspaces_session SET context_tokens = %s,"
        " summary_message_id = CASE WHEN %s = '' THEN summary_message_id ELSE %s END"
        " WHERE id = %s",
        [tokens, summary_message_id, summary_message_id, session_id],
    )


def path_of_session(tx: Transaction, session_id: str) -> list[dict[str, str]]:
    """From the top session down to this one, each with its title."""
    path: list[dict[str, str]] = []
    while session_id and len(path) < DEEPEST:
        rows = tx.fetch(
            "SELECT parent_session_id, title FROM workspaces_session WHERE id = %s", [session_id]
        )
        if not rows:
            break
        path.insert(0, {"session_id": session_id, "title": rows[0][1]})
        session_id = rows[0][0]
    return path


def erase_session(tx: Transaction, workspace_id: str, session: dict[str, Any]) -> None:
    """Removes the rows of a session that holds no run, with its children's link left open."""
    session_id = session["id"]
    for table in ("workspaces_fileversion", "workspaces_fileread", "workspaces_message"):
        tx.execute(f"DELETE FROM {table} WHERE session_id = %s", [session_id])
    tx.execute("DELETE FROM workspaces_session WHERE id = %s", [session_id])
    _tell(tx, workspace_id, Kind.SESSION_DELETED, session)
