"""An MCP server ends with its workspace and with ours, whichever way that ends."""

import asyncio
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.calling import call, eventually, run_call, until
from tests.acceptance.harness.processes import marked
from tests.acceptance.harness.shapes import Server, Shape
from tests.acceptance.marked import linux_only
from tests.acceptance.mcp.servers import on_stdio, states, until_state
from tests.acceptance.mcp.sitting import Connect, MakeProject, sit


def _living(pids: list[int]) -> list[int]:
    return [pid for pid in pids if _is_living(pid)]


def _is_living(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@linux_only
async def test_a_closed_workspace_ends_its_servers_and_their_processes(
    hosting: Server, connect: Connect, project: MakeProject
) -> None:
    seat = await sit(hosting, connect, project("closing", mcp={"s": on_stdio(), "t": on_stdio()}))
    session = await seat.workspace.session()
    spawned = json.loads((await run_call(seat, session, call("mcp_s_spawn")))["content"])
    pids = [spawned["pid"], spawned["child"]]
    assert _living(pids) == pids
    connected_at = (await states(seat))["s"]["connected_at"]
    await seat.workspace.release()
    await eventually(lambda: _living(pids) == [], "server and child are gone")
    # Opened again, everything is there again.
    again = await sit(hosting, connect, seat.workspace.path)

    async def is_new() -> dict[str, Any] | None:
        shown = (await states(again)).get("s", {})  # that of the first one goes a moment behind it
        is_up = shown.get("state") == "connected" and shown["connected_at"] != connected_at
        return shown if is_up else None

    assert (await until(is_new, "another one is connected"))["tool_count"] == 11
    result = await run_call(again, session, call("mcp_s_add", first=1, second=1))
    assert result["content"] == "2"


@linux_only
@pytest.mark.parametrize("with_supervisor", [False, True])
async def test_nothing_of_a_killed_server_is_left_after_its_next_start(
    with_supervisor: bool,
    embedded_server: Server,
    connect: Connect,
    project: MakeProject,
) -> None:
    server = embedded_server
    path = project("killed", mcp={"s": on_stdio()})
    seat = await sit(server, connect, path)
    session = await seat.workspace.session()
    spawned = json.loads((await run_call(seat, session, call("mcp_s_spawn")))["content"])
    pids = [spawned["pid"], spawned["child"]]
    if with_supervisor:
        supervisors = _supervisors_of(server.pids()[0])
        assert supervisors
        # None may see another's end, and tidy up; the server would end a starter that is stopped.
        _signal_all([server.pids()[0], *supervisors], signal.SIGSTOP)
        server.kill9()
        _signal_all(supervisors, signal.SIGKILL)
        assert _living([spawned["child"]])
    else:
        server.kill9()
    await asyncio.to_thread(server.start)
    await eventually(lambda: _living(pids) == [], "server and child are gone")
    again = await sit(server, connect, path)
    assert (await until_state(again, "s", "connected"))["tool_count"] == 11
    result = await run_call(again, session, call("mcp_s_add", first=1, second=1))
    assert result["content"] == "2"


def _supervisors_of(pid: int) -> list[int]:
    """The process that starts commands, and each command's own, which would tidy up."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(folder.name))
    below, edge = [], [pid]
    while edge:
        found = children.get(edge.pop(), [])
        below += found
        edge += found
    return [one for one in below if b"supervise.py" in _command_line(one)]


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _signal_all(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


@linux_only
async def test_a_server_that_stops_leaves_no_process(
    make_a_server: Callable[..., Server], connect: Connect, project: MakeProject
) -> None:
    server = make_a_server(Shape.EMBEDDED)
    server.start()
    seat = await sit(server, connect, project("stopping", mcp={"s": on_stdio()}))
    await until_state(seat, "s", "connected")
    await asyncio.to_thread(server.stop)
    assert "did not stop in time" not in server.log_text()
    # The kernel takes a moment for each process that ends behind the server.
    await eventually(
        lambda: marked(f"CRUSH_DATA_DIR={server.data_dir}") == [], "no process is left"
    )
    assert "was never retrieved" not in server.log_text()
    assert "Traceback" not in server.log_text()
