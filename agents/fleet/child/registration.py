"""The child's record in the fabric folder: written, kept alive, taken away."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from agents.fleet import records
from agents.fleet.provisioning import ProvisionSpec

logger = logging.getLogger(__name__)


class Presence:
    def __init__(self, spec: ProvisionSpec, endpoint: str, *, renews: bool) -> None:
        self._folder = Path(spec.fabric_dir)
        self._record = records.new_record(
            spec.identity.child_id, role=spec.identity.role, endpoint=endpoint
        )
        self._renews = renews
        self._renewing: asyncio.Task[None] | None = None

    async def publish(self) -> None:
        """Raises ``OSError``, ``records.BadRecord``."""
        await asyncio.to_thread(records.publish, self._folder, self._record)
        if self._renews:
            self._renewing = asyncio.create_task(self._renew(), name="lease")

    async def end(self, *, withdraws: bool) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait({self._renewing})
        if withdraws:
            try:
                await asyncio.to_thread(records.withdraw, self._folder, self._record.agent_id)
            except OSError as error:
                logger.warning("the record could not be withdrawn: %s", error.strerror)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(records.RENEW_SECONDS)
            try:
                self._record = await asyncio.to_thread(records.renew, self._folder, self._record)
            except (OSError, records.BadRecord):
                logger.warning("the lease could not be renewed; the next round tries again")
