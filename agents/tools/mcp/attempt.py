"""What a connection is made of, and what is seen while it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agents.config.settings import McpSettings
from agents.tools.mcp.contract import McpFailed
from agents.tools.mcp.limits import Patience
from agents.tools.mcp.login import Login
from agents.tools.mcp.stdio import McpProcess


@dataclass(slots=True)
class McpAttempt:
    """``child`` is known from the moment it is started."""

    settings: McpSettings
    cwd: Path
    env: Mapping[str, str] = field(repr=False)
    patience: Patience
    login: Login | None = None
    renew: bool = False
    handshake_only: bool = False  # the server ended when it was asked for its revision
    child: McpProcess | None = None
    is_probing: bool = False  # the answer decides which era of the protocol is spoken
    was_refused: bool = False  # for want of a login
    status: int = 0  # of the last answer over HTTP, where it was no success
    lost_session: bool = False  # the server does not know our session
    fault: McpFailed | None = None  # the first one below the protocol
    on_fault: Callable[[], None] | None = field(default=None, repr=False)

    def may_log_in(self) -> bool:
        """Asked when the server refuses us."""
        may = self.login is not None and self.login.is_interactive
        self.was_refused = self.was_refused or not may
        return may

    def fail(self, fault: McpFailed) -> McpFailed:
        """Ends the connection: the package may keep what its transport raises to itself."""
        if self.fault is None:
            self.fault = fault
        if self.on_fault is not None:
            self.on_fault()
        return fault

    def said(self) -> str:
        return self.child.said() if self.child is not None else ""
