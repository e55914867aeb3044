"""Sub-agents that the server did not start: on another server, or found by their role."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.calling import agents, bash, permission_request
from tests.acceptance.conversation import take_seat
from tests.acceptance.fleet.children import (
    OWN,
    processes_below,
    served_child,
)
from tests.acceptance.fleet.delegating import idle, run
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.shapes import Server, Shape

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]
MakeServer = Callable[..., Server]
Fleet = Callable[..., Path]
TOKEN = "a-token-for-parents-1234567890"
pytestmark = pytest.mark.timeout(900)  # sub-agents of sub-agents are processes that start in turn


@pytest.mark.server_env(CRUSH_FLEET_TOKEN=TOKEN, CRUSH_FLEET_EXECUTOR="script")
async def test_a_server_is_a_sub_agent_for_parents_with_its_token(
    server: Server, connect: Connect, project: MakeProject
) -> None:
    address = f"ws://127.0.0.1:{server.port}/fleet/child"
    roles = {
        "with": {"endpoint": address, "token": "$FLEET_TOKEN"},
        "wrong": {"endpoint": address, "token": "nothing-1234"},
        "without": {"endpoint": address},
    }
    answers = {}
    for role in roles:
        path = project(f"dials-{role}", fleet=roles, tools={"agent": {"role": role}})
        seat = await take_seat(connect(server), path, env=[f"FLEET_TOKEN={TOKEN}"])
        session = await seat.workspace.session()
        (answers[role],) = await run(seat, session, "far away")
        assert TOKEN not in str(await seat.workspace.config())

    assert answers["with"]["content"] == "echo: far away"
    for role in ("wrong", "without"):
        assert answers[role]["is_error"]
        assert "refused the token" in answers[role]["content"]
        assert "nothing-1234" not in answers[role]["content"]
    assert TOKEN not in server.log_text()


async def test_another_servers_turn_streams_requests_permission_and_is_cancelled(
    make_a_server: MakeServer, connect: Connect, fleet: Fleet, project: MakeProject
) -> None:
    far = project("far")
    env = {"CRUSH_FLEET_TOKEN": TOKEN, "CRUSH_FLEET_WORKSPACE": str(far)}
    there, here = make_a_server(Shape.EMBEDDED, env=env), make_a_server(Shape.EMBEDDED)
    await asyncio.to_thread(there.start)
    await asyncio.to_thread(here.start)
    path = fleet("near", endpoint=f"ws://127.0.0.1:{there.port}/fleet/child", token=TOKEN)
    seat = await take_seat(connect(here), path)
    session = await seat.workspace.session()

    await seat.workspace.prompt(session, agents(bash("touch made-there")))
    request = await permission_request(seat)
    assert request["tool_name"] == "bash"
    assert not (far / "made-there").exists()
    assert await seat.workspace.grant(request) is True
    await seat.stream.run_complete(session)
    assert (far / "made-there").exists()

    watching = await take_seat(connect(there), far)
    await seat.workspace.prompt(session, agents("[[n=40000 d=10]]"))
    begun = await watching.stream.wait_for(lambda e: e.type == "message" and len(e.text) > 20)
    await seat.workspace.cancel(session)
    await idle(watching, begun.session)  # the other server's turn has ended with ours


@pytest.mark.parametrize("command", [OWN, None], ids=["own", "foreign"])
async def test_a_running_sub_agent_is_found_by_its_role(
    embedded_server: Server, connect: Connect, fleet: Fleet, command: tuple[str, ...] | None
) -> None:
    seat = await take_seat(connect(embedded_server), fleet("finds", found_role="librarian"))
    session = await seat.workspace.session()
    (nobody,) = await run(seat, session, "anything")
    assert nobody["is_error"]
    assert "No running sub-agent" in nobody["content"]

    fabric = embedded_server.data_dir / "fabric"
    given = {} if command is None else {"command": command}
    with served_child(fabric, role="librarian", **given):
        for words in ("found once", "found twice"):
            found = (await run(seat, session, words))[-1]
            assert found["content"] == f"echo: {words}"
        assert not processes_below(embedded_server)
