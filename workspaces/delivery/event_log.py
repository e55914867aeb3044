"""Reads the log, and the rows that streams start from. Synchronous: call it through ``read``."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from workspaces.delivery.open_message import LiveMessage
from workspaces.log.attached_data import load_attached
from workspaces.log.errors import WorkspaceUnknown
from workspaces.log.rows import MESSAGE_COLUMNS, MessageRow, message_wire
from workspaces.log.statements import statements
from workspaces.log.transaction import RecordedEvent
from workspaces.log.types import Kind
from workspaces.models import Workspace

PAGE = 1000

# Statements: a reader that resumes reads up to a thousand events at once, and bytes go from the row
# to the stream unparsed. By the ORM even one row takes 194 µs instead of 11
# (docs/where-we-leave-django.md).


@dataclass(frozen=True, slots=True)
class Snapshot:
    last_number: int
    live: dict[int, LiveMessage]


def read_events(workspace_id: str, *, after: int, limit: int = PAGE) -> list[RecordedEvent]:
    """Returns the events after a number, in order."""
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
    """Returns an event of the log with its payload parsed."""
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
    """Returns the newest event's number. Raises ``WorkspaceUnknown``."""
    with statements() as cursor:
        cursor.execute("SELECT last_event FROM workspaces_workspace WHERE id = %s", [workspace_id])
        row = cursor.fetchone()
    if row is None:
        raise WorkspaceUnknown
    (number,) = row
    return int(number)


def read_oldest(workspace_id: str) -> int:
    """Returns the oldest number that the log keeps. Raises ``WorkspaceUnknown``."""
    found = Workspace.objects.filter(pk=workspace_id).values_list("first_event", flat=True).first()
    if found is None:
        raise WorkspaceUnknown
    return found


def read_snapshot(workspace_id: str) -> Snapshot:
    """Returns the newest event's number, and the open messages from their rows."""
    # The number first: a message that starts between the two reads arrives again as an event,
    # and one that finishes between them is closed by an event.
    head = read_head(workspace_id)
    with statements() as cursor:
        cursor.execute(
            f"SELECT stream_number, {MESSAGE_COLUMNS} FROM workspaces_message"
            " WHERE workspace_id = %s AND is_finished = %s AND stream_number <= %s",
            [workspace_id, False, head],
        )
        rows = cursor.fetchall()
    live = {
        number: LiveMessage(number, message_wire(MessageRow(*columns)))
        for number, *columns in rows
        if number
    }
    return Snapshot(head, live)


def read_open_message(workspace_id: str, number: int) -> LiveMessage | None:
    """Returns an open message by its stream number, or ``None`` if it has closed."""
    return read_open_messages([(workspace_id, number)]).get((workspace_id, number))


def read_open_messages(wanted: Sequence[tuple[str, int]]) -> dict[tuple[str, int], LiveMessage]:
    """Returns open messages by their workspace and stream number; none that has closed."""
    marks = ", ".join(["(%s, %s)"] * len(wanted))
    with statements() as cursor:
        cursor.execute(
            f"SELECT workspace_id, stream_number, {MESSAGE_COLUMNS} FROM workspaces_message"
            f" WHERE (workspace_id, stream_number) IN (VALUES {marks}) AND is_finished = %s",
            [*itertools.chain.from_iterable(wanted), False],
        )
        rows = cursor.fetchall()
    return {
        (workspace_id, number): LiveMessage(number, message_wire(MessageRow(*columns)))
        for workspace_id, number, *columns in rows
    }
