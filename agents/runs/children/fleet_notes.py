"""What operators see of a sub-agent's run: its state, where it is, that it still says something."""

from __future__ import annotations

from agents.models import SubAgentState
from agents.runs.children.rows import note_sub_agent
from agents.runs.lease import Held
from workspaces.log.timestamps import now_ms
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer

TELL_MS = 5_000


class FleetNotes:
    def __init__(self, held: Held) -> None:
        self._held = held
        self._last_event, self._events = "", 0
        self._told_event, self._told_events, self._told_at = "", 0, 0

    def count(self, event: str) -> None:
        """An event of this kind was heard; empty where it has none."""
        self._last_event = event or self._last_event
        self._events += 1

    async def tell_events(self) -> None:
        """At once for an event of another kind, else now and then: there may be thousands."""
        now = now_ms()
        is_new = self._last_event != self._told_event
        if self._events == self._told_events or not (is_new or now >= self._told_at + TELL_MS):
            return
        self._told_event, self._told_events, self._told_at = self._last_event, self._events, now
        await self.tell(last_event=self._last_event, last_event_at=now, events=self._events)

    async def tell_waiting(self, waits: bool) -> None:
        await self.tell(state=SubAgentState.WAITING if waits else SubAgentState.RUNNING)

    async def tell(self, **facts: object) -> None:
        def job(tx: Transaction) -> None:
            note_sub_agent(tx, self._held, **facts)

        await writer.write(self._held.workspace_id, job)
