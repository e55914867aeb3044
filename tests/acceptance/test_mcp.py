"""MCP servers, real ones, through a running server: what clients see of them and models get of them."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.calling import call, run_call
from tests.acceptance.conversation import Seat, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.shapes import Server, Shape
from tests.acceptance.mcp_servers import Distant, on_stdio, states, until_state

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]
MakeDistant = Callable[..., Distant]

NEVER = "0001-01-01T00:00:00Z"
OAUTH = "tests/doubles/mcp_oauth.py"
linux_only = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")


@pytest.fixture
def distant(tmp_path: Path) -> Iterator[MakeDistant]:
    """`distant("http")`: a started server, ended after the test."""
    made: list[Distant] = []

    def make(kind: str, *args: str, **options: Any) -> Distant:
        server = Distant(kind, tmp_path, *args, **options)
        made.append(server)
        server.start()
        return server

    yield make
    for server in made:
        server.kill9()


@pytest.fixture
def hosting(kept_servers: Callable[[Shape], Server], request: pytest.FixtureRequest) -> Server:
    """The embedded server that tests share: it hosts by itself what a workspace names."""
    return kept_servers(Shape.EMBEDDED)


async def sit(
    server: Server, connect: Connect, path: Path, *, yolo: bool = True, **more: Any
) -> Seat:
    return await take_seat(connect(server), path, yolo=yolo, **more)


@pytest.mark.parametrize("kind", ["stdio", "http", "sse"])
async def test_a_server_of_each_kind_connects_and_its_tools_are_called(
    kind: str,
    shared_server: Server,
    connect: Connect,
    project: MakeProject,
    distant: MakeDistant,
    model: ScriptedModel,
) -> None:
    entry = on_stdio() if kind == "stdio" else distant(kind).entry
    seat = await sit(shared_server, connect, project(f"kind-{kind}", mcp={"s": entry}))
    session, mark = await seat.workspace.session(), uuid.uuid4().hex
    result = await run_call(seat, session, f"{mark} {call('mcp_s_add', first=20, second=22)}")
    assert result["content"] == "42"
    assert not result["is_error"]
    told = await until_state(seat, "s", "connected")
    assert told == {
        "type": "state_changed",
        "name": "s",
        "state": "connected",
        "tool_count": 11,
        "prompt_count": 1,
        "resource_count": 2,
    }
    shown = (await states(seat))["s"]
    assert shown.pop("connected_at") > NEVER
    assert shown == {key: value for key, value in told.items() if key != "type"}
    # The model is told each tool by a name that every provider takes, with the server's schema.
    number = next(entry["number"] for entry in model.served(mark) if not entry["title"])
    tools = {t["function"]["name"]: t["function"] for t in model.request(number)["body"]["tools"]}
    assert tools["mcp_s_add"]["description"] == "Adds two numbers."
    assert set(tools["mcp_s_add"]["parameters"]["properties"]) == {"first", "second"}
    assert "mcp_s_odd_name__" in tools
    assert (await run_call(seat, session, call("mcp_s_odd_name__")))["content"] == "odd"
