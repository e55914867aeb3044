"""Reading messages as the wire shows them. Synchronous: called through ``read``.

A message's parts are stored in their wire form, so they pass through unparsed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from workspaces.log.attached_data import load_attached
from workspaces.log.parts import Role
from workspaces.log.rows import MESSAGE_COLUMNS, message_wire
from workspaces.log.statements import Statements, statements
from workspaces.queries.sessions import require_session
from workspaces.queries.workspaces import require_open


def list_messages(workspace_id: str, session_id: str) -> list[dict[str, Any]]:
    """In the order in which they were begun. Raises ``SessionUnknown``."""
    require_session(workspace_id, session_id)
    return messages_of_session(session_id)


def list_user_messages(workspace_id: str, session_id: str) -> list[dict[str, Any]]:
    """What was prompted in the session, the newest first. Raises ``SessionUnknown``."""
    require_session(workspace_id, session_id)
    return _messages("session_id = %s AND role = 'user' ORDER BY position DESC", [session_id])


def list_prompted(workspace_id: str) -> list[dict[str, Any]]:
    """What was prompted in the workspace, the newest first."""
    require_open(workspace_id)
    return _messages(
        "workspace_id = %s AND role = 'user' AND NOT EXISTS (SELECT 1 FROM workspaces_session s"
        " WHERE s.id = workspaces_message.session_id AND s.is_deleting = %s) ORDER BY position DESC",
        [workspace_id, True],
    )


def messages_of_session(session_id: str) -> list[dict[str, Any]]:
    return _messages("session_id = %s ORDER BY position", [session_id])


def _messages(where: str, params: Sequence[Any]) -> list[dict[str, Any]]:
    with statements() as cursor:
        cursor.execute(f"SELECT {MESSAGE_COLUMNS} FROM workspaces_message WHERE {where}", params)
        return [_message(cursor, row) for row in cursor.fetchall()]


def _message(cursor: Statements, row: Sequence[Any]) -> dict[str, Any]:
    parts = load_attached(cursor, row[3]) if row[2] == Role.USER else row[3]
    return message_wire(
        id=row[0],
        session_id=row[1],
        role=row[2],
        parts=orjson.Fragment(parts),  # a list, in JSON already
        model=row[4],
        provider=row[5],
        created_at=row[6],
        updated_at=row[7],
        is_summary=row[8],
    )
