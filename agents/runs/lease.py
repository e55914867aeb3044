"""Leases: every write for a run names the fence of its claim, and is checked here.

A worker whose lease has expired writes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from agents.runs.rows import RunRow, read_runs
from agents.states import RunState
from workspaces.log.errors import Overtaken
from workspaces.log.transaction import Transaction


class LeaseLost(Overtaken):
    """Another worker holds the run now, or the run has ended: its old worker stops silently."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The claim of a run, which every write for the run names."""

    key: int
    fence: int
    workspace_id: str
    session_id: str


def require_lease(tx: Transaction, held: Lease) -> RunRow:
    """Returns the run's row if the claim is still valid. Raises ``LeaseLost``."""
    rows = read_runs(tx, "r.id = %s", [held.key])
    if not rows or rows[0].fence != held.fence or rows[0].state != RunState.RUNNING:
        raise LeaseLost
    return rows[0]
