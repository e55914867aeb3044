"""Reads what decides whether a prompt can be accepted: one statement for each prompt."""

from __future__ import annotations

from dataclasses import dataclass

from agents.runs.rows import JOIN_KNOWN, KNOWN, KnownRun
from workspaces.log.errors import ClientRetired, SessionUnknown, WorkspaceUnknown
from workspaces.log.transaction import Transaction

# A statement: each prompt needs it, and the answer waits for it. Four in its place are three more
# round trips to PostgreSQL; why not the ORM: docs/where-we-leave-django.md.
# The client is the sender, or else the only one with a claim to the workspace.
_ADMISSION = (
    "SELECT w.is_open, w.path, s.is_deleting, s.is_busy, s.last_accept, c.client_id,"
    f" t.client_id IS NOT NULL, {KNOWN.sql}"
    " FROM workspaces_session s JOIN workspaces_workspace w ON w.id = s.workspace_id"
    f" {JOIN_KNOWN}"
    " LEFT JOIN workspaces_clientclaim c ON c.workspace_id = w.id AND %s = ''"
    " AND NOT EXISTS (SELECT 1 FROM workspaces_clientclaim o"
    " WHERE o.workspace_id = c.workspace_id AND o.client_id <> c.client_id)"
    " LEFT JOIN workspaces_retiredclient t ON t.client_id = COALESCE(c.client_id, %s)"
    " WHERE s.id = %s AND s.workspace_id = %s"
)


@dataclass(frozen=True, slots=True)
class Admission:
    """What is stored about the session and the client of a new prompt."""

    path: str  # of the workspace
    is_busy: bool
    last_accept: int
    known: KnownRun | None  # the run with the same ``run_id``
    client_id: str  # the sender, or the workspace's only client
    is_client_retired: bool

    def require_unretired(self) -> None:
        """Raises ``ClientRetired`` if the client is retired."""
        if self.is_client_retired:
            raise ClientRetired


def read_admission(
    tx: Transaction,
    workspace_id: str,
    session_id: str,
    *,
    run_id: str | None,
    client_id: str,
    must_be_open: bool,
) -> Admission:
    """Raises ``SessionUnknown``, and ``WorkspaceUnknown`` if the workspace must be open and is not."""
    rows = tx.fetch(_ADMISSION, [run_id, client_id, client_id, session_id, workspace_id])
    if not rows or rows[0][2]:
        raise SessionUnknown
    is_open, path, _, is_busy, last_accept, only_client, is_retired, *run = rows[0]
    if must_be_open and not is_open:
        raise WorkspaceUnknown
    known = None if run[0] is None else KNOWN.decode(run)
    sender = client_id or only_client or ""
    return Admission(path, bool(is_busy), int(last_accept), known, sender, bool(is_retired))
