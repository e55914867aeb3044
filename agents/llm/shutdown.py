"""Closing what the wires hold open, if any was ever loaded."""

from __future__ import annotations

import sys


async def end_connections() -> None:
    """Does not import the wires' HTTP client only to close it."""
    if "agents.llm.connections" in sys.modules:
        from agents.llm.connections import close_connections  # noqa: PLC0415  it is loaded already

        await close_connections()
    if "agents.llm.wires.local.engine" in sys.modules:
        from agents.llm.wires.local.engine import close_engine  # noqa: PLC0415  it is loaded already

        await close_engine()
