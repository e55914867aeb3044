"""The protocol of a turn host, and the rights of a sub-agent's turns."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from agents.fleet.wire.frames import RunFrame


@dataclass(frozen=True, slots=True)
class TurnRules:
    # The parent answers permission requests; otherwise they are denied.
    relays_approvals: bool = True
    max_rounds: int | None = None
    timeout_seconds: float | None = None


class TurnHost(Protocol):
    """Performs turns, with a database and workers."""

    @property
    def parent_session_id(self) -> str:
        """The parent session of assignments' sessions; empty if they have none."""

    @property
    def rules(self) -> TurnRules: ...

    def working(self, session_id: str, run: RunFrame) -> AbstractAsyncContextManager[str]:
        """Keeps a workspace open during one assignment and yields its id. Raises ``Refusal``."""

    def feed(self, workspace_id: str, after: int | None) -> AsyncIterator[bytes]:
        """Yields the workspace's native stream in its WebSocket encoding."""
