"""Every write to messages: added complete, started, checkpointed, finished or updated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import orjson

from workspaces.actions.search_texts import index_message, index_messages
from workspaces.log.attached_data import store_attached
from workspaces.log.ids import new_id
from workspaces.log.parts import Parts, Role, ShellCommand, parts_to_wire
from workspaces.log.rows import (
    INSERT_MESSAGE,
    MESSAGE_COLUMNS,
    MessageRow,
    NewMessage,
    message_wire,
)
from workspaces.log.transaction import Transaction
from workspaces.log.types import Kind

# Statements: each step of a run adds or finishes messages, and each reply writes a checkpoint five
# times a second. By the ORM an update takes 64 µs instead of 8 (docs/where-we-leave-django.md).


def create_message(
    tx: Transaction,
    workspace_id: str,
    session_id: str,
    *,
    role: Role,
    parts: Parts,
    run_key: int | None = None,
    model: str = "",
    provider: str = "",
    is_summary: bool = False,
    author: Mapping[str, Any] | None = None,
    times_ms: tuple[int, int] | None = None,
) -> dict[str, Any]:
    """Adds a complete message. ``author``: who sent it, for a user's message.

    ``times_ms``: when it began and ended, if that is not now.
    """
    return _insert(
        tx,
        workspace_id,
        session_id,
        Kind.MESSAGE_CREATED,
        role=role,
        wire=parts_to_wire(parts),
        run_key=run_key,
        model=model,
        provider=provider,
        is_finished=True,
        is_summary=is_summary,
        author=author,
        times_ms=times_ms,
    )[1]


def start_message(
    tx: Transaction,
    workspace_id: str,
    session_id: str,
    *,
    run_key: int,
    model: str,
    provider: str,
    is_summary: bool = False,
) -> tuple[int, dict[str, Any]]:
    """Starts an assistant's message; returns the number that its deltas refer to."""
    return _insert(
        tx,
        workspace_id,
        session_id,
        Kind.MESSAGE_STARTED,
        role=Role.ASSISTANT,
        wire=[],
        run_key=run_key,
        model=model,
        provider=provider,
        is_finished=False,
        is_summary=is_summary,
    )


def _insert(
    tx: Transaction,
    workspace_id: str,
    session_id: str,
    kind: Kind,
    *,
    role: Role,
    wire: list[dict[str, Any]],
    run_key: int | None,
    model: str,
    provider: str,
    is_finished: bool,
    is_summary: bool,
    author: Mapping[str, Any] | None = None,
    times_ms: tuple[int, int] | None = None,
) -> tuple[int, dict[str, Any]]:
    row, stored = _new_row(
        tx,
        workspace_id,
        session_id,
        role=role,
        wire=wire,
        run_key=run_key,
        model=model,
        provider=provider,
        is_finished=is_finished,
        is_summary=is_summary,
        author=author,
        times_ms=times_ms,
    )
    tx.execute(INSERT_MESSAGE, row)
    if is_finished:
        index_message(tx, workspace_id, session_id, row.id, wire)
    _count(tx, session_id, 1)
    return _append(tx, kind, row, wire, stored)


def _new_row(
    tx: Transaction,
    workspace_id: str,
    session_id: str,
    *,
    role: Role,
    wire: list[dict[str, Any]],
    run_key: int | None,
    model: str = "",
    provider: str = "",
    is_finished: bool = True,
    is_summary: bool = False,
    author: Mapping[str, Any] | None = None,
    times_ms: tuple[int, int] | None = None,
) -> tuple[NewMessage, list[Mapping[str, Any]]]:
    """Returns the row of a new message, and its parts with references to attached data."""
    created_at, updated_at = times_ms or (tx.now, tx.now)
    number = tx.next_number(workspace_id)
    stored = store_attached(tx.cursor, workspace_id, wire, now=tx.now)
    row = NewMessage(
        id=new_id(),
        workspace_id=workspace_id,
        session_id=session_id,
        position=number,
        stream_number=0 if is_finished else number,
        role=role.value,
        parts=orjson.dumps(stored).decode(),
        model=model,
        provider=provider,
        is_finished=is_finished,
        is_summary=is_summary,
        run_key=run_key,
        created_at=created_at,
        updated_at=updated_at,
        author=None if author is None else orjson.dumps(author).decode(),
    )
    return row, stored


def _count(tx: Transaction, session_id: str, count: int) -> None:
    tx.execute(
        "UPDATE workspaces_session SET message_count = message_count + %s, updated_at = %s"
        " WHERE id = %s",
        [count, tx.now, session_id],
    )


def _append(
    tx: Transaction,
    kind: Kind,
    row: NewMessage,
    wire: list[dict[str, Any]],
    stored: list[Mapping[str, Any]],
) -> tuple[int, dict[str, Any]]:
    message = message_wire(row, wire)
    number = tx.append(
        row.workspace_id,
        kind,
        {"message": message},
        session_id=row.session_id,
        stored=None if stored == wire else {"message": {**message, "parts": stored}},
    )
    return number, message


