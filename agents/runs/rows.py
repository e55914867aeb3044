"""A run's row as the actions need it, and as events tell it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from django.db.models.functions import Left

from agents.models import Run, RunState
from workspaces.log.attached_data import load_attached
from workspaces.log.parts import (
    Finish,
    FinishReason,
    Parts,
    Text,
    parts_from_wire,
)
from workspaces.log.transaction import Transaction

PROMPT_SHOWN_CHARS = 2_000

_COLUMNS = (
    "r.id, r.workspace_id, r.session_id, r.run_id, r.accept_number, r.kind, r.state, r.prompt,"
    " r.attachments, r.was_queued, r.fence, r.open_calls, r.message_id, r.started_at,"
    " s.cancel_mark >= r.accept_number OR r.is_withdrawn, r.parent_id"
)


@dataclass(frozen=True, slots=True)
class RunRow:
    key: int
    workspace_id: str
    session_id: str
    run_id: str | None
    accept_number: int
    kind: str
    state: str
    prompt: str
    attachments: str
    was_queued: bool
    fence: int
    open_calls: frozenset[str]
    message_id: str
    started_at: int | None
    is_cancelled: bool  # its session's cancel mark covers it, or it was withdrawn
    parent: int | None  # the run whose call waits for it

    def user_parts(self, tx: Transaction) -> Parts:
        """The user message that this run's prompt is stored as."""
        attached = orjson.loads(load_attached(tx.cursor, self.attachments))
        return (Text(self.prompt), *parts_from_wire(attached), Finish(FinishReason.STOP))


def _row(values: Sequence[Any]) -> RunRow:
    (
        key,
        workspace_id,
        session_id,
        run_id,
        accept_number,
        kind,
        state,
        prompt,
        attachments,
        was_queued,
        fence,
        open_calls,
        message_id,
        started_at,
        is_cancelled,
        parent,
    ) = values
    return RunRow(
        key,
        workspace_id,
        session_id,
        run_id,
        accept_number,
        kind,
        state,
        prompt,
        attachments,
        bool(was_queued),
        fence,
        frozenset(orjson.loads(open_calls)),
        message_id,
        started_at,
        bool(is_cancelled),
        parent,
    )


def read_runs(tx: Transaction, where: str, params: Sequence[Any]) -> list[RunRow]:
    """Runs in the order they were accepted. ``where`` is a constant of the caller."""
    rows = tx.fetch(
        f"SELECT {_COLUMNS} FROM agents_run r JOIN workspaces_session s ON s.id = r.session_id"
        f" WHERE {where} ORDER BY r.accept_number",
        params,
    )
    return [_row(values) for values in rows]


def unfinished_runs(tx: Transaction, session_id: str) -> list[RunRow]:
    return read_runs(tx, "r.session_id = %s AND r.state <> 'finished'", [session_id])


def run_wire(run: RunRow, **more: Any) -> dict[str, Any]:
    """What events tell of a run."""
    facts = run_facts(
        key=run.key,
        session_id=run.session_id,
        accept_number=run.accept_number,
        run_id=run.run_id,
        message_id=run.message_id,
        kind=run.kind,
    )
    return {**facts, **more}


def run_facts(
    *,
    key: int,
    session_id: str,
    accept_number: int,
    run_id: str | None,
    message_id: str = "",
    kind: str = "prompt",
    **more: Any,
) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "key": key,
        "session_id": session_id,
        "accept_number": accept_number,
    }
    if message_id:
        facts["message_id"] = message_id
    if run_id is not None:
        facts["run_id"] = run_id
    if kind != "prompt":
        facts["kind"] = kind
    return {**facts, **more}


def read_unfinished_runs(workspace_id: str) -> dict[str, Any]:
    """The runs of a workspace that have not ended, for its snapshot, oldest first.

    As ``run.accepted`` shows them, with their ``state``. Synchronous: called through ``read``.
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
                state=run.state,
            )
            for run in runs
        ]
    }
