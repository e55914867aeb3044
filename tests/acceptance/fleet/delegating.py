"""Prompts that delegate to sub-agents, and what a test sees of the child sessions."""

import asyncio
from typing import Any

from tests.acceptance.calling import agents, eventually, results
from tests.acceptance.conversation import Seat
from tests.acceptance.fleet.children import (
    listed,
)
from tests.acceptance.harness.shapes import Server


async def run(seat: Seat, session: str, *assignments: str) -> list[dict[str, Any]]:
    """What the calls that sent for these came to."""
    start = seat.stream.mark()
    await seat.workspace.prompt(session, agents(*assignments))
    complete = await seat.stream.run_complete(session, timeout=240, start=start)
    assert "error" not in complete, complete
    return results(await seat.workspace.messages(session))


async def children(seat: Seat, session: str) -> list[dict[str, Any]]:
    return list(await seat.workspace.call("GET", f"/sessions/{session}/children"))


async def idle(seat: Seat, session: str) -> None:
    async with asyncio.timeout(60):
        while (await seat.workspace.agent_session(session))["is_busy"]:
            await asyncio.sleep(0.02)


async def are_listed(server: Server, states: list[str]) -> None:
    """Until an operator sees sub-agents in these states: what they do is written down behind it."""
    await eventually(
        lambda: sorted(row["state"] for row in listed(server)) == states, f"they are {states}"
    )