class NewMessages:
    """Adds many complete messages to a session: an event for each one, and few statements for all.

    ``store`` must follow in the same transaction.
    """

    def __init__(self, tx: Transaction, workspace_id: str, session_id: str) -> None:
        self._tx = tx
        self._workspace_id = workspace_id
        self._session_id = session_id
        self._rows: list[NewMessage] = []
        self._wires: dict[str, list[dict[str, Any]]] = {}  # by id

    def add(
        self, role: Role, parts: Parts, *, run_key: int, author: Mapping[str, Any] | None = None
    ) -> str:
        """Appends the message's event, and returns the message's id."""
        wire = parts_to_wire(parts)
        row, stored = _new_row(
            self._tx,
            self._workspace_id,
            self._session_id,
            role=role,
            wire=wire,
            run_key=run_key,
            author=author,
        )
        _append(self._tx, Kind.MESSAGE_CREATED, row, wire, stored)
        self._rows.append(row)
        self._wires[row.id] = wire
        return row.id

    def store(self) -> None:
        if not self._rows:
            return
        self._tx.execute_many(INSERT_MESSAGE, self._rows)
        index_messages(self._tx, self._workspace_id, self._session_id, self._wires)
        _count(self._tx, self._session_id, len(self._rows))


def start_command_message(
    tx: Transaction, workspace_id: str, session_id: str, *, command: ShellCommand
) -> dict[str, Any]:
    """Starts a user's message for a command; it is finished with the command's output."""
    return _insert(
        tx,
        workspace_id,
        session_id,
        Kind.MESSAGE_STARTED,
        role=Role.USER,
        wire=parts_to_wire((command,)),
        run_key=None,
        model="",
        provider="",
        is_finished=False,
        is_summary=False,
    )[1]


def checkpoint_message(tx: Transaction, message_id: str, *, parts: Parts) -> None:
    """Stores a checkpoint of the parts, without an event: readers have the deltas."""
    tx.execute(
        "UPDATE workspaces_message SET parts = %s, updated_at = %s"
        " WHERE id = %s AND is_finished = %s",
        [orjson.dumps(parts_to_wire(parts)).decode(), tx.now, message_id, False],
    )


def restart_message(
    tx: Transaction,
    workspace_id: str,
    message_id: str,
    *,
    retry: Mapping[str, Any],
    served_by: tuple[str, str] | None = None,
) -> tuple[int, dict[str, Any]]:
    """Clears an open message for a retry; returns its new stream number and the message.

    ``retry`` contains the reason and the time of the next request to the model. ``served_by``:
    the model and its provider, if another one may write the message now.
    """
    number = tx.next_number(workspace_id)
    more = ", model = %s, provider = %s" if served_by else ""
    message = _change(
        tx,
        workspace_id,
        message_id,
        Kind.MESSAGE_RESTARTED,
        f"parts = '[]', stream_number = %s{more}",
        [number, *(served_by or ())],
        more={"retry": retry},
    )
    return number, message


_FINISH = "parts = %s, is_finished = %s, stream_number = 0"


def finish_message(
    tx: Transaction, workspace_id: str, message_id: str, *, parts: Parts
) -> dict[str, Any]:
    """Finishes an open message."""
    return _write(tx, workspace_id, message_id, Kind.MESSAGE_FINISHED, parts)


def finish_begun_message(
    tx: Transaction, workspace_id: str, begun: Mapping[str, Any], *, parts: Parts
) -> None:
    """Finishes the message that ``start_message`` or ``restart_message`` has returned.

    Only its caller may write it meanwhile. It need not be read again: a round trip less.
    """
    wire = parts_to_wire(parts)
    tx.execute(
        f"UPDATE workspaces_message SET {_FINISH}, updated_at = %s WHERE id = %s",
        [orjson.dumps(wire).decode(), True, tx.now, begun["id"]],
    )
    session_id = begun["session_id"]
    message = {**begun, "parts": wire, "updated_at": tx.now // 1000}
    tx.append(workspace_id, Kind.MESSAGE_FINISHED, {"message": message}, session_id=session_id)
    index_message(tx, workspace_id, session_id, begun["id"], wire)


def change_message(
    tx: Transaction, workspace_id: str, message_id: str, *, parts: Parts
) -> dict[str, Any]:
    """Replaces the parts of a finished message."""
    return _write(tx, workspace_id, message_id, Kind.MESSAGE_UPDATED, parts)


def _write(
    tx: Transaction, workspace_id: str, message_id: str, kind: Kind, parts: Parts
) -> dict[str, Any]:
    wire = parts_to_wire(parts)
    message = _change(
        tx,
        workspace_id,
        message_id,
        kind,
        _FINISH,
        [orjson.dumps(wire).decode(), True],
    )
    index_message(tx, workspace_id, message["session_id"], message_id, wire)
    return message


def _change(
    tx: Transaction,
    workspace_id: str,
    message_id: str,
    kind: Kind,
    columns: str,
    values: Sequence[Any],
    *,
    more: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """Sets the columns (constant SQL of the caller) and appends an event with the message."""
    (row,) = tx.fetch(
        f"UPDATE workspaces_message SET {columns}, updated_at = %s WHERE id = %s"
        f" RETURNING {MESSAGE_COLUMNS}",
        [*values, tx.now, message_id],
    )
    message = message_wire(MessageRow(*row))
    tx.append(workspace_id, kind, {"message": message, **more}, session_id=message["session_id"])
    return message
