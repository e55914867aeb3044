"""Deletes old rows once a day, in one of the processes that work."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial

from django.conf import settings

from crushsite.retention.kinds import DAY_MS, Batch, RetentionKind, old_batches
from workspaces.actions.daily_jobs import claim_daily_job, end_daily_job, renew_daily_job
from workspaces.log.errors import Overtaken, WorkspaceUnknown
from workspaces.log.reader import read
from workspaces.log.timestamps import now_ms
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer
from workspaces.models import DailyJob

logger = logging.getLogger(__name__)

NAME = "retention"
FIRST_LOOK_SECONDS = 10.0
LOOK_SECONDS = 60.0
PAUSE_SECONDS = 0.05  # at least, between transactions: others write meanwhile


async def delete_nightly(holder: str) -> None:
    """Looks for as long as the process works, unless the settings forbid it."""
    if settings.CRUSH_RETENTION != "nightly":
        return
    nightly = Nightly(
        holder, days=settings.CRUSH_RETENTION_DAYS, hour=settings.CRUSH_RETENTION_HOUR
    )
    await asyncio.sleep(FIRST_LOOK_SECONDS)
    while True:
        try:
            await nightly.look()
        except Overtaken:
            logger.info("another process deletes old rows, because this one was too slow")
        except Exception:
            logger.exception("deleting old rows failed; it begins again later")
        await asyncio.sleep(LOOK_SECONDS)


class Nightly:
    """``days``: the age at which each kind is deleted; 0 keeps all. ``hour``: when, in UTC."""

    def __init__(self, holder: str, *, days: Mapping[str, int], hour: int) -> None:
        self._holder = holder
        self._days = days
        self._hour = hour

    async def look(self) -> Mapping[str, int] | None:
        """Deletes what is old if that is due, and no other process does it.

        Returns how many rows of each kind it has deleted. Raises ``Overtaken`` when its lease has
        expired and another process has begun.
        """
        now = now_ms()
        if not await read(_may_be_due, now):
            return None
        due = next_due(now, hour=self._hour)
        claim = partial(claim_daily_job, name=NAME, holder=self._holder, first_due_at=due)
        if not await writer.write("", claim):
            return None
        began = time.monotonic()
        deleted = {
            kind: await self._delete(RetentionKind(kind), now - days * DAY_MS)
            for kind, days in self._days.items()
            if days
        }
        end = partial(end_daily_job, name=NAME, holder=self._holder, due_at=due, result=deleted)
        await writer.write("", end)
        counts = ", ".join(f"{count} {kind}" for kind, count in deleted.items() if count)
        logger.info("deleted old rows in %.1f s: %s", time.monotonic() - began, counts or "none")
        return deleted

    async def _delete(self, kind: RetentionKind, before: int) -> int:
        batches: Iterator[Batch] = old_batches(kind, before=before)
        deleted = 0
        while (batch := await read(next, batches, None)) is not None:
            began = time.monotonic()
            try:
                deleted += await writer.write(batch.workspace_id, partial(self._carry_out, batch))
            except WorkspaceUnknown:
                continue  # it was deleted meanwhile
            await asyncio.sleep(max(PAUSE_SECONDS, time.monotonic() - began))
        return deleted

    def _carry_out(self, batch: Batch, tx: Transaction) -> int:
        if not renew_daily_job(tx, NAME, holder=self._holder):
            raise Overtaken
        return batch.job(tx)


def _may_be_due(now: int) -> bool:
    row = DailyJob.objects.filter(name=NAME).first()
    return row is None or (row.due_at <= now and row.held_until <= now)


def next_due(now: int, *, hour: int) -> int:
    """Returns the next time with this hour in UTC."""
    moment = datetime.fromtimestamp(now / 1000, UTC)
    due = moment.replace(hour=hour, minute=0, second=0, microsecond=0)
    return int((due if due > moment else due + timedelta(days=1)).timestamp() * 1000)
