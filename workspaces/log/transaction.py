"""A transaction: one atomic change, passed to a job while the writer runs it.

Assigns the event numbers. A job that changes a workspace first locks that workspace's row (on
PostgreSQL; SQLite has one writer anyway), so all changes of a workspace happen one after another,
the order of the log is the order of the commits, and numbers have no gaps. Independent of
loops and subscribers: the writer publishes the events after the commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from workspaces.log.errors import WorkspaceUnknown
from workspaces.log.statements import (
    Rows,
    Statements,
    execute_soon,
    fetch_soon,
    send_waiting,
)
from workspaces.log.timestamps import now_ms


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """An event of the log."""

    workspace_id: str
    number: int
    kind: str
    session_id: str
    payload: Mapping[str, Any]
    payload_json: bytes
    created_at: int
    stored_json: bytes | None = None  # if the row contains references to attached data


# Statements: every write passes here. An event costs 102 µs, and 14 with others in its commit; by the
# ORM 590 (docs/where-we-leave-django.md).
# Reads the transaction id together with the row that is locked: no further round trip.
_LOCK_POSTGRESQL = (
    "SELECT last_event, pg_current_xact_id()::text FROM workspaces_workspace WHERE id = %s"
    " FOR UPDATE"
)
_COLUMNS = "workspace_id, number, kind, session_id, payload, created_at"
_INSERT = f"INSERT INTO workspaces_event ({_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s)"
# One statement for all events of a commit, prepared once for every number of them.
_INSERT_TOGETHER = (
    f"INSERT INTO workspaces_event ({_COLUMNS}) SELECT * FROM unnest(%s::varchar[], %s::bigint[],"
    " %s::varchar[], %s::varchar[], %s::text[], %s::bigint[])"
)
# SQLite has one writer, and its COMMIT fails or succeeds in this process.
_LOCK_SQLITE = "SELECT last_event, NULL FROM workspaces_workspace WHERE id = %s"


class Counters:
    """Event numbers of the workspaces that a batch has locked, and its transaction's id."""

    def __init__(self, vendor: str) -> None:
        self.is_postgresql = vendor == "postgresql"
        self.last: dict[str, int] = {}
        self.transaction_id: str | None = None  # PostgreSQL's, once it is known
        self._locking: dict[str, Rows] = {}

    def lock(self, cursor: Statements, workspace_id: str) -> None:
        """Locks the workspace together with the next statement, before that is run."""
        if workspace_id not in self.last and workspace_id not in self._locking:
            sql = _LOCK_POSTGRESQL if self.is_postgresql else _LOCK_SQLITE
            self._locking[workspace_id] = fetch_soon(cursor, sql, [workspace_id])
            if not self.is_postgresql:
                self.settle(cursor)

    def settle(self, cursor: Statements) -> None:
        """Returns when all workspaces are locked. Raises ``WorkspaceUnknown``."""
        if not self._locking:
            return
        send_waiting(cursor)
        locking, self._locking = self._locking, {}
        for workspace_id, rows in locking.items():
            if not rows:
                raise WorkspaceUnknown
            ((self.last[workspace_id], self.transaction_id),) = rows

    def next_number(self, cursor: Statements, workspace_id: str) -> int:
        self.lock(cursor, workspace_id)
        self.settle(cursor)
        return self.last[workspace_id] + 1


class Transaction:
    """The open transaction of a job; valid until the job returns."""

    def __init__(self, cursor: Statements, counters: Counters) -> None:
        self.cursor = cursor
        self.now = now_ms()
        self.recorded: list[RecordedEvent] = []
        self._counters = counters

    def lock(self, workspace_id: str) -> None:
        """Locks the workspace until the end of the batch. Raises ``WorkspaceUnknown``."""
        self._counters.lock(self.cursor, workspace_id)
        self._counters.settle(self.cursor)

    def next_number(self, workspace_id: str) -> int:
        """Returns the number of the next event, for rows that are ordered by it."""
        return self._counters.next_number(self.cursor, workspace_id)

    def append(
        self,
        workspace_id: str,
        kind: str,
        payload: Mapping[str, Any],
        *,
        session_id: str = "",
        stored: Mapping[str, Any] | None = None,
    ) -> int:
        """Adds an event to the workspace's log and returns its number.

        ``stored``: the payload for the row, with references to attached data.
        """
        number = self.next_number(workspace_id)
        self._counters.last[workspace_id] = number
        self.recorded.append(
            RecordedEvent(
                workspace_id,
                number,
                kind,
                session_id,
                payload,
                orjson.dumps(payload),
                self.now,
                None if stored is None else orjson.dumps(stored),
            )
        )
        return number

    def execute(self, sql: str, params: Sequence[Any]) -> None:
        """Runs a statement, perhaps together with the next one: an error may come only then."""
        execute_soon(self.cursor, sql, params)

    def execute_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Runs a statement for each row, perhaps together with the next statement."""
        for row in rows:
            execute_soon(self.cursor, sql, row)

    def change(self, sql: str, params: Sequence[Any]) -> int:
        """Runs a statement and returns the number of affected rows."""
        self.cursor.execute(sql, params)
        self._counters.settle(self.cursor)
        return int(self.cursor.rowcount)

    def fetch(self, sql: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
        self.cursor.execute(sql, params)
        self._counters.settle(self.cursor)
        return list(self.cursor.fetchall())

    def fetch_soon(self, sql: str, params: Sequence[Any]) -> Rows:
        """Runs a statement together with the next one, and returns a list that has its rows then."""
        return fetch_soon(self.cursor, sql, params)


def _stored(event: RecordedEvent) -> str:
    return (event.payload_json if event.stored_json is None else event.stored_json).decode()


def store_events(cursor: Statements, recorded: Sequence[RecordedEvent], counters: Counters) -> None:
    """Writes a batch's events and counters, just before its commit."""
    if not recorded:
        return
    rows = [
        (e.workspace_id, e.number, e.kind, e.session_id, _stored(e), e.created_at) for e in recorded
    ]
    if counters.is_postgresql:
        execute_soon(cursor, _INSERT_TOGETHER, [list(column) for column in zip(*rows, strict=True)])
    else:
        cursor.executemany(_INSERT, rows)
    newest = {event.workspace_id: event.number for event in recorded}
    for workspace_id, number in newest.items():
        execute_soon(
            cursor,
            "UPDATE workspaces_workspace SET last_event = %s WHERE id = %s",
            [number, workspace_id],
        )
