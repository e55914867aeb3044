"""Reads runs outside of transactions, for workers and for clients. Called through ``read``.

The SQL contains states as literals, because the partial indexes of the table serve only those.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from django.db.models import Exists, OuterRef
from django.db.models.functions import Left

from agents.models import Run, RunKind
from agents.runs.objects.run_objects import PROMPT_SHOWN_CHARS, run_facts
from agents.runs.rows import IS_CANCELLED, MAY_BE_FOLDED, UNFINISHED
from agents.states import RunState
from workspaces.log.statements import statements
from workspaces.models import NEVER_EXPIRES, RegisteredProcess


class HeldRun(NamedTuple):
    key: int
    fence: int
    is_cancelled: bool


class LostRun(NamedTuple):
    key: int
    workspace_id: str
    worker: str


_CLAIMS = "SELECT client_id, current_session_id FROM workspaces_clientclaim WHERE workspace_id = %s"


def queued_prompts(workspace_id: str, session_id: str) -> list[str]:
    """Returns the texts of the session's queued prompts, in order."""
    with statements() as cursor:
        cursor.execute(
            "SELECT prompt FROM agents_run WHERE workspace_id = %s AND session_id = %s"
            f" AND state = '{RunState.ACCEPTED}' AND was_queued = %s AND kind = '{RunKind.PROMPT}'"
            " ORDER BY accept_number",
            [workspace_id, session_id, True],
        )
        return [row[0] for row in cursor.fetchall()]


def has_waiting_prompts(session_id: str) -> bool:
    """Whether a prompt without a run_id, which may be folded, waits in the session."""
    with statements() as cursor:
        cursor.execute(
            f"SELECT 1 FROM agents_run r WHERE r.session_id = %s AND {MAY_BE_FOLDED} LIMIT 1",
            [session_id],
        )
        return cursor.fetchone() is not None


def is_held(key: int, fence: int) -> bool:
    """Whether the run is still running under the claim with this fence."""
    with statements() as cursor:
        cursor.execute(
            "SELECT 1 FROM agents_run WHERE id = %s AND fence = %s"
            f" AND state = '{RunState.RUNNING}'",
            [key, fence],
        )
        return cursor.fetchone() is not None


def busy_sessions(workspace_id: str, client_id: str = "") -> list[dict[str, str]]:
    """Returns the sessions with unfinished runs that concern the client.

    For a client that views a session it is that session, for another client those with its
    own prompts. For an unknown client it is every busy session.
    """
    with statements() as cursor:
        cursor.execute(_CLAIMS, [workspace_id])
        looking = dict(cursor.fetchall())
        if not client_id and len(looking) == 1:
            (client_id,) = looking
        where, params = "", []
        if current := looking.get(client_id):
            where, params = " AND r.session_id = %s", [current]
        elif client_id:
            where, params = " AND r.client_id = %s", [client_id]
        cursor.execute(
            "SELECT DISTINCT s.id, s.title FROM agents_run r"
            " JOIN workspaces_session s ON s.id = r.session_id"
            f" WHERE r.workspace_id = %s AND {UNFINISHED}{where} LIMIT 20",
            [workspace_id, *params],
        )
        return [{"id": session_id, "title": title} for session_id, title in cursor.fetchall()]


def held_runs(worker: str) -> list[HeldRun]:
    """Returns the runs that the worker holds; nudges about those that are cancelled may be lost."""
    with statements() as cursor:
        cursor.execute(
            f"SELECT r.id, r.fence, ({IS_CANCELLED}) FROM agents_run r"
            " JOIN workspaces_session s ON s.id = r.session_id"
            f" WHERE r.worker = %s AND r.state = '{RunState.RUNNING}'",
            [worker],
        )
        return [HeldRun(key, fence, bool(flag)) for key, fence, flag in cursor.fetchall()]


def lost_runs(now: int) -> list[LostRun]:
    """Returns the running runs whose worker has lost its registration.

    Workers of the release before this one do not register: their leases expire.
    """
    runs = "SELECT r.id, r.workspace_id, r.worker FROM agents_run r"
    with statements() as cursor:
        # In the order of its index: PostgreSQL takes most rows for expired ones, because finished
        # runs have a lease of 0, and would read all running runs (docs/scaling.md).
        cursor.execute(
            f"SELECT id, workspace_id, worker FROM ({runs} WHERE r.state = '{RunState.RUNNING}'"
            f" AND r.lease_expires_at < {NEVER_EXPIRES} AND r.lease_expires_at < %s"
            f" ORDER BY r.lease_expires_at LIMIT 500) AS expired"
            f" UNION {runs} JOIN workspaces_registeredprocess p ON p.id = r.worker"
            f" WHERE r.state = '{RunState.RUNNING}' AND p.is_lost = %s ORDER BY 1 LIMIT 500",
            [now, True],
        )
        return [LostRun(*row) for row in cursor.fetchall()]


def released_processes() -> list[str]:
    """Returns the lost processes under which no run is held now."""
    held = Run.objects.filter(worker=OuterRef("pk"), state=RunState.RUNNING)
    lost = RegisteredProcess.objects.filter(is_lost=True)
    return list(lost.exclude(Exists(held)).values_list("pk", flat=True))


def read_unfinished_runs(workspace_id: str) -> dict[str, Any]:
    """Returns the unfinished runs of a workspace for its snapshot, oldest first.

    They have the fields of ``run.accepted`` and a ``state``.
    """
    runs = (
        Run.objects.filter(workspace_id=workspace_id)
        .exclude(state=RunState.FINISHED)
        .annotate(shown=Left("prompt", PROMPT_SHOWN_CHARS))
        .defer("prompt", "attachments")
        .order_by("id")
    )
    return {
        "runs": [
            run_facts(
                key=run.pk,
                session_id=run.session_id,
                accept_number=run.accept_number,
                run_id=run.run_id,
                message_id=run.message_id,
                kind=run.kind,
                prompt=run.shown,
                author=run.author,
                strategy=run.strategy,
                options=run.options,
                replaces=run.replaces,
                rewind_id=run.rewind_id or None,
                retry_of=run.retry_of,
                state=run.state,
            )
            for run in runs
        ]
    }
