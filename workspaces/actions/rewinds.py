"""Every write to rewinds: the removal of a session's newest messages, and its undoing.

The removed messages move to a table of their own, so that no other query has to leave them out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from django.db.models import F, Max

from workspaces.actions.search_texts import index_message
from workspaces.actions.sessions import append_session
from workspaces.log.attached_data import load_attached
from workspaces.log.errors import MessageUnknown, RewindOutdated, RewindUnknown, SessionUnknown
from workspaces.log.parts import FinishReason, finish_of, parts_from_wire
from workspaces.log.rows import MESSAGE_COLUMNS, MessageRow, message_wire
from workspaces.log.timestamps import as_seconds
from workspaces.log.transaction import Transaction
from workspaces.log.types import Kind
from workspaces.models import (
    Event,
    FileRead,
    Message,
    RemovedMessage,
    Rewind,
    RewindState,
    SearchText,
    Session,
)

# Statements: thousands of messages move between two tables without passing through this process.
_COLUMNS = ", ".join(str(field.column) for field in Message._meta.concrete_fields)
_REMOVE = (
    f"INSERT INTO workspaces_removedmessage ({_COLUMNS}, rewind_id) SELECT {_COLUMNS}, %s"
    " FROM workspaces_message WHERE session_id = %s AND position BETWEEN %s AND %s"
)
_PUT_BACK = (
    f"INSERT INTO workspaces_message ({_COLUMNS}) SELECT {_COLUMNS}"
    " FROM workspaces_removedmessage WHERE rewind_id = %s"
)
_RESTORABLE = (
    "prompt_tokens",
    "completion_tokens",
    "context_tokens",
    "summary_message_id",
    "todos",
)


def position_before(session_id: str, message_id: str, *, is_included: bool) -> int:
    """Returns the position of the newest message that stays; 0 if none does.

    That is the message itself if it is included, else the one before it. Raises ``MessageUnknown``.
    """
    if not message_id:
        return 0
    rows = Message.objects.filter(session_id=session_id)
    position = rows.filter(pk=message_id).values_list("position", flat=True).first()
    if position is None:
        raise MessageUnknown
    if is_included:
        return position
    newest = rows.filter(position__lt=position).aggregate(Max("position"))
    return int(newest["position__max"] or 0)


def add_rewind(
    tx: Transaction,
    workspace_id: str,
    session_id: str,
    *,
    position: int,
    with_files: bool,
    plan: Sequence[Mapping[str, str]],
    author: Mapping[str, Any] | None,
) -> Rewind:
    """Stores a rewind to the message at this position; ``remove_messages`` completes it."""
    kept = Message.objects.filter(session_id=session_id, position=position)
    return Rewind.objects.create(
        workspace_id=workspace_id,
        session_id=session_id,
        state=RewindState.APPLYING,
        message_id=kept.values_list("pk", flat=True).first() or "",
        first_position=position + 1,
        last_position=tx.next_number(workspace_id) - 1,
        with_files=with_files,
        plan=list(plan),
        author=author,
        began_at=tx.now,
        created_at=tx.now,
    )


def remove_messages(tx: Transaction, row: Rewind, *, files: Sequence[Mapping[str, str]]) -> None:
    """Removes the messages of a rewind, and sets the session back. ``files``: their results."""
    session = Session.objects.filter(pk=row.session_id).first()
    if session is None:
        raise SessionUnknown
    removed = Message.objects.filter(
        session_id=row.session_id, position__range=(row.first_position, row.last_position)
    ).order_by("position")
    message_ids = list(removed.values_list("pk", flat=True))
    first = removed.first()
    row.session_before = {name: getattr(session, name) for name in _RESTORABLE}
    if first is not None:
        limits = [row.session_id, row.first_position, row.last_position]
        tx.execute(_REMOVE, [row.pk, *limits])
        SearchText.objects.filter(
            message_id__in=RemovedMessage.objects.filter(rewind=row).values("pk")
        ).delete()
        tx.execute(
            "DELETE FROM workspaces_message WHERE session_id = %s AND position BETWEEN %s AND %s",
            limits,
        )
        Session.objects.filter(pk=row.session_id).update(
            **earlier_columns(session, before=first.position),
            message_count=F("message_count") - len(message_ids),
            updated_at=tx.now,
        )
        # The conversation no longer contains these files: the model must view them again.
        kept = (
            Message.objects.filter(pk=row.message_id).values_list("updated_at", flat=True).first()
        )
        FileRead.objects.filter(session_id=row.session_id, read_at__gt=kept or 0).delete()
    row.state = RewindState.DONE
    row.files = list(files)
    row.finished_at = tx.now
    row.number = tx.next_number(row.workspace_id)
    row.save()
    _append(tx, Kind.SESSION_REWOUND, row, message_ids)
    append_session(tx, row.workspace_id, row.session_id)


def earlier_columns(session: Session, *, before: int) -> dict[str, Any]:
    """Returns columns as they were before the message with this position, as far as recorded."""
    columns: dict[str, Any] = {
        "prompt_tokens": 0,
        "completion_tokens": 0,
        "context_tokens": 0,  # the next run estimates it
        "summary_message_id": _summary_before(session, before),
    }
    recorded = Event.objects.filter(
        workspace_id=session.workspace_id,
        session_id=session.pk,
        kind__in=[Kind.SESSION_CREATED, Kind.SESSION_UPDATED],
        number__lt=before,
    ).order_by("-number")
    payload = recorded.values_list("payload", flat=True).first()
    if payload is not None:
        earlier = orjson.loads(payload)["session"]
        columns |= {name: earlier.get(name, 0) for name in ("prompt_tokens", "completion_tokens")}
        columns["todos"] = earlier.get("todos", [])
    return columns


def _summary_before(session: Session, position: int) -> str:
    """Returns the newest complete summary before the position, or an empty id."""
    summaries = Message.objects.filter(session=session, is_summary=True, is_finished=True)
    current = summaries.filter(pk=session.summary_message_id, position__lt=position)
    for summary in current or summaries.filter(position__lt=position).order_by("-position"):
        finish = finish_of(parts_from_wire(orjson.loads(summary.parts)))
        if finish is not None and finish.reason not in {FinishReason.CANCELED, FinishReason.ERROR}:
            return summary.pk
    return ""


def require_newest(session_id: str, rewind_id: str) -> Rewind:
    """Returns a rewind that can be undone. Raises ``RewindUnknown`` or ``RewindOutdated``."""
    rewinds = Rewind.objects.filter(session_id=session_id)
    row = rewinds.filter(pk=rewind_id).first()
    if row is None:
        raise RewindUnknown
    has_later = rewinds.filter(state=RewindState.DONE, number__gt=row.number).exists()
    has_messages = Message.objects.filter(session_id=session_id, position__gt=row.number).exists()
    if row.state != RewindState.DONE or has_later or has_messages:
        raise RewindOutdated
    return row


def undoable_rewind(session_id: str) -> str:
    """Returns the id of the rewind for which ``require_newest`` raises nothing; empty if none."""
    rewinds = Rewind.objects.filter(session_id=session_id, state=RewindState.DONE)
    row = rewinds.order_by("-number").first()
    if row is None:
        return ""
    later = Message.objects.filter(session_id=session_id, position__gt=row.number)
    return "" if later.exists() else row.pk


def put_back_messages(tx: Transaction, row: Rewind, *, files: Sequence[Mapping[str, str]]) -> None:
    """Restores the messages of a rewind and the session's columns. ``files``: their results."""
    if not Session.objects.filter(pk=row.session_id).exists():
        raise SessionUnknown
    stored = tx.fetch(
        f"SELECT {MESSAGE_COLUMNS} FROM workspaces_removedmessage WHERE rewind_id = %s"
        " ORDER BY position",
        [row.pk],
    )
    tx.execute(_PUT_BACK, [row.pk])
    RemovedMessage.objects.filter(rewind=row).delete()
    if stored:
        Session.objects.filter(pk=row.session_id).update(
            **row.session_before,
            message_count=F("message_count") + len(stored),
            updated_at=tx.now,
        )
    row.state = RewindState.UNDONE
    row.undone_files = list(files)
    row.finished_at = tx.now
    row.save()
    messages = [MessageRow(*values) for values in stored]
    _append(tx, Kind.SESSION_REWIND_UNDONE, row, [message.id for message in messages])
    for message in messages:
        index_message(tx, row.workspace_id, row.session_id, message.id, orjson.loads(message.parts))
        _append_message(tx, row, message)
    append_session(tx, row.workspace_id, row.session_id)


