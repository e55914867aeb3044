"""Searches titles of sessions and texts of messages. Synchronous.

What a person types is only ever data: words are taken out of it, and everything else is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db import connection

from workspaces.log.rows import placeholders
from workspaces.log.statements import statements
from workspaces.models import SearchFill, SearchText, Session, Workspace
from workspaces.search_words import scope_word, words_in

MOST_WORDS = 16
WORD_CHARS = 64
# A shorter beginning of a word would match too many words.
PREFIX_CHARS = 3
TITLES = 20
# PostgreSQL reads all matches to sort them. Common words are found among so many of the newest.
NEWEST = 2_000
SNIPPET_BEFORE, SNIPPET_CHARS = 60, 240


class _Found(NamedTuple):
    id: int
    workspace_id: str
    session_id: str
    message_id: str
    title: str
    role: str
    created_at: int
    text: str


@dataclass(frozen=True, slots=True)
class FoundPage:
    items: list[dict[str, Any]]
    next_id: int | None  # continue before this id
    is_complete: bool  # the messages of earlier releases are indexed


# Statements: the conditions of full-text indexes. In 100,000 messages a common word takes 1 ms
# (`python -m tests.bench.history`). The rows are chosen first: joins with all matches take longer.
_CHOSEN = {
    "sqlite": (
        "SELECT t.id FROM workspaces_search f JOIN workspaces_searchtext t ON t.id = f.rowid"
        " WHERE f.workspaces_search MATCH %s",
        "f.rowid",
    ),
    "postgresql": (
        "SELECT t.id FROM workspaces_searchtext t WHERE t.words @@ to_tsquery('simple', %s)",
        "t.id",
    ),
}
_SHOWN = (
    "SELECT t.id, t.workspace_id, t.session_id, t.message_id, s.title, m.role, m.created_at, t.text"
    " FROM workspaces_searchtext t"
    " JOIN workspaces_session s ON s.id = t.session_id AND NOT s.is_deleting"
    " JOIN workspaces_message m ON m.id = t.message_id"
)


def search(
    query: str,
    *,
    limit: int,
    workspaces: Collection[str] | None = None,
    session_id: str = "",
    before_id: int | None = None,
) -> FoundPage:
    """Returns what has all words of the query, the newest first.

    The last word may be the beginning of one. ``workspaces``: the only ones that are searched;
    ``None`` for all. ``before_id``: the end of the page before. Titles come on the first page.
    """
    words = _words(query)
    is_complete = not SearchFill.objects.filter(is_done=False).exists()
    workspaces = _open_ones(workspaces)
    if not words or (workspaces is not None and not workspaces):
        return FoundPage([], None, is_complete)
    titles: list[dict[str, Any]] = []
    if before_id is None and not session_id:
        titles = _titles(words, workspaces)
    chosen = _choose(words, workspaces, session_id, before_id, limit + 1)
    shown = [_message(row, words) for row in _read(chosen[:limit])]
    next_id = chosen[limit - 1] if len(chosen) > limit else None
    return FoundPage([*titles, *shown], next_id, is_complete)


def find_messages(query: str, *, limit: int) -> list[tuple[str, str]]:
    """Returns the newest messages that have all words, also of closed workspaces.

    Each with its session: for operators, who see everything.
    """
    words = _words(query)
    if not words:
        return []
    chosen = _choose(words, None, "", None, limit)
    rows = SearchText.objects.filter(pk__in=chosen).order_by("-pk")
    return list(rows.values_list("message_id", "session_id"))


def _words(query: str) -> list[str]:
    return [word[:WORD_CHARS] for word in words_in(query)[:MOST_WORDS]]


def _open_ones(workspaces: Collection[str] | None) -> list[str] | None:
    """Returns the open ones of these workspaces; ``None`` for all, if all are open."""
    if workspaces is None and not Workspace.objects.filter(is_open=False).exists():
        return None
    found = Workspace.objects.filter(is_open=True)
    if workspaces is not None:
        found = found.filter(pk__in=workspaces)
    return list(found.order_by("pk").values_list("pk", flat=True))


def _choose(
    words: Sequence[str],
    workspaces: Sequence[str] | None,
    session_id: str,
    before_id: int | None,
    limit: int,
) -> list[int]:
    scopes = [scope_word("s", session_id)] if session_id else []
    if not scopes and workspaces is not None:
        scopes = [scope_word("w", workspace_id) for workspace_id in workspaces]
    statement, order = _CHOSEN[connection.vendor]
    params: list[Any] = [_EXPRESSIONS[connection.vendor](words, scopes)]
    if workspaces is not None:
        statement += f" AND t.workspace_id IN ({placeholders(len(workspaces))})"
        params += workspaces
    if session_id:
        statement += " AND t.session_id = %s"
        params.append(session_id)
    if before_id is not None:
        statement += f" AND {order} < %s"
        params.append(before_id)
    ordered = f" ORDER BY {order} DESC LIMIT %s"
    with statements() as cursor:
        if connection.vendor == "postgresql" and not session_id:
            cursor.execute("SELECT COALESCE(MAX(id), 0) FROM workspaces_searchtext")
            newest = before_id if before_id is not None else cursor.fetchone()[0]
            window = f"{statement} AND t.id > %s{ordered}"
            cursor.execute(window, [*params, newest - NEWEST, limit])
            if len(found := cursor.fetchall()) == limit:
                return [row_id for (row_id,) in found]
        cursor.execute(statement + ordered, [*params, limit])
        return [row_id for (row_id,) in cursor.fetchall()]


def _read(row_ids: Sequence[int]) -> list[_Found]:
    if not row_ids:
        return []
    with statements() as cursor:
        cursor.execute(
            f"{_SHOWN} WHERE t.id IN ({placeholders(len(row_ids))}) ORDER BY t.id DESC", row_ids
        )
        return [_Found(*row) for row in cursor.fetchall()]


def _fts5(words: Sequence[str], scopes: Sequence[str]) -> str:
    quoted = [f'"{word}"' for word in words]
    if len(words[-1]) >= PREFIX_CHARS:
        quoted[-1] += "*"
    terms = f"text : ({' AND '.join(quoted)})"
    if not scopes:
        return terms
    any_scope = " OR ".join(f'"{scope}"' for scope in scopes)
    return f"scope : ({any_scope}) AND {terms}"


def _tsquery(words: Sequence[str], scopes: Sequence[str]) -> str:
    quoted = [f"'{word}'" for word in words]  # a word has no quotes
    if len(words[-1]) >= PREFIX_CHARS:
        quoted[-1] += ":*"
    if scopes:
        quoted.append(f"({' | '.join(scopes)})")
    return " & ".join(quoted)


_EXPRESSIONS = {"sqlite": _fts5, "postgresql": _tsquery}


def _titles(words: Sequence[str], workspaces: Collection[str] | None) -> list[dict[str, Any]]:
    found = Session.objects.filter(is_deleting=False, workspace__is_open=True, parent_session_id="")
    if workspaces is not None:
        found = found.filter(workspace_id__in=workspaces)
    for word in words:
        found = found.filter(title__icontains=word)
    return [
        {
            "kind": "session",
            "workspace_id": row.workspace_id,
            "session_id": row.pk,
            "session_title": row.title,
            "message_id": None,
            "role": None,
            "created_at": row.created_at // 1000,
            **_snippet(row.title, words),
        }
        for row in found.order_by("-updated_at", "-id")[:TITLES]
    ]


def _message(row: _Found, words: Sequence[str]) -> dict[str, Any]:
    return {
        "kind": "message",
        "workspace_id": row.workspace_id,
        "session_id": row.session_id,
        "session_title": row.title,
        "message_id": row.message_id,
        "role": row.role,
        "created_at": row.created_at // 1000,
        **_snippet(row.text, words),
    }


def _snippet(text: str, words: Sequence[str]) -> dict[str, Any]:
    """Returns a piece of the text around the first match, and where the words are in it."""
    pattern = re.compile("|".join(map(re.escape, words)), re.IGNORECASE)
    first = pattern.search(text)
    start = max(0, (first.start() if first else 0) - SNIPPET_BEFORE)
    piece = text[start : start + SNIPPET_CHARS]
    return {
        "snippet": piece,
        "highlights": [[match.start(), match.end()] for match in pattern.finditer(piece)],
    }
