"""Forks a session: a new session with copies of its messages up to one of them."""

from __future__ import annotations

from typing import Any

from workspaces.actions.rewinds import earlier_columns, position_before
from workspaces.actions.search_texts import copy_texts
from workspaces.actions.sessions import create_session, read_session
from workspaces.log.ids import new_id
from workspaces.log.transaction import Transaction
from workspaces.log.types import Kind
from workspaces.models import FileRead, Message, Session

# A statement: thousands of messages are copied without passing through this process.
_NEW = {"id", "session_id", "run_key", "stream_number"}
_KEPT = ", ".join(
    str(field.column) for field in Message._meta.concrete_fields if field.column not in _NEW
)
_COPY = (
    f"INSERT INTO workspaces_message (id, session_id, stream_number, {_KEPT})"
    f" SELECT %s, %s, 0, {_KEPT} FROM workspaces_message WHERE id = %s"
)


def fork_session(
    tx: Transaction,
    workspace_id: str,
    session_id: str,
    *,
    message_id: str = "",
    title: str | None = None,
) -> dict[str, Any]:
    """Adds a session that begins as this one was at the message; without one, as it is now.

    A message that is still being written is left out. The copy has used no tokens and cost
    nothing. It may change the files that the original had read, and has changed none itself; child
    sessions stay with the original. Raises ``SessionUnknown`` and ``MessageUnknown``.
    """
    tx.lock(workspace_id)
    read_session(tx, workspace_id, session_id)
    source = Session.objects.get(pk=session_id)
    rows = Message.objects.filter(session=source).order_by("position")
    copied, left_out = rows.filter(is_finished=True), rows.none()
    if message_id:
        last = position_before(session_id, message_id, is_included=True)
        copied, left_out = copied.filter(position__lte=last), rows.filter(position__gt=last)
    new_ids = {old: new_id() for old in copied.values_list("pk", flat=True)}
    columns = _columns(source, left_out.values_list("position", flat=True).first())
    columns["summary_message_id"] = new_ids.get(columns["summary_message_id"], "")
    session = create_session(
        tx,
        workspace_id,
        title=source.title if title is None else title,
        forked_from=source.pk,
        message_count=len(new_ids),
        **columns,
    )
    tx.execute_many(_COPY, [(new, session["id"], old) for old, new in new_ids.items()])
    copy_texts(tx, workspace_id, session["id"], new_ids)
    _copy_reads(source, session["id"], until=_end_of(copied))
    fork = {
        "message_id": next(reversed(new_ids), ""),
        "messages": [[old, new] for old, new in new_ids.items()],
        "session_id": session["id"],
        "source_session_id": source.pk,
    }
    tx.append(workspace_id, Kind.SESSION_FORKED, {"fork": fork}, session_id=session["id"])
    return session


def _columns(source: Session, first_left: int | None) -> dict[str, Any]:
    if first_left is not None:
        return earlier_columns(source, before=first_left)
    names = ("prompt_tokens", "completion_tokens", "context_tokens", "summary_message_id", "todos")
    return {name: getattr(source, name) for name in names}


def _end_of(copied: Any) -> int:
    """Returns when the last copied message ended, in milliseconds."""
    newest = copied.values_list("updated_at", flat=True).last()
    return int(newest or 0)


def _copy_reads(source: Session, session_id: str, *, until: int) -> None:
    reads = FileRead.objects.filter(session=source, read_at__lte=until)
    FileRead.objects.bulk_create(
        FileRead(
            session_id=session_id,
            path=read.path,
            mtime_ns=read.mtime_ns,
            size=read.size,
            read_at=read.read_at,
        )
        for read in reads
    )
