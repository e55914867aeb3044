"""The one door to everything that needs the protocol's package, which takes a second to load.

Imported in a thread, at the first server that is started, and nowhere at the top
of a module that a server's start loads.
"""

from __future__ import annotations

from agents.tools.mcp.connection import Attempt, Connection, connected
from agents.tools.mcp.failures import failure_of
from agents.tools.mcp.login import Login, key_of

__all__ = ["Attempt", "Connection", "Login", "connected", "failure_of", "key_of"]
