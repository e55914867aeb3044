"""Reads messages in their wire form. Synchronous: call it through ``read``.

A message's parts are stored in their wire form, so they pass through unparsed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from workspaces.log.attached_data import load_attached
from workspaces.log.errors import MessageUnknown
from workspaces.log.parts import Role
from workspaces.log.rows import MESSAGE_COLUMNS, MessageRow, message_wire
from workspaces.log.statements import Statements, statements
from workspaces.models import Message
from workspaces.queries.sessions import require_session
from workspaces.queries.workspaces import require_open

# A statement: a conversation has thousands of rows, whose parts pass unparsed. By the ORM even one
# row takes 194 µs instead of 11 (docs/where-we-leave-django.md).


def list_messages(workspace_id: str, session_id: str) -> list[dict[str, Any]]:
    """Returns a session's messages by their start. Raises ``SessionUnknown``."""
    require_session(workspace_id, session_id)
    return _messages("session_id = %s ORDER BY position", [session_id])


def list_user_messages(workspace_id: str, session_id: str) -> list[dict[str, Any]]:
    """Returns a session's prompts, newest first. Raises ``SessionUnknown``."""
    require_session(workspace_id, session_id)
    return _messages("session_id = %s AND role = 'user' ORDER BY position DESC", [session_id])


def list_prompted(workspace_id: str) -> list[dict[str, Any]]:
    """Returns a workspace's prompts, newest first."""
    require_open(workspace_id)
    return _messages(
        "workspace_id = %s AND role = 'user' AND NOT EXISTS (SELECT 1 FROM workspaces_session s"
        " WHERE s.id = workspaces_message.session_id AND s.is_deleting = %s) ORDER BY position DESC",
        [workspace_id, True],
    )


@dataclass(frozen=True, slots=True)
class MessagePage:
    """Messages in their order, and whether there are others on both sides."""

    messages: list[dict[str, Any]]
    has_earlier: bool
    has_later: bool


def page_of_messages(
    session_id: str, *, limit: int, before: str = "", after: str = ""
) -> MessagePage:
    """Returns messages before or after one of them; without one, the newest.

    Raises ``MessageUnknown``.
    """
    if after:
        condition, params = "AND position > %s ORDER BY position", [_position(session_id, after)]
    elif before:
        condition = "AND position < %s ORDER BY position DESC"
        params = [_position(session_id, before)]
    else:
        condition, params = "ORDER BY position DESC", []
    found = _messages(f"session_id = %s {condition} LIMIT %s", [session_id, *params, limit + 1])
    has_more, found = len(found) > limit, found[:limit]
    if after:
        return MessagePage(found, has_earlier=True, has_later=has_more)
    return MessagePage(found[::-1], has_earlier=has_more, has_later=bool(before))


def _position(session_id: str, message_id: str) -> int:
    rows = Message.objects.filter(pk=message_id, session_id=session_id)
    position = rows.values_list("position", flat=True).first()
    if position is None:
        raise MessageUnknown
    return position


def _messages(where: str, params: Sequence[Any]) -> list[dict[str, Any]]:
    with statements() as cursor:
        cursor.execute(f"SELECT {MESSAGE_COLUMNS} FROM workspaces_message WHERE {where}", params)
        return [_message(cursor, MessageRow(*row)) for row in cursor.fetchall()]


def _message(cursor: Statements, row: MessageRow) -> dict[str, Any]:
    parts = load_attached(cursor, row.parts) if row.role == Role.USER else row.parts
    return message_wire(row, orjson.Fragment(parts))  # already JSON
