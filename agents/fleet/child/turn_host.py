"""Where a sub-agent's turns are worked on, and by which rules."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from agents.fleet.wire import RunFrame


@dataclass(frozen=True, slots=True)
class TurnRules:
    asks: bool = True  # the parent answers for permissions; else they are denied
    max_rounds: int | None = None
    timeout_seconds: float | None = None


class TurnHost(Protocol):
    """Where turns are worked on."""

    @property
    def parent_session_id(self) -> str:
        """Above the sessions of assignments; empty where they stand alone."""

    @property
    def rules(self) -> TurnRules: ...

    def working(self, session_id: str, run: RunFrame) -> AbstractAsyncContextManager[str]:
        """Around one assignment: gives the id of the workspace, which stays open meanwhile.

        Raises ``Refusal``.
        """

    def feed(self, workspace_id: str, after: int | None) -> AsyncIterator[bytes]:
        """The workspace's native stream, as WebSockets send it."""
