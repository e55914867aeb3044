"""Calls that are cut when the server dies: repeated under the same key, if their server allows it."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.calling import call, eventually, results
from tests.acceptance.harness.shapes import Server, Shape
from tests.acceptance.mcp.servers import on_stdio
from tests.acceptance.mcp.sitting import Connect, MakeProject, sit


@pytest.mark.parametrize("tool", ["sure", "unsure"])
async def test_a_cut_call_runs_again_only_if_its_server_declares_it_repeatable(
    tool: str,
    make_a_server: Callable[..., Server],
    connect: Connect,
    project: MakeProject,
    tmp_path: Path,
) -> None:
    server = make_a_server(Shape.EMBEDDED)
    await asyncio.to_thread(server.start)
    notes = tmp_path / "notes"
    mcp = {"s": on_stdio("--repeatable", env={"MCP_NOTES": str(notes)})}
    path = project("repeating", mcp=mcp)
    seat = await sit(server, connect, path)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, call(f"mcp_s_{tool}"), "cut")
    await eventually(lambda: keys_in(notes) != [], "the call")
    await asyncio.to_thread(server.kill9)
    await asyncio.to_thread(server.start)
    seat = await sit(server, connect, path)
    await seat.stream.run_complete(session, "cut")
    (result,) = results(await seat.workspace.messages(session))
    keys = keys_in(notes)
    if tool == "sure":
        assert (result["content"], result["is_error"]) == ("done", False)
        assert len(keys) == 2
        assert keys[0] == keys[1] != "None"
    else:
        assert result["is_error"]
        assert "unknown" in result["content"]
        assert len(keys) == 1


def keys_in(notes: Path) -> list[str]:
    lines = notes.read_text().splitlines() if notes.exists() else []
    return [line.removeprefix("key ") for line in lines if line.startswith("key ")]
