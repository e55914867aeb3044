"""The prompts of a run: its own as a message, and those that are folded into it."""

from __future__ import annotations

from agents.models import RunOutcome
from agents.runs.rows import RunRow, read_runs, run_wire
from workspaces.actions import messages
from workspaces.log.parts import Role
from workspaces.log.transaction import Transaction
from workspaces.log.types import Kind


def store_prompt(tx: Transaction, run: RunRow, *, run_key: int | None = None) -> None:
    """Stores the user message of a run."""
    messages.create_message(
        tx,
        run.workspace_id,
        run.session_id,
        role=Role.USER,
        parts=run.user_parts(tx),
        run_key=run_key or run.key,
    )


def fold_prompts(tx: Transaction, run: RunRow) -> list[str]:
    """Takes the queued prompts without a ``run_id`` into this run; returns their texts."""
    waiting = read_runs(
        tx,
        "r.session_id = %s AND r.state = 'accepted' AND r.run_id IS NULL AND r.kind = 'prompt'",
        [run.session_id],
    )
    for other in waiting:
        store_prompt(tx, other, run_key=run.key)
        tx.execute(
            "UPDATE agents_run SET state = 'finished', outcome = %s, folded_into_id = %s,"
            " started_at = %s, finished_at = %s WHERE id = %s",
            [RunOutcome.FOLDED.value, run.key, tx.now, tx.now, other.key],
        )
        folded = run_wire(other, folded_into=run.key)
        tx.append(run.workspace_id, Kind.RUN_FOLDED, {"run": folded}, session_id=run.session_id)
    return [other.prompt for other in waiting]
