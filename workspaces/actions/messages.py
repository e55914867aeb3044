"""Every write to messages: born whole, started and finished, or checkpointed in between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import orjson

from workspaces.log.attached_data import store_attached
from workspaces.log.ids import new_id
from workspaces.log.parts import Parts, Role, ShellCommand, parts_to_wire
from workspaces.log.rows import MESSAGE_COLUMNS, message_of_row, message_wire
from workspaces.log.transaction import Transaction
from workspaces.log.types import Kind


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
) -> dict[str, Any]:
    """Adds a message that is whole already."""
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
    """Opens an assistant's message; returns the number that names it in deltas."""
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
) -> tuple[int, dict[str, Any]]:
    number = tx.next_number(workspace_id)
    message_id = new_id()
    stored = store_attached(tx.cursor, workspace_id, wire, now=tx.now)
    tx.execute(
        "INSERT INTO workspaces_message (id, workspace_id, session_id, position, stream_number,"
        " role, parts, model, provider, is_finished, is_summary, run_key, created_at, updated_at)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
        [
            message_id,
            workspace_id,
            session_id,
            number,
            0 if is_finished else number,
            role.value,
            orjson.dumps(stored).decode(),
            model,
            provider,
            is_finished,
            is_summary,
            run_key,
            tx.now,
            tx.now,
        ],
    )
    tx.execute(
        "UPDATE workspaces_session SET message_count = message_count + 1, updated_at = %s"
        " WHERE id = %s",
        [tx.now, session_id],
    )
    message = message_wire(
        id=message_id,
        session_id=session_id,
        role=role.value,
        parts=wire,
        model=model,
        provider=provider,
        created_at=tx.now,
        updated_at=tx.now,
        is_summary=is_summary,
    )
    number = tx.append(
        workspace_id,
        kind,
        {"message": message},
        session_id=session_id,
        stored=None if stored == wire else {"message": {**message, "parts": stored}},
    )
    return number, message


def start_command_message(
    tx: Transaction, workspace_id: str, session_id: str, *, command: ShellCommand
) -> dict[str, Any]:
    """Opens a user's message for a command that begins; it is finished with what it printed."""
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
    """Saves the words so far. No event: readers have had them as deltas."""
    tx.execute(
        "UPDATE workspaces_message SET parts = %s, updated_at = %s"
        " WHERE id = %s AND is_finished = %s",
        [orjson.dumps(parts_to_wire(parts)).decode(), tx.now, message_id, False],
    )


def restart_message(
    tx: Transaction, workspace_id: str, message_id: str, *, retry: Mapping[str, Any]
) -> int:
    """Forgets what an open message has said; returns its new stream number.

    ``retry`` tells readers why, and when the model is asked again.
    """
    number = tx.next_number(workspace_id)
    _change(
        tx,
        workspace_id,
        message_id,
        Kind.MESSAGE_RESTARTED,
        "parts = '[]', stream_number = %s",
        [number],
        more={"retry": retry},
    )
    return number


def finish_message(
    tx: Transaction, workspace_id: str, message_id: str, *, parts: Parts
) -> dict[str, Any]:
    """Writes an open message whole."""
    return _write(tx, workspace_id, message_id, Kind.MESSAGE_FINISHED, parts)


def change_message(
    tx: Transaction, workspace_id: str, message_id: str, *, parts: Parts
) -> dict[str, Any]:
    """Replaces the parts of a message that was finished before."""
    return _write(tx, workspace_id, message_id, Kind.MESSAGE_UPDATED, parts)


def _write(
    tx: Transaction, workspace_id: str, message_id: str, kind: Kind, parts: Parts
) -> dict[str, Any]:
    return _change(
        tx,
        workspace_id,
        message_id,
        kind,
        "parts = %s, is_finished = %s, stream_number = 0",
        [orjson.dumps(parts_to_wire(parts)).decode(), True],
    )


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
    """Sets the columns, a constant of the caller, and tells of the message as it is then."""
    (row,) = tx.fetch(
        f"UPDATE workspaces_message SET {columns}, updated_at = %s WHERE id = %s"
        f" RETURNING {MESSAGE_COLUMNS}",
        [*values, tx.now, message_id],
    )
    message = message_of_row(row)
    tx.append(workspace_id, kind, {"message": message, **more}, session_id=message["session_id"])
    return message
