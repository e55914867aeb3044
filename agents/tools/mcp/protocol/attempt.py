"""The inputs of a connection attempt, and what the attempt observes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agents.config.settings import McpSettings
from agents.tools.mcp.contract import McpFailed
from agents.tools.mcp.limits import McpTimeouts
from agents.tools.mcp.protocol.login import Login
from agents.tools.mcp.protocol.stdio import McpProcess


@dataclass(slots=True)
class McpAttempt:
    """One attempt to connect. ``child`` is set as soon as the process has started."""

    settings: McpSettings
    cwd: Path
    env: Mapping[str, str] = field(repr=False)
    timeouts: McpTimeouts
    login: Login | None = None
    renew: bool = False
    handshake_only: bool = False  # the server exited on the request for its revision
    child: McpProcess | None = None
    is_probing: bool = False  # the response decides which generation of the protocol to use
    was_refused: bool = False  # because no login is possible
    status: int = 0  # of the last HTTP response, if it was an error
    lost_session: bool = False  # the server has no such session
    fault: McpFailed | None = None  # the first failure below the protocol
    on_fault: Callable[[], None] | None = field(default=None, repr=False)

    def may_log_in(self) -> bool:
        """Returns whether a login may follow the server's refusal; if not, records the refusal."""
        may = self.login is not None and self.login.is_interactive
        self.was_refused = self.was_refused or not may
        return may

    def fail(self, fault: McpFailed) -> McpFailed:
        """Ends the connection, because the package may swallow what its transport raises."""
        if self.fault is None:
            self.fault = fault
        if self.on_fault is not None:
            self.on_fault()
        return fault

    def stderr(self) -> str:
        return self.child.stderr() if self.child is not None else ""
