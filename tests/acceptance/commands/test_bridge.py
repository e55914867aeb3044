"""`manage.py bridge`: a stock client, a network that fails, and a server with TLS behind it."""

import asyncio
import json
import random
import socket
import stat
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.commands.conftest import Clients, Elsewhere, Start
from tests.acceptance.conftest import MakeProject
from tests.acceptance.harness.commands import command
from tests.acceptance.harness.http import UnexpectedStatus
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.stream import EventStream
from tests.doubles.tcp_proxy import Mode

CUTS = 16
TOUCH = "[[tool=bash " + json.dumps({"command": "touch made.txt", "description": "Make"}) + "]]"


def finals(stream: EventStream, session: str) -> list[Any]:
    """What a client ends with: the last state of each message, and the ends of runs."""
    messages = {e.payload["id"]: e.payload["parts"] for e in stream.of("message", session)}
    ends = [e.payload for e in stream.of("run_complete", session)]
    return [messages, ends]


async def test_a_conversation_goes_on_when_the_network_returns(
    elsewhere: Elsewhere,
    start_bridge: Start,
    clients: Clients,
    project: MakeProject,
    model: ScriptedModel,
) -> None:
    elsewhere.login()
    _, host = await asyncio.to_thread(start_bridge)
    assert stat.S_IMODE(Path(host.removeprefix("unix://")).stat().st_mode) == 0o600
    workspace = await clients(host).workspace(project())
    stream = await workspace.attach()
    direct = clients(elsewhere.direct, token=elsewhere.token, tls=elsewhere.tls())
    watching = await (await direct.workspace(workspace.path)).attach()
    session = await workspace.session()
    gate = model.new_gate()
    words = f"[[before=400 d=5 id=w gate={gate} hold=300]] {TOUCH}"
    await workspace.prompt(session, words, "run-1")
    await stream.words(session, 5)
    assert (await workspace.agent())["is_busy"]
    elsewhere.network.set_mode(Mode.REFUSE)
    await watching.words(session, 50)  # the run goes on behind the cut network
    # What clients read while they draw answers at once; an act waits for the network.
    async with asyncio.timeout(5):
        assert (await workspace.agent())["is_busy"]
    renaming = asyncio.create_task(workspace.rename(session, "Renamed meanwhile"))
    await asyncio.sleep(0.5)
    assert not renaming.done()
    elsewhere.network.set_mode(Mode.PASS)
    assert (await renaming)["title"] == "Renamed meanwhile"
    model.open_gate(gate)
    asked = await stream.wait_for(lambda e: e.type == "permission_request")
    elsewhere.network.set_mode(Mode.REFUSE)
    elsewhere.network.set_mode(Mode.PASS)
    assert await workspace.grant(asked.payload)
    ended = await stream.run_complete(session, "run-1")
    assert ended == await watching.run_complete(session, "run-1")
    assert (workspace.path / "made.txt").exists()
    assert finals(stream, session) == finals(watching, session)
    assert stream.ended is None
    assert stream.comments == []


async def test_cuts_in_the_middle_of_a_word_lose_and_repeat_nothing(
    elsewhere: Elsewhere, start_bridge: Start, clients: Clients, project: MakeProject
) -> None:
    seed = random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}")  # shown when it fails
    chance = random.Random(seed)
    elsewhere.login()
    _, host = await asyncio.to_thread(start_bridge)
    workspace = await clients(host).workspace(project())
    stream = await workspace.attach()
    session = await workspace.session()
    await workspace.prompt(session, "[[n=2000 d=8 reason=50 id=word-é-😀]]", "run-1")
    network = elsewhere.network
    async with asyncio.timeout(120):
        while network.cut_answers < CUTS and not stream.of("run_complete", session):
            if not network.is_armed:
                # At some byte of the stream, or of the answer to another request.
                network.cut_answers_after(chance.randrange(1500))
            await asyncio.sleep(0.02)
    ended = await stream.run_complete(session, "run-1")
    assert network.cut_answers >= CUTS // 2
    assert stream.ended is None
    assert stream.comments == []
    replies = [m for m in await workspace.messages(session) if m["role"] == "assistant"]
    (reply,) = replies
    shown = [e for e in stream.of("message", session) if e.payload["id"] == reply["id"]]
    for earlier, later in pairwise(shown):
        assert later.text.startswith(earlier.text)
    assert shown[-1].payload["parts"] == reply["parts"]
    assert shown[-1].text == ended["text"] == "".join(f"word-é-😀-{n} " for n in range(2000))


async def test_a_workspace_that_closed_meanwhile_is_opened_again(
    elsewhere: Elsewhere, start_bridge: Start, clients: Clients, project: MakeProject
) -> None:
    elsewhere.login()
    _, host = await asyncio.to_thread(start_bridge)
    workspace = await clients(host).workspace(project())
    stream = await workspace.attach()
    session = await workspace.session()
    elsewhere.network.set_mode(Mode.REFUSE)
    direct = clients(elsewhere.direct, token=elsewhere.token, tls=elsewhere.tls())
    async with asyncio.timeout(60):
        while await direct.workspaces():  # its grace is a second
            await asyncio.sleep(0.1)
    elsewhere.network.set_mode(Mode.PASS)
    async with asyncio.timeout(60):
        while not await direct.workspaces():
            await asyncio.sleep(0.1)
    await workspace.prompt(session, "[[n=3 id=w]]", "run-1")
    await stream.run_complete(session, "run-1")
    assert stream.ended is None
    # A client that leaves is gone: the bridge does not open its workspace again.
    await workspace.release()
    assert await stream.wait_end() == "end of stream"
    async with asyncio.timeout(60):
        while await direct.workspaces():
            await asyncio.sleep(0.1)


