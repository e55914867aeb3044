"""Docker's gateway of MCP servers."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.calling import call, run_call
from tests.acceptance.harness.http import UnexpectedStatus
from tests.acceptance.harness.shapes import Server, Shape
from tests.acceptance.mcp.servers import DOUBLE, states, until_state
from tests.acceptance.mcp.sitting import Connect, MakeProject, sit


async def test_dockers_gateway_is_added_to_the_users_configuration_and_removed(
    make_a_server: Callable[..., Server], connect: Connect, project: MakeProject, tmp_path: Path
) -> None:
    server = make_a_server(Shape.EMBEDDED)
    server.start()
    programs = tmp_path / "programs"
    programs.mkdir()
    docker = programs / "docker"
    docker.write_text(
        "#!/bin/sh\n"
        f'[ "$1 $2" = "mcp version" ] && [ -e {programs}/plugin ] && exit 0\n'
        f'[ "$1 $2 $3" = "mcp gateway run" ] && exec {sys.executable} {DOUBLE}\n'
        "exit 1\n"
    )
    without = await sit(server, connect, project("no-docker"), env=["PATH=/nowhere"])
    with pytest.raises(UnexpectedStatus) as refused:
        await without.workspace.call("POST", "/mcp/docker/enable")
    assert refused.value.status == 400
    assert refused.value.message.startswith("docker was not found")
    docker.chmod(0o755)
    path = f"PATH={programs}:{os.environ['PATH']}"
    seat = await sit(server, connect, project("docker"), env=[path])
    with pytest.raises(UnexpectedStatus) as refused:
        await seat.workspace.call("POST", "/mcp/docker/enable")
    assert refused.value.message.startswith("docker has no MCP gateway")
    assert await states(seat) == {}
    (programs / "plugin").touch()
    assert await seat.workspace.call("POST", "/mcp/docker/enable") is None
    await until_state(seat, "docker", "connected")
    shown = await seat.workspace.call("GET", "/config")
    assert shown["mcp"]["docker"]["args"] == ["mcp", "gateway", "run"]
    await seat.stream.wait_for(lambda e: e.type == "config_changed")
    session = await seat.workspace.session()
    assert (await run_call(seat, session, call("mcp_docker_add", first=1, second=1)))[
        "content"
    ] == "2"
    assert await seat.workspace.call("POST", "/mcp/docker/disable") is None
    assert await states(seat) == {}
    assert "mcp" not in await seat.workspace.call("GET", "/config")
    assert await seat.workspace.call("POST", "/mcp/docker/disable") is None
