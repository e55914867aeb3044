"""The one door to everything that needs the protocol's package, which takes a second to load.

Imported in a thread, at the first server that is started, and nowhere at the top
of a module that a server's start loads.
"""

from __future__ import annotations

from agents.tools.mcp.attempt import Attempt
from agents.tools.mcp.connection import Connection
from agents.tools.mcp.login import Login
from agents.tools.mcp.session import live

__all__ = ["Attempt", "Connection", "Login", "live"]
