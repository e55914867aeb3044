"""What a connection is made of, and what is seen while it is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agents.tools.mcp.login import Login
from agents.tools.mcp.stdio import Child
from workspaces.config.settings import McpSettings


@dataclass(slots=True)
class Attempt:
    """``child`` is known from the moment it is started."""

    settings: McpSettings
    cwd: Path
    env: Mapping[str, str] = field(repr=False)
    leave_seconds: float
    login: Login | None = None
    renew: bool = False
    child: Child | None = None
    was_refused: bool = False  # for want of a login

    def may_log_in(self) -> bool:
        """Asked when the server refuses us."""
        may = self.login is not None and self.login.is_interactive
        self.was_refused = self.was_refused or not may
        return may

    def said(self) -> str:
        return self.child.said() if self.child is not None else ""
