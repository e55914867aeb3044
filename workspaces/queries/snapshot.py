"""Reads a workspace's state with the number of the event at which it is true.

Applying the events after that number gives every later state. Synchronous: call it through
``read``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import orjson
from django.db import connection

from workspaces.log.rows import SESSION_COLUMNS, SessionRow, session_wire, without_empty
from workspaces.log.statements import statements
from workspaces.log.timestamps import now_ms
from workspaces.log.types import Kind
from workspaces.queries.messages import page_of_messages
from workspaces.queries.sessions import require_session
from workspaces.queries.workspaces import read_open_workspace

MESSAGES = 200  # of a session, unless the client requests another number
MOST_MESSAGES = 1_000

# Reads fields of a workspace's snapshot that another app owns.
ReadMore = Callable[[str], Mapping[str, Any]]


def read_workspace_snapshot(
    workspace_id: str,
    *,
    session_id: str = "",
    limit: int = MESSAGES,
    more: Iterable[ReadMore] = (),
) -> dict[str, Any]:
    """Returns all sessions, the newest messages of one, and the fields that ``more`` reads.

    All reads share one transaction. Raises ``WorkspaceUnknown``, ``SessionUnknown``.
    """
    with _one_moment():
        workspace = read_open_workspace(workspace_id)
        snapshot: dict[str, Any] = {
            "number": workspace.last_event,
            "workspace": {
                "id": workspace.id,
                "path": workspace.path,
                "skip_permissions": workspace.skip_permissions,
                "permission_mode": workspace.permission_mode,
            },
            "sessions": _sessions(workspace_id),
        }
        if session_id:
            require_session(workspace_id, session_id)
            page = page_of_messages(session_id, limit=limit)
            snapshot["messages"] = page.messages
            snapshot["has_earlier_messages"] = page.has_earlier
            snapshot["retries"] = _retries(workspace_id, session_id)
        for read_more in more:
            snapshot |= read_more(workspace_id)
    return snapshot


def _sessions(workspace_id: str) -> list[dict[str, Any]]:
    # A statement, as in ``queries.sessions``. Includes sessions whose deletion waits for a run: the log has no event for it yet.
    with statements() as cursor:
        cursor.execute(
            f"SELECT {SESSION_COLUMNS} FROM workspaces_session WHERE workspace_id = %s"
            " ORDER BY created_at, id",
            [workspace_id],
        )
        return [without_empty(session_wire(SessionRow(*row))) for row in cursor.fetchall()]


def _retries(workspace_id: str, session_id: str) -> list[dict[str, Any]]:
    """The open replies of a session that are requested again, as their events have it.

    ``delay_seconds`` is what remains of the pause.
    """
    with statements() as cursor:
        cursor.execute(
            "SELECT m.id, e.payload, e.created_at FROM workspaces_message m"
            " JOIN workspaces_event e"
            " ON e.workspace_id = m.workspace_id AND e.number = m.stream_number"
            " WHERE m.workspace_id = %s AND NOT m.is_finished AND m.session_id = %s"
            f" AND e.kind = '{Kind.MESSAGE_RESTARTED}'",
            [workspace_id, session_id],
        )
        found = [(key, orjson.loads(payload), at) for key, payload, at in cursor.fetchall()]
    now = now_ms()
    return [
        retry | {"message_id": key, "delay_seconds": _remaining(retry["delay_seconds"], now - at)}
        for key, payload, at in found
        if (retry := payload.get("retry"))
    ]


def _remaining(seconds: float, elapsed_ms: int) -> float:
    return round(min(seconds, max(0.0, seconds - elapsed_ms / 1000)), 1)


_BEGIN = {
    # Statements, not ``atomic``: on SQLite it uses IMMEDIATE, which would block the writer.
    "sqlite": "BEGIN DEFERRED",
    "postgresql": "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
}


@contextmanager
def _one_moment() -> Iterator[None]:
    """Opens the transaction. Use it only in a reading thread, with no other one open."""
    with connection.cursor() as cursor:
        cursor.execute(_BEGIN[connection.vendor])
        try:
            yield
        finally:
            cursor.execute("ROLLBACK")
