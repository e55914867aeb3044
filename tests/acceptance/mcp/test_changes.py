"""What changes at an MCP server or in the configuration reaches clients and models."""

import json
from pathlib import Path
from typing import Any

from tests.acceptance.calling import call, run_call, until
from tests.acceptance.harness.project import write_whole
from tests.acceptance.harness.shapes import Server
from tests.acceptance.mcp.servers import on_stdio, states, until_state
from tests.acceptance.mcp.sitting import Connect, MakeProject, sit


async def test_a_changed_list_of_tools_reaches_clients_and_the_next_prompt(
    hosting: Server, connect: Connect, project: MakeProject
) -> None:
    seat = await sit(hosting, connect, project("learning", mcp={"s": on_stdio()}))
    session = await seat.workspace.session()
    before = await run_call(seat, session, call("mcp_s_fresh_one"))
    assert "There is no tool" in before["content"]
    await run_call(seat, session, call("mcp_s_learn", tool="fresh_one"))
    notified = await seat.stream.wait_for(
        lambda e: e.type == "mcp_event" and e.payload["type"] == "tools_list_changed"
    )
    assert notified.payload["tool_count"] == 12
    assert notified.payload["state"] == "connected"
    assert (await states(seat))["s"]["tool_count"] == 12
    after = await run_call(seat, session, call("mcp_s_fresh_one"))
    assert after["content"] == "fresh"


async def test_a_changed_configuration_restarts_only_what_changed(
    hosting: Server, connect: Connect, project: MakeProject, tmp_path: Path
) -> None:
    def entry(name: str, **more: str) -> dict[str, Any]:
        return on_stdio(env={"MCP_NOTES": str(tmp_path / name), **more})

    path = project("changing", mcp={"kept": entry("kept"), "changed": entry("changed")})
    seat = await sit(hosting, connect, path)
    for name in ("kept", "changed"):
        await until_state(seat, name, "connected")
    file = path / "crush.json"
    configuration = json.loads(file.read_text())
    configuration["mcp"]["changed"] = entry("changed", MORE="new")
    configuration["mcp"]["added"] = entry("added")
    start = seat.stream.mark()
    write_whole(file, json.dumps(configuration))
    await until_state(seat, "added", "connected", start=start)
    await until_state(seat, "changed", "connected", start=start)
    session = await seat.workspace.session()
    result = await run_call(seat, session, call("mcp_changed_environment", variable="MORE"))
    assert result["content"] == "new"
    starts = {p: (tmp_path / p).read_text().count("started") for p in ("kept", "changed", "added")}
    assert starts == {"kept": 1, "changed": 2, "added": 1}
    del configuration["mcp"]["added"]
    write_whole(file, json.dumps(configuration))

    async def is_removed() -> bool:
        return "added" not in await states(seat)

    await until(is_removed, "a server that is configured no more is forgotten")
    removed = await run_call(seat, session, call("mcp_added_add", first=1, second=1))
    assert "There is no tool" in removed["content"]


async def test_tools_are_switched_off_and_chosen_by_configuration(
    hosting: Server, connect: Connect, project: MakeProject
) -> None:
    servers = {
        "some": on_stdio(disabled_tools=["crash", "learn"]),
        "few": on_stdio(enabled_tools=["add", "odd name/é"]),
    }
    path = project("chosen", mcp=servers, options={"disabled_tools": ["mcp_some_fail"]})
    seat = await sit(hosting, connect, path)
    assert (await until_state(seat, "some", "connected"))["tool_count"] == 9
    assert (await until_state(seat, "few", "connected"))["tool_count"] == 2
    session = await seat.workspace.session()
    for name in ("mcp_some_crash", "mcp_few_fail", "mcp_some_fail"):
        result = await run_call(seat, session, call(name, why="x"))
        assert "There is no tool" in result["content"], name
    assert (await run_call(seat, session, call("mcp_few_odd_name__")))["content"] == "odd"