def _append_message(tx: Transaction, row: Rewind, message: MessageRow) -> None:
    shown = load_attached(tx.cursor, message.parts)
    is_stored_apart = shown is not message.parts
    tx.append(
        row.workspace_id,
        Kind.MESSAGE_CREATED,
        {"message": message_wire(message, orjson.loads(shown))},
        session_id=row.session_id,
        stored={"message": message_wire(message)} if is_stored_apart else None,
    )


def _append(tx: Transaction, kind: Kind, row: Rewind, message_ids: Sequence[str]) -> None:
    payload = {"rewind": {**rewind_wire(row), "message_ids": list(message_ids)}}
    tx.append(row.workspace_id, kind, payload, session_id=row.session_id)


def rewind_wire(row: Rewind) -> dict[str, Any]:
    """Returns a rewind for native clients."""
    return {
        "author": row.author,
        "created_at": as_seconds(row.created_at),
        "files": [_file_wire(entry) for entry in row.files],
        "id": row.pk,
        "message_id": row.message_id,
        "session_id": row.session_id,
        "state": str(row.state),
        "undone_by": row.undone_by,
        "undone_files": [_file_wire(entry) for entry in row.undone_files],
        "with_files": row.with_files,
    }


def _file_wire(entry: Mapping[str, str]) -> dict[str, str]:
    return {name: entry[name] for name in ("path", "result", "reason")}
