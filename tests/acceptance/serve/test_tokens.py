"""Programs that sign in with a token: what they may do, and how a token ends."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio

from tests.acceptance.conversation import SHORT, Seat, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.commands import Done, command
from tests.acceptance.harness.http import UnexpectedStatus
from tests.acceptance.harness.native import NativeSocket, NativeSse
from tests.acceptance.harness.shapes import Server

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]
SignIn = Callable[[str], Client]


async def manage(server: Server, *arguments: str, stdin: str = "") -> Done:
    done = await asyncio.to_thread(command, server.env, *arguments, stdin=stdin)
    assert done.code == 0, done
    return done


async def a_token(server: Server, *arguments: str) -> str:
    done = await manage(server, "token", "create", "test", *arguments)
    return done.out.strip()


@pytest_asyncio.fixture
async def sign_in(shared_server: Server) -> AsyncIterator[SignIn]:
    """`sign_in(token)`: a client that sends it."""
    clients: list[Client] = []

    def make(token: str) -> Client:
        clients.append(Client(shared_server.url, token=token))
        return clients[-1]

    yield make
    for client in clients:
        await client.close()


@pytest.fixture
async def seat(shared_server: Server, connect: Connect, project: MakeProject) -> Seat:
    """The owner in a workspace."""
    return await take_seat(connect(shared_server), project("shared"))


async def refused(client: Client, method: str, path: str, body: object = None) -> tuple[int, str]:
    with pytest.raises(UnexpectedStatus) as error:
        await client.http.call(method, path, body)
    return error.value.status, error.value.message


async def test_the_owners_token_works_and_is_shown_once(
    shared_server: Server, seat: Seat, sign_in: SignIn
) -> None:
    token = await a_token(shared_server)
    client = sign_in(token)
    other = await take_seat(client, seat.workspace.path)
    session = await other.workspace.session()
    await other.workspace.prompt(session, SHORT)
    await seat.stream.run_complete(session)
    listed = await manage(shared_server, "token", "list")
    assert token not in listed.out
    assert token[:12] in listed.out
    assert token not in shared_server.log_text()


@pytest.mark.parametrize("token", ["wrong", "crush_wrong", "crush_" + "x" * 43])
async def test_a_wrong_token_is_refused_although_the_process_is_the_owners(
    sign_in: SignIn, token: str
) -> None:
    status, message = await refused(sign_in(token), "GET", "/v1/workspaces")
    assert status == 401
    assert "token" in message


async def test_guessing_is_slowed_down_and_costs_right_holders_nothing(
    server: Server, connect: Connect
) -> None:
    token = await a_token(server)
    statuses = []
    # The first page takes as long as several pauses: the files of pages are collected before it.
    async with aiohttp.ClientSession() as browser, browser.get(f"{server.url}/sign-in/") as answer:
        assert answer.status == 200
    async with Client(server.url, token="crush_" + "x" * 43) as guesser:
        for _ in range(22):
            async with guesser.http.session.get(f"{server.url}/v1/workspaces") as answer:
                statuses.append(answer.status)
        assert statuses[:20] == [401] * 20
        assert statuses[-1] == 429
        assert 0 < int(answer.headers["Retry-After"]) <= 4
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await guesser.http.session.ws_connect(f"{server.url}/api/workspaces/w/stream")
        assert refused.value.status == 429
    async with Client(server.url, token=token) as holder:
        assert await holder.workspaces() == []
    assert await connect(server).workspaces() == []  # the owner
    link = f"{server.url}/sign-in/link/?key=wrong"
    async with aiohttp.ClientSession() as browser, browser.get(link) as answer:
        assert answer.status == 429


async def test_a_viewer_sees_and_does_nothing_else(
    shared_server: Server, seat: Seat, sign_in: SignIn, project: MakeProject
) -> None:
    name = f"viewer-{seat.workspace.id[:8]}"
    await manage(shared_server, "user", "add", name, "--no-password")
    await manage(shared_server, "user", "role", name, seat.workspace.id, "viewer")
    client = sign_in(await a_token(shared_server, "--user", name))
    base = f"/v1/workspaces/{seat.workspace.id}"
    session = await seat.workspace.session()
    assert [w["id"] for w in await client.workspaces()] == [seat.workspace.id]
    assert len(await client.http.call("GET", f"{base}/sessions")) == 1
    for method, path, body in [
        ("POST", f"{base}/agent", {"session_id": session, "prompt": "x"}),
        ("POST", f"{base}/agent/sessions/{session}/cancel", {}),
        ("POST", f"{base}/permissions/grant", {"permission": {"id": "x"}, "action": "allow"}),
        ("POST", "/v1/workspaces", {"path": str(project("other")), "client_id": CLIENT}),
        ("POST", "/v1/control", {"command": "shutdown"}),
    ]:
        assert (await refused(client, method, path, body))[0] == 403, path
    await manage(shared_server, "user", "role", name, seat.workspace.id, "none")

    async def is_out() -> bool:
        return not await client.workspaces()

    async with asyncio.timeout(60):
        while not await is_out():
            await asyncio.sleep(0.1)
    assert (await refused(client, "GET", f"{base}/sessions"))[0] == 403


CLIENT = "0b8d6c4e-7a35-4e67-9a6b-0f9c1f9a7d11"


async def test_scopes_narrow_a_token(shared_server: Server, seat: Seat, sign_in: SignIn) -> None:
    client = sign_in(
        await a_token(shared_server, "--scope", "read", "--workspace", seat.workspace.id)
    )
    base = f"/v1/workspaces/{seat.workspace.id}"
    await client.http.call("GET", f"{base}/sessions")
    assert (await refused(client, "POST", f"{base}/sessions", {"title": "x"}))[0] == 403


async def test_a_revoked_token_ends_its_streams_in_mid_word(
    shared_server: Server, seat: Seat, sign_in: SignIn
) -> None:
    token = await a_token(shared_server)
    client = sign_in(token)
    socket = await NativeSocket(client.http, seat.workspace.id).open()
    sse = await NativeSse(client.http, seat.workspace.id).open()
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, "[[n=20000 d=20]]")
    await socket.wait_for(lambda item: item.type == "delta")
    await sse.wait_for(lambda item: item.type == "delta")
    await manage(shared_server, "token", "revoke", token[:12])
    assert "4401" in await socket.wait_end()
    await sse.wait_end()
    seen = len(socket.received), len(sse.received)
    await seat.workspace.cancel(session)
    await seat.stream.run_complete(session)
    assert (len(socket.received), len(sse.received)) == seen
    status, message = await refused(client, "GET", "/v1/workspaces")
    assert status == 401
    assert "revoked" in message


async def test_a_disabled_user_is_kept_out(
    shared_server: Server, seat: Seat, sign_in: SignIn
) -> None:
    name = f"gone-{seat.workspace.id[:8]}"
    done = await asyncio.to_thread(
        command, shared_server.env, "user", "add", name, "--password-stdin", stdin="short\n"
    )
    assert done.code == 1
    assert "too short" in done.err
    await manage(
        shared_server, "user", "add", name, "--staff", "--password-stdin", stdin="a long phrase 7\n"
    )
    client = sign_in(await a_token(shared_server, "--user", name))
    assert seat.workspace.id in [w["id"] for w in await client.workspaces()]
    await manage(shared_server, "user", "disable", name)

    async def status() -> int:
        try:
            await client.workspaces()
        except UnexpectedStatus as error:
            return error.status
        return 200

    async with asyncio.timeout(60):
        while await status() != 401:
            await asyncio.sleep(0.1)
    await manage(shared_server, "user", "enable", name)
    async with asyncio.timeout(60):
        while await status() != 200:
            await asyncio.sleep(0.1)
