"""Every write to sessions. Each function is part of a job and gets the open transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from workspaces.log.errors import SessionUnknown
from workspaces.log.ids import new_id
from workspaces.log.rows import (
    INSERT_SESSION,
    SESSION_COLUMNS,
    NewSession,
    SessionRow,
    session_wire,
    without_empty,
)
from workspaces.log.transaction import Transaction
from workspaces.log.types import Kind
from workspaces.models import (
    FileRead,
    FileVersion,
    Message,
    RemovedMessage,
    Rewind,
    SearchText,
    Session,
)

DEEPEST = 16  # levels of child sessions
LARGEST_TREE = 10_000  # sessions

# Statements: reading sessions and adding to their totals, several times in each turn. By the ORM
# one takes 194 µs instead of 11, and the other 64 instead of 8. Programs and sub-agents add a session
# for each prompt, which takes 173 µs instead of 22 (docs/where-we-leave-django.md).


def create_session(
    tx: Transaction,
    workspace_id: str,
    *,
    title: str,
    session_id: str = "",
    parent_session_id: str = "",
    todos: Sequence[Mapping[str, str]] = (),
    **columns: Any,
) -> dict[str, Any]:
    """Adds a session and its event. The caller chooses the id of a child session.

    ``columns``: those of a session that does not begin empty.
    """
    row = NewSession(
        id=session_id or new_id(),
        workspace_id=workspace_id,
        parent_session_id=parent_session_id,
        title=title,
        created_at=tx.now,
        updated_at=tx.now,
        todos=orjson.dumps(list(todos)).decode() if todos else "[]",
        **columns,
    )
    (added,) = tx.fetch(INSERT_SESSION, row)
    session = session_wire(SessionRow(*added))
    _append(tx, workspace_id, Kind.SESSION_CREATED, session)
    return session


def read_session(tx: Transaction, workspace_id: str, session_id: str) -> dict[str, Any]:
    """Returns the session in its native form. Raises ``SessionUnknown``."""
    rows = tx.fetch(
        f"SELECT {SESSION_COLUMNS} FROM workspaces_session"
        " WHERE id = %s AND workspace_id = %s AND is_deleting = %s",
        [session_id, workspace_id, False],
    )
    if not rows:
        raise SessionUnknown
    return session_wire(SessionRow(*rows[0]))


def append_session(tx: Transaction, workspace_id: str, session_id: str) -> dict[str, Any] | None:
    """Appends an event with the session's state, unless the session is being deleted."""
    try:
        session = read_session(tx, workspace_id, session_id)
    except SessionUnknown:
        return None
    _append(tx, workspace_id, Kind.SESSION_UPDATED, session)
    return session


def store_work(
    tx: Transaction,
    workspace_id: str,
    session_id: str,
    *,
    is_busy: bool,
    last_accept: int | None = None,
    is_announced: bool = True,
) -> dict[str, Any] | None:
    """Stores that a session has work, or none, and appends its event.

    Returns the session, or ``None`` if it is being deleted.
    """
    # One statement, and not a second one to read the session: each run needs it twice.
    rows = tx.fetch(
        "UPDATE workspaces_session SET is_busy = %s, last_accept = COALESCE(%s, last_accept),"
        f" updated_at = %s WHERE id = %s RETURNING is_deleting, {SESSION_COLUMNS}",
        [is_busy, last_accept, tx.now, session_id],
    )
    if not rows or rows[0][0]:
        return None
    session = session_wire(SessionRow(*rows[0][1:]))
    if is_announced:
        _append(tx, workspace_id, Kind.SESSION_UPDATED, session)
    return session


def _append(tx: Transaction, workspace_id: str, kind: Kind, session: dict[str, Any]) -> None:
    payload = {"session": without_empty(session)}
    tx.append(workspace_id, kind, payload, session_id=session["id"])


