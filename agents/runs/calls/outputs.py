"""Stores what running tools have printed so far, once a second.

If the server stops, the model gets this in place of the result that the tool did not reach.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from agents.runs.lease import Lease
from agents.runs.rows import store_call_outputs
from workspaces.log.errors import ShuttingDown
from workspaces.log.writer import writer
from workspaces.storable import storable_text

INTERVAL_SECONDS = 1.0

logger = logging.getLogger(__name__)


class CallOutputs:
    """The outputs of the tools that run in this process."""

    def __init__(self) -> None:
        self._outputs: dict[Lease, dict[str, str]] = {}  # by run, then by call
        self._changed: set[Lease] = set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._save_all(), name="call-outputs")

    async def stop(self) -> None:
        """Stores the newest outputs, before the tools are ended."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.save()

    def add(self, held: Lease, call_id: str, output: str) -> None:
        """Takes a call's whole output so far. Cheap."""
        self._outputs.setdefault(held, {})[call_id] = output
        self._changed.add(held)

    def end(self, held: Lease, call_id: str) -> None:
        """Forgets a call whose result is stored."""
        outputs = self._outputs.get(held, {})
        outputs.pop(call_id, None)
        if not outputs:
            self.forget(held)

    def forget(self, held: Lease) -> None:
        """Forgets the calls of a run that this process no longer performs."""
        self._outputs.pop(held, None)
        self._changed.discard(held)

    async def save(self) -> None:
        """Stores what is new in one transaction, if anything is."""
        changed, self._changed = self._changed, set()
        if not changed:
            return
        runs = [
            (held.key, held.fence, {call: storable_text(text) for call, text in outputs.items()})
            for held in changed
            if (outputs := self._outputs.get(held))
        ]
        try:
            await writer.write("", partial(store_call_outputs, runs=runs))
        except ShuttingDown:
            return
        except Exception as error:  # noqa: BLE001  the next round stores what is new then
            logger.warning("outputs of running tools were not stored: %s", error)
            self._changed |= changed & self._outputs.keys()

    async def _save_all(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL_SECONDS)
            await self.save()
