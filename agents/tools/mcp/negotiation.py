"""Which era of the protocol a server speaks: the handshake of 2025, or the stateless one of 2026.

The package asks for the revision first (``server/discover``) and falls back to
the handshake (``initialize``). Two kinds of older commands need more than that:
those that never answer a request before the handshake, and those that end. The
first get less time to answer than the package gives. The second are started
again for the handshake alone (see ``Keeper``).
"""

from __future__ import annotations

import asyncio
from typing import Any

import mcp_types as types
from mcp import ClientSession, MCPError
from mcp.client._probe import negotiate_auto
from typing_extensions import override

from agents.tools.mcp.attempt import Attempt


class Session(ClientSession):
    """``probe_seconds``: to answer what is asked first; ``None``: what the package gives."""

    probe_seconds: float | None = None

    @override
    async def send_discover(self, version: str) -> dict[str, Any]:
        try:
            async with asyncio.timeout(self.probe_seconds):
                return await super().send_discover(version)
        except TimeoutError:
            raise MCPError(
                types.REQUEST_TIMEOUT, "The server did not answer server/discover."
            ) from None

    @override
    def _absorb_tool_listing(
        self, result: types.ListToolsResult, *, complete: bool
    ) -> types.ListToolsResult:
        for tool in result.tools:
            tool.output_schema = None  # kept for a check that is never made
        return super()._absorb_tool_listing(result, complete=complete)


async def negotiate(session: Session, attempt: Attempt) -> None:
    """Raises what the package raises."""
    if attempt.settings.kind == "sse" or attempt.handshake_only:
        # SSE is a transport of the handshake's era.
        _ = await session.initialize()
        return
    if attempt.settings.kind == "stdio":  # over HTTP a login may come first
        session.probe_seconds = attempt.patience.probe_seconds
    attempt.is_probing = True
    await negotiate_auto(session)
    attempt.is_probing = False
