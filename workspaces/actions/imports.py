"""Imports an exported session: all of it, or nothing.

The file is hostile: everything is validated before the first row is written, ids are new, and
nothing in it names an author, a cost or a run.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import orjson

from workspaces.actions.messages import create_message
from workspaces.actions.sessions import append_session, create_session, read_session
from workspaces.log.errors import BadField
from workspaces.log.ids import new_id
from workspaces.log.parts import (
    Binary,
    Finish,
    FinishReason,
    Parts,
    Role,
    ToolCall,
    ToolResult,
    finish_of,
    parts_from_wire,
)
from workspaces.log.transaction import Transaction
from workspaces.models import Session
from workspaces.storable import storable_text

VERSION = 1
MOST_SESSIONS = 500
MOST_MESSAGES = 10_000
MOST_PARTS = 1_000  # of a message
TITLE_CHARS, NAME_CHARS, ID_CHARS = 500, 200, 200
MOST_TODOS = 1_000
_LATEST = 2**40  # seconds


@dataclass(frozen=True, slots=True)
class ImportedMessage:
    id: str  # as in the file
    role: Role
    parts: Parts
    model: str
    provider: str
    is_summary: bool
    created_at: int
    updated_at: int


@dataclass(slots=True)
class ImportedSession:
    id: str  # as in the file
    parent_id: str
    title: str
    todos: list[dict[str, str]]
    summary_message_id: str
    created_at: int
    updated_at: int
    messages: list[ImportedMessage] = field(default_factory=list)


class WrongLine(BadField):
    """A line of the file is not what an export has."""

    code = "wrong_line"

    def __init__(self, number: int, problem: str) -> None:
        super().__init__(f"line {number}: {problem}")


def parse_export(content: bytes) -> list[ImportedSession]:
    """Returns the sessions of a file, the top one first. Raises ``WrongLine``."""
    sessions: dict[str, ImportedSession] = {}
    newest: ImportedSession | None = None
    messages, number, is_ended = 0, 0, False
    for number, value in _values(content):
        if is_ended:
            raise WrongLine(number, "follows the end")
        try:
            match value.get("type"):
                case "session":
                    newest = _session(value, sessions)
                    sessions[newest.id] = newest
                case "message" if newest is not None:
                    newest.messages.append(_message(value.get("message"), newest))
                    messages += 1
                case "end":
                    is_ended = True
                    _compare_counts(value, len(sessions), messages)
                case _:
                    raise ValueError("type: must be session, message or end, in this order")
        except ValueError as error:
            raise WrongLine(number, str(error)) from None
        if messages > MOST_MESSAGES or len(sessions) > MOST_SESSIONS:
            raise WrongLine(
                number, f"at most {MOST_SESSIONS} sessions and {MOST_MESSAGES} messages are allowed"
            )
    if not is_ended:
        raise WrongLine(number + 1, "the file ends before its last line")
    return list(sessions.values())


def import_sessions(
    tx: Transaction, workspace_id: str, sessions: list[ImportedSession]
) -> dict[str, Any]:
    """Adds parsed sessions and their messages; returns the top session."""
    new_ids: dict[str, str] = {}  # of sessions
    message_ids: dict[str, str] = {}
    for session in sessions:
        new_ids[session.id] = _new_session_id(session, message_ids)
        _add(tx, workspace_id, session, new_ids, message_ids)
    return read_session(tx, workspace_id, new_ids[sessions[0].id])


def _new_session_id(session: ImportedSession, message_ids: Mapping[str, str]) -> str:
    """Returns a new id; that of a child session names the message and the call that began it."""
    message_id, separator, call_id = session.id.partition("$$")
    if session.parent_id and separator and message_id in message_ids:
        return f"{message_ids[message_id]}$${call_id}"[:ID_CHARS]
    return new_id()


def _add(
    tx: Transaction,
    workspace_id: str,
    session: ImportedSession,
    new_ids: Mapping[str, str],
    message_ids: dict[str, str],
) -> None:
    session_id = new_ids[session.id]
    create_session(
        tx,
        workspace_id,
        title=session.title,
        session_id=session_id,
        parent_session_id=new_ids.get(session.parent_id, ""),
        todos=session.todos,
    )
    for message in session.messages:
        added = create_message(
            tx,
            workspace_id,
            session_id,
            role=message.role,
            parts=message.parts,
            model=message.model,
            provider=message.provider,
            is_summary=message.is_summary,
            times_ms=(message.created_at * 1000, message.updated_at * 1000),
        )
        message_ids[message.id] = added["id"]
    Session.objects.filter(pk=session_id).update(
        created_at=session.created_at * 1000,
        summary_message_id=message_ids.get(session.summary_message_id, ""),
    )
    append_session(tx, workspace_id, session_id)


# -- lines


def _values(content: bytes) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise WrongLine(number, f"is not JSON: {error}") from None
        if not isinstance(value, dict):
            raise WrongLine(number, "must be an object")
        yield number, value


def _session(value: Mapping[str, Any], known: Mapping[str, ImportedSession]) -> ImportedSession:
    if value.get("version") != VERSION:
        raise ValueError(f"version: must be {VERSION}")
    session = value.get("session")
    if not isinstance(session, dict):
        raise ValueError("session: must be an object")
    session_id = _text(session, "id", limit=ID_CHARS)
    parent_id = _text(session, "parent_session_id", limit=ID_CHARS) if known else ""
    if not session_id or session_id in known:
        raise ValueError("id: must be a new one")
    if known and parent_id not in known:
        raise ValueError("parent_session_id: must be an earlier session of the file")
    return ImportedSession(
        session_id,
        parent_id,
        _text(session, "title", limit=TITLE_CHARS),
        _todos(session.get("todos", [])),
        _text(session, "summary_message_id", limit=ID_CHARS),
        _seconds(session, "created_at"),
        _seconds(session, "updated_at"),
    )


def _message(message: object, session: ImportedSession) -> ImportedMessage:
    if not isinstance(message, dict):
        raise ValueError("message: must be an object")
    if message.get("session_id") != session.id:
        raise ValueError("session_id: must be that of the session before it")
    raw = message.get("parts")
    if not isinstance(raw, list) or len(raw) > MOST_PARTS:
        raise ValueError(f"parts: must be a list of at most {MOST_PARTS}")
    parts = parts_from_wire(raw)
    for part in parts:
        if isinstance(part, (Binary, ToolResult)):
            _require_base64(part.data)
        if isinstance(part, (ToolCall, ToolResult)):
            call_id = part.id if isinstance(part, ToolCall) else part.tool_call_id
            if len(call_id) > ID_CHARS or len(part.name) > NAME_CHARS:
                raise ValueError("parts: an id or a name is too long")
    if finish_of(parts) is None:
        parts = (*parts, Finish(FinishReason.UNKNOWN))
    return ImportedMessage(
        _text(message, "id", limit=ID_CHARS),
        Role(_text(message, "role", limit=20)),
        parts,
        _text(message, "model", limit=NAME_CHARS),
        _text(message, "provider", limit=NAME_CHARS),
        message.get("is_summary_message") is True,
        _seconds(message, "created_at"),
        _seconds(message, "updated_at"),
    )


def _compare_counts(value: Mapping[str, Any], sessions: int, messages: int) -> None:
    if value.get("sessions") != sessions or value.get("messages") != messages or not sessions:
        raise ValueError("the file lacks lines")


def _text(data: Mapping[str, Any], name: str, *, limit: int) -> str:
    value = data.get(name, "")
    if not isinstance(value, str) or len(value) > limit:
        raise ValueError(f"{name}: must be a text of at most {limit} characters")
    return storable_text(value)


def _seconds(data: Mapping[str, Any], name: str) -> int:
    value = data.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _LATEST:
        raise ValueError(f"{name}: must be unix seconds")
    return value


def _todos(value: object) -> list[dict[str, str]]:
    if not isinstance(value, list) or len(value) > MOST_TODOS:
        raise ValueError(f"todos: must be a list of at most {MOST_TODOS}")
    todos = []
    for each in cast("list[object]", value):
        if not isinstance(each, dict):
            raise ValueError("todos: must be objects")
        todo = {name: _text(each, name, limit=2_000) for name in ("content", "active_form")}
        status = _text(each, "status", limit=20)
        if status not in {"pending", "in_progress", "completed"}:
            raise ValueError("todos: status is unknown")
        todos.append({**todo, "status": status})
    return todos


def _require_base64(data: str) -> None:
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("parts: data must be base64") from None
