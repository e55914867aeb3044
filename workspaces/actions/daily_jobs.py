"""Work that one process does once a day: claimed by one conditional statement, held by a lease.

If the process dies, its lease expires and another one begins again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workspaces.log.transaction import Transaction
from workspaces.models import DailyJob

LEASE_MS = 120_000


def claim_daily_job(tx: Transaction, name: str, *, holder: str, first_due_at: int) -> bool:
    """Returns whether the job is due, and now held by this process.

    ``first_due_at``: when a job that has never been done is due.
    """
    is_mine = DailyJob.objects.filter(name=name, due_at__lte=tx.now, held_until__lte=tx.now).update(
        holder=holder, held_until=tx.now + LEASE_MS
    )
    if not is_mine:
        DailyJob.objects.get_or_create(name=name, defaults={"due_at": first_due_at})
    return bool(is_mine)


def renew_daily_job(tx: Transaction, name: str, *, holder: str) -> bool:
    """Returns whether the process still holds the job."""
    return bool(
        DailyJob.objects.filter(name=name, holder=holder, held_until__gt=0).update(
            held_until=tx.now + LEASE_MS
        )
    )


def end_daily_job(
    tx: Transaction, name: str, *, holder: str, due_at: int, result: Mapping[str, Any]
) -> None:
    """Releases the job until it is due again."""
    DailyJob.objects.filter(name=name, holder=holder).update(
        holder="", held_until=0, due_at=due_at, finished_at=tx.now, result=dict(result)
    )