def mark_session(
    tx: Transaction,
    workspace_id: str,
    session_id: str,
    *,
    is_pinned: bool | None = None,
    is_archived: bool | None = None,
) -> dict[str, Any]:
    """Pins or archives the session, or ends that; ``None`` keeps it. Raises ``SessionUnknown``.

    Unlike a new title it leaves ``updated_at``: the session keeps its place in the lists.
    """
    before = read_session(tx, workspace_id, session_id)
    columns: dict[str, int | None] = {}
    if is_pinned is not None and is_pinned != bool(before["pinned_at"]):
        columns["pinned_at"] = tx.now if is_pinned else None
    if is_archived is not None and is_archived != bool(before["archived_at"]):
        columns["archived_at"] = tx.now if is_archived else None
    if not columns:
        return before
    Session.objects.filter(pk=session_id).update(**columns)
    return append_session(tx, workspace_id, session_id) or before


def rename_session(
    tx: Transaction, workspace_id: str, session_id: str, *, title: str
) -> dict[str, Any]:
    """Changes the title. Raises ``SessionUnknown``."""
    read_session(tx, workspace_id, session_id)
    Session.objects.filter(pk=session_id).update(title=title, updated_at=tx.now)
    session = append_session(tx, workspace_id, session_id)
    if session is None:
        raise SessionUnknown
    return session


def add_usage(
    tx: Transaction,
    session_id: str,
    *,
    prompt_tokens: int = 0,
    completion_tokens: int = 0,
    cost: float = 0.0,
    is_newest: bool = False,
    context_tokens: int | None = None,
    summary_message_id: str | None = None,
) -> None:
    """Adds a model request to the session's totals and cost; the caller appends the event.

    ``is_newest``: clients divide its tokens by the window. ``context_tokens``: how much of the window
    the conversation uses now; a summary is its new start.
    """
    newest = is_newest and bool(prompt_tokens or completion_tokens)  # some providers report nothing
    # One statement: PostgreSQL writes the row again for each one.
    tx.execute(
        "UPDATE workspaces_session SET total_prompt_tokens = total_prompt_tokens + %s,"
        " total_completion_tokens = total_completion_tokens + %s, cost = cost + %s,"
        " prompt_tokens = COALESCE(%s, prompt_tokens),"
        " completion_tokens = COALESCE(%s, completion_tokens),"
        " context_tokens = COALESCE(%s, context_tokens),"
        " summary_message_id = COALESCE(%s, summary_message_id), updated_at = %s WHERE id = %s",
        [
            prompt_tokens,
            completion_tokens,
            cost,
            prompt_tokens if newest else None,
            completion_tokens if newest else None,
            context_tokens,
            summary_message_id,
            tx.now,
            session_id,
        ],
    )


def replace_todos(
    tx: Transaction, workspace_id: str, session_id: str, *, todos: Sequence[Mapping[str, str]]
) -> None:
    Session.objects.filter(pk=session_id).update(todos=list(todos), updated_at=tx.now)
    append_session(tx, workspace_id, session_id)


def path_of_session(tx: Transaction, session_id: str) -> list[dict[str, str]]:
    """Returns the sessions from the top session down to this one, each with its title."""
    path: list[dict[str, str]] = []
    while session_id and len(path) < DEEPEST:
        rows = tx.fetch(
            "SELECT parent_session_id, title FROM workspaces_session WHERE id = %s", [session_id]
        )
        if not rows:
            break
        ((parent_id, title),) = rows
        path.insert(0, {"session_id": session_id, "title": title})
        session_id = parent_id
    return path


def tree_of(session_id: str) -> list[str]:
    """Returns the ids of a session and of all child sessions below it."""
    tree, level = [session_id], [session_id]
    while level and len(tree) < LARGEST_TREE:
        below = Session.objects.filter(parent_session_id__in=level)
        level = list(below.exclude(pk__in=tree).values_list("pk", flat=True))
        tree += level
    return tree


def remove_session(tx: Transaction, workspace_id: str, session: dict[str, Any]) -> None:
    """Removes the rows of a session that holds no run, with its children's link left open."""
    session_id = session["id"]
    for model in (FileVersion, FileRead, Message, RemovedMessage, Rewind, SearchText):
        model.objects.filter(session_id=session_id).delete()
    # The ORM would look into every table that refers to sessions; nothing is left there.
    tx.execute("DELETE FROM workspaces_session WHERE id = %s", [session_id])
    _append(tx, workspace_id, Kind.SESSION_DELETED, session)