async def test_a_server_that_crashes_and_returns_is_used_again(
    elsewhere: Elsewhere, start_bridge: Start, clients: Clients, project: MakeProject
) -> None:
    elsewhere.login()
    bridge, host = await asyncio.to_thread(start_bridge)
    workspace = await clients(host).workspace(project())
    stream = await workspace.attach()
    session = await workspace.session()
    await asyncio.to_thread(elsewhere.server.kill9)
    await asyncio.to_thread(elsewhere.server.start)
    await asyncio.to_thread(elsewhere.server.wait_for_line, "Serving", 90)
    await asyncio.to_thread(bridge.wait_for_line, ".*reachable again", 60)
    await workspace.prompt(session, "[[n=3 id=w]]", "run-1")
    await stream.run_complete(session, "run-1")
    assert stream.ended is None


async def test_a_revoked_token_ends_the_stream_and_is_named(
    elsewhere: Elsewhere, start_bridge: Start, clients: Clients, project: MakeProject
) -> None:
    elsewhere.login()
    _, host = await asyncio.to_thread(start_bridge)
    workspace = await clients(host).workspace(project())
    stream = await workspace.attach()
    done = await asyncio.to_thread(
        command, elsewhere.server_env, "token", "revoke", elsewhere.token[:10]
    )
    assert done.code == 0, done.err
    assert await stream.wait_end() == "end of stream"
    with pytest.raises(UnexpectedStatus) as refused:
        await workspace.agent()
    assert refused.value.status == 401
    arguments = ["bridge", "--server", elsewhere.url, "--host", "unix:///tmp/never.sock"]
    again = await asyncio.to_thread(command, elsewhere.env, *arguments)
    assert again.code == 4
    assert "does not accept the token" in again.err


def test_a_wrong_certificate_is_named(elsewhere: Elsewhere) -> None:
    env = {**elsewhere.env, "CRUSH_TOKEN": elsewhere.token}
    for arguments in (["bridge", "--server", elsewhere.url], ["login", elsewhere.url]):
        done = command(env, *arguments, stdin=elsewhere.token)
        assert done.code == 3
        assert "the server's certificate is not accepted" in done.err
        assert "--ca-file" in done.err
        assert elsewhere.token not in done.err
    # For another name than the certificate's.
    other = elsewhere.url.replace("localhost", "127.0.0.1")
    done = command(env, "bridge", "--server", other, "--ca-file", elsewhere.certificate)
    assert done.code == 3
    assert "certificate is not accepted" in done.err


def test_a_server_that_cannot_be_reached_is_named(elsewhere: Elsewhere) -> None:
    elsewhere.network.set_mode(Mode.REFUSE)
    done = command({**elsewhere.env, "CRUSH_TOKEN": "x"}, "bridge", "--server", elsewhere.url)
    assert done.code == 3
    assert "cannot be reached" in done.err


def test_logins_are_listed_and_removed(elsewhere: Elsewhere) -> None:
    elsewhere.login()
    (file,) = Path(elsewhere.env["HOME"]).glob(".config/crush-server/servers/*.json")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    rows = json.loads(command(elsewhere.env, "servers", "--json").out)
    assert [(row["url"], row["is_used"]) for row in rows] == [("", True), (elsewhere.url, False)]
    env = {**elsewhere.env, "CRUSH_SERVER": elsewhere.url}
    assert f"*  {elsewhere.url}" in command(env, "servers").out
    file.chmod(0o644)
    assert "chmod 600" in command(elsewhere.env, "servers").err
    file.chmod(0o600)
    assert command(elsewhere.env, "logout", elsewhere.url).code == 0
    assert command(elsewhere.env, "logout", elsewhere.url).code == 1
    wrong = command(
        elsewhere.env, "login", elsewhere.url, "--ca-file", elsewhere.certificate, stdin="no\n"
    )
    assert wrong.code == 4
    assert not file.exists()


def raw(host: str, request: bytes) -> bytes:
    """The response to a request as it is written."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(30)
        connection.connect(host.removeprefix("unix://"))
        connection.sendall(request)
        received = b""
        while chunk := connection.recv(65_536):
            received += chunk
        return received


def test_headers_of_the_connection_are_not_passed_on(
    elsewhere: Elsewhere, start_bridge: Start
) -> None:
    elsewhere.login()
    _, host = start_bridge()
    head = b"Host: api.crush.localhost\r\nConnection: X-Mine\r\nX-Mine: 1\r\nTE: trailers\r\n"
    # They would make the server take the bridge for a browser or a proxy, or for another user.
    head += b"X-Forwarded-For: 1.2.3.4\r\nAuthorization: Bearer crush_other\r\nCookie: a=b\r\n"
    answer = raw(host, b"GET /v1/version HTTP/1.0\r\n" + head + b"\r\n")
    assert answer.startswith((b"HTTP/1.1 200 ", b"HTTP/1.0 200 "))
    assert b"version" in answer
    assert b"transfer-encoding" not in answer.lower()
