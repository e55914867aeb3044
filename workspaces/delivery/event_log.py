"""Reads the log, and the rows with which streams begin. Synchronous: call it through ``read``."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from workspaces.delivery.open_message import LiveMessage
from workspaces.log.attached_data import load_attached
from workspaces.log.errors import WorkspaceUnknown
from workspaces.log.rows import MESSAGE_COLUMNS, message_of_row
from workspaces.log.statements import statements
from workspaces.log.transaction import RecordedEvent
from workspaces.log.types import Kind

PAGE = 1000


@dataclass(frozen=True, slots=True)
class Snapshot:
    last_number: int
    live: dict[int, LiveMessage]


def read_events(workspace_id: str, *, after: int, limit: int = PAGE) -> list[RecordedEvent]:
    """The events that follow a number, in order."""
    with statements() as cursor:
        cursor.execute(
            "SELECT number, kind, session_id, payload, created_at FROM workspaces_event"
            " WHERE workspace_id = %s AND number > %s ORDER BY number LIMIT %s",
            [workspace_id, after, limit],
        )
        return [
            RecordedEvent(
                workspace_id,
                number,
                kind,
                session_id,
                {},
                (
                    load_attached(cursor, payload) if kind == Kind.MESSAGE_CREATED else payload
                ).encode(),
                created_at,
            )
            for number, kind, session_id, payload, created_at in cursor.fetchall()
        ]


def with_payload(event: RecordedEvent) -> RecordedEvent:
    """An event from the log with its payload parsed, for whoever looks into it."""
    return RecordedEvent(
        event.workspace_id,
        event.number,
        event.kind,
        event.session_id,
        orjson.loads(event.payload_json),
        event.payload_json,
        event.created_at,
    )


def read_head(workspace_id: str) -> int:
    """The newest number. Raises ``WorkspaceUnknown``."""
    with statements() as cursor:
        cursor.execute("SELECT last_event FROM workspaces_workspace WHERE id = %s", [workspace_id])
        row = cursor.fetchone()
    if row is None:
        raise WorkspaceUnknown
    return int(row[0])


def read_snapshot(workspace_id: str) -> Snapshot:
    """The newest number, and the open messages as their rows have them."""
    # The head first: a message that starts in between comes again as an event, and one that
    # finishes in between is closed by one.
    head = read_head(workspace_id)
    with statements() as cursor:
        cursor.execute(
            f"SELECT stream_number, {MESSAGE_COLUMNS} FROM workspaces_message"
            " WHERE workspace_id = %s AND is_finished = %s AND stream_number <= %s",
            [workspace_id, False, head],
        )
        rows = cursor.fetchall()
    live = {row[0]: LiveMessage(row[0], message_of_row(row[1:])) for row in rows if row[0]}
    return Snapshot(head, live)


def read_open_message(workspace_id: str, number: int) -> LiveMessage | None:
    """One open message by its stream number, ``None`` when it is open no more."""
    with statements() as cursor:
        cursor.execute(
            f"SELECT {MESSAGE_COLUMNS} FROM workspaces_message"
            " WHERE workspace_id = %s AND is_finished = %s AND stream_number = %s",
            [workspace_id, False, number],
        )
        row = cursor.fetchone()
    return LiveMessage(number, message_of_row(row)) if row is not None else None
