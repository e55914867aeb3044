"""Leases: every write for a run names the fence of its claim, and is checked here.

A worker whose lease has expired writes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from agents.models import RunState
from agents.runs.rows import RunRow, read_runs
from workspaces.log.errors import Overtaken
from workspaces.log.transaction import Transaction


class LeaseLost(Overtaken):
    """Another worker holds the run now, or it has ended: stop without a word."""


@dataclass(frozen=True, slots=True)
class Lease:
    """Proof of a claim."""

    key: int
    fence: int
    workspace_id: str
    session_id: str


def require_lease(tx: Transaction, held: Lease) -> RunRow:
    """The run's row, if the claim still stands. Raises ``LeaseLost``."""
    rows = read_runs(tx, "r.id = %s", [held.key])
    if not rows or rows[0].fence != held.fence or rows[0].state != RunState.RUNNING:
        raise LeaseLost
    return rows[0]
