"""Resumes runs: finds the calls whose answer has come, and makes a parked run ready."""

from __future__ import annotations

from collections.abc import Sequence

from agents.runs.rows import RunRow
from workspaces.log.transaction import Transaction

# By call: whether what it waits for has come. A call may be allowed and then send for something,
# so what a later statement says of it counts.
_WAITS = (
    "SELECT tool_call_id, state <> 'pending' FROM permissions_permissionrequest WHERE run_key = %s",
    "SELECT tool_call_id, state <> 'pending' FROM permissions_questionbatch WHERE run_key = %s",
    "SELECT parent_call_id, state = 'finished' FROM agents_run WHERE parent_id = %s",
)


def answered_calls(tx: Transaction, run: RunRow, waiting: Sequence[str]) -> list[str]:
    """Of the calls that wait, those whose answer or errand has come."""
    has_come: dict[str, bool] = {}
    for statement in _WAITS:
        has_come.update(tx.fetch(statement, [run.key]))
    return [call_id for call_id in waiting if has_come.get(call_id)]


def mark_ready(tx: Transaction, run_key: int) -> None:
    """What a run waited for has come. One that is not parked yet finds it when it wants to park."""
    tx.execute(
        "UPDATE agents_run SET state = 'ready' WHERE id = %s AND state = 'parked'", [run_key]
    )
