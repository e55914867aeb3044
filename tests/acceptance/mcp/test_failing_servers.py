"""MCP servers that crash, hang or are not there never stop a turn."""

import asyncio
import json
import shlex
import sys
import uuid
from typing import Any

from tests.acceptance.calling import call, run_call, until
from tests.acceptance.conversation import Seat
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.shapes import Server
from tests.acceptance.mcp.servers import DOUBLE, on_stdio, states, until_state
from tests.acceptance.mcp.sitting import NEVER, Connect, MakeDistant, MakeProject, sit
from tests.acceptance.watching import LogWatch
from tests.doubles.tcp_proxy import TcpProxy


async def test_a_crash_is_a_tool_error_and_the_server_is_restarted(
    hosting: Server, connect: Connect, project: MakeProject
) -> None:
    log = LogWatch(hosting)
    entry = on_stdio(env={"DOUBLES_KEY": "s3cret-stderr-value"})
    seat = await sit(hosting, connect, project("crash", mcp={"s": entry}))
    session = await seat.workspace.session()
    start = seat.stream.mark()
    crashed = await run_call(seat, session, call("mcp_s_crash"))
    assert crashed["is_error"]
    assert "ended with exit code 7" in crashed["content"]
    assert "about to crash with" in crashed["content"]
    failed = await until_state(seat, "s", "error")
    assert "exit code 7" in failed["error"]
    await until_state(seat, "s", "connected", start=start)
    after = await run_call(seat, session, call("mcp_s_add", first=1, second=1))
    assert after["content"] == "2"
    state = (await states(seat))["s"]
    assert state["state"] == "connected"
    assert "error" not in state
    # What the server was given is in no answer, event or log.
    seen = json.dumps([event.payload for event in seat.stream.events]) + log.text()
    assert "s3cret-stderr-value" not in seen
    assert log.loud() == []


def _shell(script: str, **more: Any) -> dict[str, Any]:
    """A server that is no Python, whose start takes seconds on a busy machine."""
    return {"type": "stdio", "command": "sh", "args": ["-c", script], **more}


async def test_servers_that_cannot_run_never_stop_a_turn(
    hosting: Server, connect: Connect, project: MakeProject
) -> None:
    log = LogWatch(hosting)
    servers = {
        "missing": {"type": "stdio", "command": "no-such-program-anywhere"},
        "dies": _shell("echo 'no licence: token=abcdef0123456789' >&2; exit 3"),
        "hangs": _shell("echo thinking about it >&2; exec sleep 600", timeout=6),
        "nowhere": {"type": "http", "url": "http://127.0.0.1:1/mcp", "timeout": 2},
        "nonsense": {"type": "stdio", "command": "sh", "args": ["-c", "yes", "x"], "timeout": 2},
        "off": on_stdio(disabled=True),
        "good": on_stdio("--greeting", "hello, I am no message"),
    }
    seat = await sit(hosting, connect, project("failing", mcp=servers))
    await until_state(seat, "good", "connected")
    session = await seat.workspace.session()
    result = await run_call(seat, session, call("mcp_good_add", first=1, second=1))
    assert result["content"] == "2"
    await until_state(seat, "hangs", "error")
    shown = await states(seat)
    assert shown["off"] == {"name": "off", "state": "disabled", "connected_at": NEVER}
    errors = {name: (await until_state(seat, name, "error"))["error"] for name in list(servers)[:5]}
    assert errors["missing"].startswith("The command 'no-such-program-anywhere' was not found")
    assert errors["dies"].startswith("The server ended with exit code 3: no licence")
    assert "abcdef0123456789" not in errors["dies"]
    assert "did not start within 6 seconds" in errors["hangs"]
    assert "thinking about it" in errors["hangs"]
    assert "cannot be reached" in errors["nowhere"]
    assert "did not start within 2 seconds" in errors["nonsense"]
    # To the model they are as if they were not there.
    unknown = await run_call(seat, session, call("mcp_dies_add", first=1, second=1))
    assert "There is no tool" in unknown["content"]
    assert log.loud() == []


async def test_a_restarted_remote_server_is_found_again(
    hosting: Server, connect: Connect, project: MakeProject, distant: MakeDistant
) -> None:
    before, after = distant("http"), distant("http")
    way = TcpProxy("127.0.0.1", before.port)
    entry = {**before.entry, "url": f"http://127.0.0.1:{way.port}/mcp"}
    seat = await sit(hosting, connect, project("anew", mcp={"s": entry}))
    session = await seat.workspace.session()
    await run_call(seat, session, call("mcp_s_add", first=1, second=1))
    # The new one does not know the session: the next call does not even notice.
    way.lead_to(after.port)
    before.kill9()
    result = await run_call(seat, session, call("mcp_s_add", first=1, second=2))
    assert result["content"] == "3", result
    # While it is away a call is an error, and the turn goes on.
    after.kill9()
    away = await run_call(seat, session, call("mcp_s_add", first=1, second=3))
    assert away["is_error"]
    await asyncio.to_thread(after.start)
    await until(lambda: _adds(seat, session), "it is found again", 240)
    way.close()


async def _adds(seat: Seat, session: str) -> bool:
    result = await run_call(seat, session, call("mcp_s_add", first=2, second=2))
    return bool(result["content"] == "4")


async def test_a_prompt_waits_a_second_and_a_late_server_joins_at_the_next_step(
    hosting: Server, connect: Connect, project: MakeProject, model: ScriptedModel
) -> None:
    double = " ".join(map(shlex.quote, [sys.executable, DOUBLE]))
    path = project(
        "late",
        # Who waits for this server to the end waits longer than any limit of this test.
        mcp={"late": _shell(f"while [ ! -e go ]; do sleep 0.05; done; {double}", timeout=280)},
    )
    seat = await sit(hosting, connect, path)
    session, mark = await seat.workspace.session(), uuid.uuid4().hex
    command = "while [ ! -e up ]; do sleep 0.05; done"
    call_bash = json.dumps({"command": command, "description": "waits"})
    await seat.workspace.prompt(session, f"{mark} [[tool=bash {call_bash}]]", "one")
    notified = await seat.stream.wait_for(
        lambda e: e.type == "agent_event" and e.payload["type"] == "mcp_awaited"
    )
    assert notified.payload["servers"] == ["late"]
    await seat.stream.wait_for(lambda e: e.type == "message" and "tool_call" in str(e.payload))
    # The turn went on without the server, and so does another one.
    other = await seat.workspace.session()
    await seat.workspace.prompt(other, "[[n=1]]", "other")
    await seat.stream.run_complete(other, "other")
    (path / "go").touch()
    await until_state(seat, "late", "connected")
    (path / "up").touch()
    await seat.stream.run_complete(session, "one")
    first, second = [entry for entry in model.served(mark) if not entry["title"]]
    offered = [
        {tool["function"]["name"] for tool in model.request(entry["number"])["body"]["tools"]}
        for entry in (first, second)
    ]
    assert "mcp_late_add" not in offered[0]
    assert "mcp_late_add" in offered[1]
    # The second prompt waits no more, and hears nothing of it.
    await seat.workspace.prompt(session, "[[n=1]]", "two")
    await seat.stream.run_complete(session, "two")
    waits = [e for e in seat.stream.of("agent_event") if e.payload["type"] == "mcp_awaited"]
    assert [event.session for event in waits] == [session, other]
