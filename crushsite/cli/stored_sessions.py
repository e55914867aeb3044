"""The sessions of all workspaces, open or closed, as commands list and find them.

Reads the database directly, also beside a running server: it shows closed
workspaces to nobody, and reading takes nothing from it.
"""

from __future__ import annotations

from dataclasses import dataclass

from crushsite.cli.naming import command_line
from workspaces.models import Session

SHORTEST_BEGINNING = 4  # of an id that stands for the whole


@dataclass(frozen=True, slots=True)
class StoredSession:
    id: str
    title: str
    workspace_id: str
    path: str
    is_busy: bool
    message_count: int
    prompt_tokens: int
    completion_tokens: int
    cost: float
    updated_at: int  # milliseconds


class NotFound(Exception):
    """No session, or more than one, has such an id."""


def list_stored(*, path: str | None = None, limit: int | None = None) -> list[StoredSession]:
    """The newest first; a path (resolved) chooses one workspace. Without tools' own sessions."""
    rows = Session.objects.filter(is_deleting=False, parent_session_id="")
    if path is not None:
        rows = rows.filter(workspace__path=path)
    found = rows.select_related("workspace").order_by("-updated_at", "pk")[:limit]
    return [_stored(row) for row in found]


def find_stored(wanted: str) -> StoredSession:
    """By its id or the beginning of it. Raises ``NotFound``."""
    rows = Session.objects.filter(is_deleting=False).select_related("workspace")
    exact = rows.filter(pk=wanted).first()
    if exact is not None:
        return _stored(exact)
    found = (
        list(rows.filter(pk__startswith=wanted)[:2]) if len(wanted) >= SHORTEST_BEGINNING else []
    )
    if len(found) > 1:
        raise NotFound(f"Several sessions begin with {wanted!r}: write more of the id.")
    if not found:
        raise NotFound(f"There is no session {wanted!r}. `{command_line('sessions')}` lists them.")
    return _stored(found[0])


def _stored(row: Session) -> StoredSession:
    return StoredSession(
        row.pk,
        row.title,
        row.workspace_id,
        row.workspace.path,
        row.is_busy,
        row.message_count,
        row.total_prompt_tokens,
        row.total_completion_tokens,
        row.cost,
        row.updated_at,
    )
