"""Every write to the texts that the search reads: one row for each finished message with text.

A message is indexed in the transaction that finishes it, and never while it streams.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Any

import orjson
from django.db import connection

from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer
from workspaces.models import Message, SearchFill, Session
from workspaces.search_words import scope_of, text_of, words_in

logger = logging.getLogger(__name__)

FILL_MESSAGES = 200  # in one transaction
FILL_SESSIONS = 50
FILL_PAUSE_SECONDS = 0.02

# Statements: PostgreSQL's column is none of the model. A row costs 0.1 ms
# (`python -m tests.bench.history`).
_COLUMNS = "message_id, session_id, workspace_id, scope, text"
_UPSERT = (
    " ON CONFLICT (message_id) DO UPDATE SET {changes} WHERE workspaces_searchtext.text"
    " <> excluded.text"
)
_INSERT = {
    "sqlite": (
        f"INSERT INTO workspaces_searchtext ({_COLUMNS}) VALUES (%s, %s, %s, %s, %s)"
        + _UPSERT.format(changes="text = excluded.text")
    ),
    "postgresql": (
        f"INSERT INTO workspaces_searchtext ({_COLUMNS}, words)"
        " VALUES (%s, %s, %s, %s, %s, strip(to_tsvector('simple', %s)))"
        + _UPSERT.format(changes="text = excluded.text, words = excluded.words")
    ),
}
_FILL = {
    "sqlite": (
        f"INSERT INTO workspaces_searchtext (id, {_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s)"
        " ON CONFLICT (message_id) DO NOTHING"
    ),
    "postgresql": (
        f"INSERT INTO workspaces_searchtext (id, {_COLUMNS}, words)"
        " VALUES (%s, %s, %s, %s, %s, %s, strip(to_tsvector('simple', %s)))"
        " ON CONFLICT (message_id) DO NOTHING"
    ),
}
_COPY = {
    "sqlite": (
        f"INSERT INTO workspaces_searchtext ({_COLUMNS}) SELECT %s, %s, workspace_id, %s, text"
        " FROM workspaces_searchtext WHERE message_id = %s"
    ),
    "postgresql": (
        f"INSERT INTO workspaces_searchtext ({_COLUMNS}, words)"
        " SELECT %s, %s, workspace_id, %s, text, ts_delete(words, string_to_array(scope, ' '))"
        " || strip(to_tsvector('simple', %s))"
        " FROM workspaces_searchtext WHERE message_id = %s"
    ),
}


def index_message(
    tx: Transaction,
    workspace_id: str,
    session_id: str,
    message_id: str,
    wire: Iterable[Mapping[str, Any]],
) -> None:
    """Stores the text of a finished message, if it has any; ``wire``: its parts."""
    text = text_of(wire)
    if text:
        values = _values(workspace_id, session_id, message_id, text)
        tx.execute(_INSERT[connection.vendor], values)


def index_messages(
    tx: Transaction,
    workspace_id: str,
    session_id: str,
    wires: Mapping[str, Iterable[Mapping[str, Any]]],
) -> None:
    """Stores the texts of many finished messages; ``wires``: the parts of each, by its id."""
    texts = ((message_id, text_of(wire)) for message_id, wire in wires.items())
    rows = [_values(workspace_id, session_id, key, text) for key, text in texts if text]
    if rows:
        tx.execute_many(_INSERT[connection.vendor], rows)


def copy_texts(
    tx: Transaction, workspace_id: str, session_id: str, new_ids: Mapping[str, str]
) -> None:
    """Copies the texts of messages to a session; ``new_ids``: the copy of each message."""
    scope = scope_of(workspace_id, session_id)
    scopes = [scope] if connection.vendor == "sqlite" else [scope, scope]
    tx.execute_many(
        _COPY[connection.vendor],
        [(new, session_id, *scopes, old) for old, new in new_ids.items()],
    )


def _values(workspace_id: str, session_id: str, message_id: str, text: str) -> list[Any]:
    scope = scope_of(workspace_id, session_id)
    values: list[Any] = [message_id, session_id, workspace_id, scope, text]
    if connection.vendor != "sqlite":
        # Without punctuation its parser would keep paths and addresses as one word each.
        values.append(f"{scope} {' '.join(words_in(text))}")
    return values


# -- messages of earlier releases


async def fill_search() -> None:
    """Indexes the messages of earlier releases, a few at a time."""
    while await writer.write("", fill_step):  # noqa: ASYNC110  a pause, so that others can write
        await asyncio.sleep(FILL_PAUSE_SECONDS)


def fill_step(tx: Transaction) -> bool:
    """Indexes a few messages; returns whether there are more."""
    suffix = " FOR UPDATE" if connection.features.has_select_for_update else ""
    if not tx.fetch(f"SELECT 1 FROM workspaces_searchfill WHERE NOT is_done{suffix}", []):
        return False
    fill = SearchFill.objects.get()
    left = FILL_MESSAGES
    for _ in range(FILL_SESSIONS):
        if not fill.session_id and not _next_session(fill):
            fill.is_done = True
            logger.info("the search has all messages of earlier releases")
            break
        count = _fill_session(tx, fill, left)
        left -= count
        if left <= 0:
            break
        fill.session_id = ""
    fill.save()
    return not fill.is_done


def _next_session(fill: SearchFill) -> bool:
    # The next session in the order of (created_at, id); several may have begun at once.
    found = Session.objects.filter(created_at__lte=fill.until).order_by("created_at", "pk")
    same = found.filter(created_at=fill.session_created_at, pk__gt=fill.last_session_id)
    row = same.first() or found.filter(created_at__gt=fill.session_created_at).first()
    if row is None:
        return False
    fill.session_id = fill.last_session_id = row.pk
    fill.session_created_at, fill.position = row.created_at, 0
    return True


def _fill_session(tx: Transaction, fill: SearchFill, limit: int) -> int:
    rows = Message.objects.filter(session_id=fill.session_id, position__gt=fill.position)
    rows = rows.order_by("position")[:limit]
    values = []
    for row in rows:
        fill.position = row.position
        text = text_of(orjson.loads(row.parts)) if row.is_finished else ""
        if text:
            values.append([fill.next_id, *_values(row.workspace_id, row.session_id, row.pk, text)])
            fill.next_id += 1
    if values:
        tx.execute_many(_FILL[connection.vendor], values)
    return len(rows)
