"""Where TCP does not identify who connects, commands use a token file; a phone gets a QR code."""

import asyncio
from pathlib import Path

import aiohttp

from crushsite.server_client import LOCAL_TOKEN_FILE, find_running_server
from tests.acceptance.conftest import MakeServer
from tests.acceptance.harness.commands import command
from tests.acceptance.harness.shapes import Server, Shape


async def started(make_a_server: MakeServer, **env: str) -> Server:
    server = make_a_server(Shape.EMBEDDED, env=env)
    await asyncio.to_thread(server.start)
    return server


def data_of(server: Server) -> Path:
    return Path(server.env["CRUSH_DATA_DIR"])


async def status(server: Server) -> int:
    url = f"{server.url}/v1/workspaces"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status


async def workspaces(server: Server) -> object:
    """As commands get them."""
    found = await asyncio.to_thread(find_running_server, data_of(server))
    assert found is not None
    return await asyncio.to_thread(found.call, "GET", "/v1/workspaces")


async def test_only_commands_with_the_file_are_the_owner(make_a_server: MakeServer) -> None:
    server = await started(make_a_server, CRUSH_LOCAL_TOKEN="1")
    file = data_of(server) / LOCAL_TOKEN_FILE
    assert file.stat().st_mode & 0o777 == 0o600
    assert await status(server) == 401
    assert await workspaces(server) == []
    token = file.read_text()
    assert token not in server.log_text()
    await asyncio.to_thread(server.stop)
    await asyncio.to_thread(server.start)
    assert file.read_text() == token  # commands that run meanwhile go on
    assert await workspaces(server) == []
    done = await asyncio.to_thread(command, server.env, "token", "revoke", token[:12])
    assert done.code == 0, done
    await asyncio.to_thread(server.stop)
    await asyncio.to_thread(server.start)
    assert file.read_text() != token
    assert await workspaces(server) == []


async def test_commands_work_behind_a_proxy_and_print_a_code_for_phones(
    make_a_server: MakeServer,
) -> None:
    server = await started(make_a_server, CRUSH_PUBLIC_URL="https://crush.example.com")
    assert await status(server) == 401
    assert await workspaces(server) == []
    done = await asyncio.to_thread(command, server.env, "login-link")
    assert done.code == 0, done
    assert done.out.startswith("https://crush.example.com/sign-in/link/?key=")
    assert len(done.out.splitlines()) == 1
    assert "\N{LOWER HALF BLOCK}" in done.err


async def test_without_need_there_is_no_file_and_no_code(make_a_server: MakeServer) -> None:
    server = await started(make_a_server)
    assert not (data_of(server) / LOCAL_TOKEN_FILE).exists()
    assert await status(server) == 200
    done = await asyncio.to_thread(command, server.env, "login-link")
    assert done.err == ""
