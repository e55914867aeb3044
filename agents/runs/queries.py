"""Reads runs outside of transactions, for workers and for clients. Called through ``read``.

The SQL contains states as literals, because the partial indexes of the table serve only those.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from django.db.models.functions import Left

from agents.models import Run, RunKind
from agents.runs.objects.run_objects import PROMPT_SHOWN_CHARS, run_facts
from agents.runs.rows import IS_CANCELLED, MAY_BE_FOLDED, UNFINISHED
from agents.states import RunState
from workspaces.log.statements import statements


class HeldRun(NamedTuple):
    key: int
    fence: int


class ExpiredRun(NamedTuple):
    key: int
    workspace_id: str


class LateRun(NamedTuple):
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


def cancelled_running(worker: str) -> list[HeldRun]:
    """Returns this worker's cancelled runs, because nudges may be lost."""
    with statements() as cursor:
        cursor.execute(
            "SELECT r.id, r.fence FROM agents_run r"
            " JOIN workspaces_session s ON s.id = r.session_id"
            f" WHERE r.worker = %s AND r.state = '{RunState.RUNNING}' AND ({IS_CANCELLED})",
            [worker],
        )
        return [HeldRun(*row) for row in cursor.fetchall()]


def expired_runs(now: int) -> list[ExpiredRun]:
    """Returns the running runs whose lease has expired."""
    return [ExpiredRun(run.key, run.workspace_id) for run in late_runs(0, now)]


def late_runs(now: int, due: int) -> list[LateRun]:
    """Returns the running runs whose lease has not expired, but should have been renewed."""
    with statements() as cursor:
        cursor.execute(
            "SELECT id, workspace_id, worker FROM agents_run"
            f" WHERE state = '{RunState.RUNNING}' AND lease_expires_at >= %s"
            " AND lease_expires_at < %s ORDER BY id LIMIT 500",
            [now, due],
        )
        return [LateRun(*row) for row in cursor.fetchall()]


def overtaken_runs(fences: Mapping[int, int]) -> set[int]:
    """Returns those of the runs with these fences that are deleted, or have another fence now."""
    found = dict(Run.objects.filter(pk__in=list(fences)).values_list("pk", "fence"))
    return {key for key, fence in fences.items() if found.get(key) != fence}


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
