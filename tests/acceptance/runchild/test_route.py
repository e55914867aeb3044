"""The same conversation behind the server's own route."""

from collections.abc import Callable
from typing import Any

import aiohttp
import pytest

from tests.acceptance.calling import until
from tests.acceptance.conftest import MakeProject
from tests.acceptance.harness.shapes import Server
from tests.acceptance.runchild.turns import TOKEN, Connect, answered, bash
from tests.integration.fleet.children import dialled, terminal


def route(server: Server) -> str:
    return server.url.replace("http://", "ws://") + "/fleet/child"


async def _status(url: str, headers: dict[str, str]) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session:
        upgrade = {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        }
        url = url.replace("ws://", "http://")
        async with session.get(url, headers=upgrade | headers) as answer:
            return answer.status, await answer.text()


async def test_without_a_token_there_is_no_route(embedded_server: Server) -> None:
    for headers in ({}, {"Authorization": "Bearer "}, {"Authorization": f"Bearer {TOKEN}"}):
        assert (await _status(route(embedded_server), headers))[0] == 404


@pytest.mark.server_env(CRUSH_FLEET_TOKEN=TOKEN, CRUSH_FLEET_EXECUTOR="script")
async def test_a_connection_needs_the_token(embedded_server: Server) -> None:
    url = route(embedded_server)
    for given in ("", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer \u00e9"):
        status, text = await _status(url, {"Authorization": given} if given else {})
        assert status == 401
        assert TOKEN not in text
    assert TOKEN not in embedded_server.log_text()


@pytest.mark.server_env(CRUSH_FLEET_TOKEN=TOKEN, CRUSH_FLEET_EXECUTOR="script")
async def test_the_route_serves_the_same_conversation(embedded_server: Server) -> None:
    async with at_route(embedded_server) as parent, at_route(embedded_server) as other:
        await parent.run("__stream:10000:0 __approve:Write")
        request = await parent.until("approval_request")
        assert (await other.outcome("mine"))["result"] == "echo: mine"
        await parent.send({"kind": "approval_reply", "id": request["id"], "approved": True})
        assert (await parent.frames())[-1]["result"] == "echo: approved=true"
        await parent.run("__stream:100000000:0")
        await parent.frame()
        await parent.send({"kind": "cancel"})
        assert (await parent.frames())[-1] == terminal("cancelled")
        await parent.send("nonsense")
        await parent.run("__sleep_ms:60000")
        await parent.run("next " + "x" * 2_000_000)
        assert await parent.frame() == terminal("cancelled")
        assert len((await parent.frames())[-1]["result"]) > 2_000_000
        await parent.run("__sleep_ms:60000")
    async with at_route(embedded_server) as parent:

        async def is_alone() -> bool:
            return "active=1" in (await parent.outcome("__stats"))["result"]

        await until(is_alone, "the runs of those that have left are over")


@pytest.mark.server_env(CRUSH_FLEET_TOKEN=TOKEN)
async def test_without_a_workspace_the_route_runs_no_turns(embedded_server: Server) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    assert (await _status(route(embedded_server), headers))[0] == 404


async def test_a_turn_on_the_server_is_visible_to_the_workspaces_clients(
    make_a_server: Callable[..., Server],
    project: MakeProject,
    connect: Connect,
    shape: Any,
) -> None:
    path = project()
    env = {"CRUSH_FLEET_TOKEN": TOKEN, "CRUSH_FLEET_WORKSPACE": str(path)}
    server = make_a_server(shape, env=env)
    server.start()
    workspace = await connect(server).workspace(path)
    async with at_route(server) as parent:
        await parent.run(bash("touch routed.txt") + " [[id=r]]")
        body, frames = await answered(parent, approved=True)
    assert body["tool_name"] == "bash"
    assert frames[-1]["result"].split() == ["r-0", "r-1"]
    assert (path / "routed.txt").exists()
    (session,) = await workspace.sessions()
    assert session["message_count"] == 4


def at_route(server: Server) -> Any:
    return dialled(route(server), headers={"Authorization": f"Bearer {TOKEN}"})
