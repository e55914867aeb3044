"""Prompts for the folders of a remote worker, which joins the server with a token."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from tests.acceptance.calling import bash, permission_request, results, run_call
from tests.acceptance.conversation import SHORT, SLOW, Seat, take_seat, text_of
from tests.acceptance.fleet.children import listed
from tests.acceptance.fleet.remote import OF_SERVERS, RemoteMachine
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.commands import command
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.shapes import Server, Shape

Connect = Callable[[Server], Client]
pytestmark = pytest.mark.timeout(600)
PLACE = "box:src"


@pytest_asyncio.fixture
async def machine(
    server: Server, project: Callable[..., Path], tmp_path: Path
) -> AsyncIterator[RemoteMachine]:
    home = tmp_path / "machine"
    home.mkdir()
    machine = RemoteMachine(server, home, project("remote"))
    yield machine
    await asyncio.to_thread(machine.close)


@pytest_asyncio.fixture
async def seat(server: Server, machine: RemoteMachine, connect: Connect) -> Seat:
    """A client of the workspace of a remote worker that has joined."""
    await asyncio.to_thread(machine.get_token)
    await asyncio.to_thread(machine.start)
    return await take_seat(connect(server), PLACE)


async def test_a_prompt_uses_the_remote_folder_and_every_reader_sees_it(
    server: Server, machine: RemoteMachine, seat: Seat, connect: Connect
) -> None:
    assert not set(OF_SERVERS) & set(machine.env)
    other = await take_seat(connect(server), PLACE)
    assert other.workspace.id == seat.workspace.id
    session = await seat.workspace.session("Remote")

    await seat.workspace.prompt(session, bash("pwd && touch made.txt"))
    request = await permission_request(other, session)
    assert request["tool_name"] == "bash"
    assert not (machine.work / "made.txt").exists()
    assert await other.workspace.grant(request)
    for reader in (seat, other):
        complete = await reader.stream.run_complete(session)
        assert "error" not in complete

    assert (machine.work / "made.txt").exists()
    messages = await seat.workspace.messages(session)
    (result,) = results(messages)
    assert str(machine.work) in result["content"]
    shown = [reader.stream.of("message", session)[-1].payload for reader in (seat, other)]
    assert shown[0] == shown[1]
    said = [text_of(message) for message in messages if message["role"] == "assistant"]
    assert len(said[-1].split()) >= 3


async def test_a_denied_call_changes_nothing_in_the_remote_folder(
    machine: RemoteMachine, seat: Seat
) -> None:
    session = await seat.workspace.session("Remote")
    await seat.workspace.prompt(session, bash("touch made.txt"))
    assert await seat.workspace.grant(await permission_request(seat, session), "deny")
    await seat.stream.run_complete(session)
    assert not (machine.work / "made.txt").exists()


async def test_a_cancel_ends_the_remote_run_and_the_worker_takes_the_next_prompt(
    seat: Seat, model: ScriptedModel
) -> None:
    session = await seat.workspace.session("Remote")
    await seat.workspace.prompt(session, SLOW, "slow")
    await seat.stream.words(session, 5)
    await seat.workspace.cancel(session)
    assert (await seat.stream.run_complete(session, "slow"))["cancelled"] is True

    await seat.workspace.prompt(session, f"{SHORT} after it", "next")
    complete = await seat.stream.run_complete(session, "next")
    assert "error" not in complete
    # The conversation so far goes with the prompt.
    sent = model.request(model.served("after it")[-1]["number"])
    assert SLOW in str(sent)


async def test_a_killed_worker_fails_its_run_and_serves_again_after_its_return(
    server: Server, machine: RemoteMachine, seat: Seat
) -> None:
    session = await seat.workspace.session("Remote")
    await seat.workspace.prompt(session, SLOW, "cut")
    await seat.stream.words(session, 5)
    await asyncio.to_thread(machine.processes[0].kill9)
    complete = await seat.stream.run_complete(session, "cut")
    assert "remote worker 'box' was lost" in complete["error"]
    (row,) = await asyncio.to_thread(listed, server, "--all")
    assert (row["role"], row["ending"]) == ("box", "lost")

    await asyncio.to_thread(machine.start)
    await seat.workspace.prompt(session, SHORT, "again")
    assert "error" not in await seat.stream.run_complete(session, "again")


@pytest.mark.parametrize("shape", [Shape.EMBEDDED], indirect=True)
async def test_prompts_without_a_connected_worker_are_refused(
    machine: RemoteMachine, server: Server, connect: Connect
) -> None:
    seat = await take_seat(connect(server), PLACE)
    session = await seat.workspace.session("Remote")
    body = {"session_id": session, "prompt": "go"}
    refused = await seat.workspace.call("POST", "/agent", body, expect=409)
    assert "'box' is not connected" in refused["message"]

    await asyncio.to_thread(machine.get_token)
    await asyncio.to_thread(machine.start)
    elsewhere = await take_seat(connect(server), "box:docs")
    session = await elsewhere.workspace.session("Remote")
    body = {"session_id": session, "prompt": "go"}
    refused = await elsewhere.workspace.call("POST", "/agent", body, expect=409)
    assert "has no folder 'docs'. It has: src." in refused["message"]


@pytest.mark.parametrize("shape", [Shape.EMBEDDED], indirect=True)
async def test_a_server_that_returns_gets_its_worker_back(
    machine: RemoteMachine, server: Server, seat: Seat, connect: Connect
) -> None:
    session = await seat.workspace.session("Remote")
    await seat.workspace.prompt(session, SLOW, "cut")
    await seat.stream.words(session, 5)
    await asyncio.to_thread(server.kill9)
    await asyncio.to_thread(machine.processes[0].wait_for_line, "Not connected to", 90)
    await asyncio.to_thread(server.restart)
    back = await take_seat(connect(server), PLACE)
    async with asyncio.timeout(60):
        while (await back.workspace.agent_session(session))["is_busy"]:
            await asyncio.sleep(0.02)

    async with asyncio.timeout(60):
        while True:
            try:
                await back.workspace.prompt(session, SHORT, "again")
            except AssertionError:  # the worker tries again after a pause
                await asyncio.sleep(0.2)
            else:
                break
    assert "error" not in await back.stream.run_complete(session, "again")
    rows = await asyncio.to_thread(listed, server, "--all")
    assert sorted(row["ending"] for row in rows) == ["completed", "lost"]


@pytest.mark.parametrize("shape", [Shape.EMBEDDED], indirect=True)
async def test_what_needs_the_folder_itself_is_refused(seat: Seat, machine: RemoteMachine) -> None:
    session = await seat.workspace.session("Remote")
    await seat.workspace.skip_permissions()
    assert not (await run_call(seat, session, bash("touch made.txt")))["is_error"]
    shell = f"/agent/sessions/{session}/shell"
    refused = await seat.workspace.call("POST", shell, {"command": "touch here"}, expect=409)
    assert "on another machine" in refused["message"]
    summarize = f"/agent/sessions/{session}/summarize"
    assert "not summarised" in (await seat.workspace.call("POST", summarize, expect=409))["message"]
    picture = {"file_path": "a.png", "file_name": "a.png", "mime_type": "image/png", "content": ""}
    body = {"session_id": session, "prompt": "look", "attachments": [picture]}
    refused = await seat.workspace.call("POST", "/agent", body, expect=400)
    assert "texts only" in refused["message"]
    assert [file.name for file in machine.work.iterdir() if file.name == "here"] == []


@pytest.mark.parametrize("shape", [Shape.EMBEDDED], indirect=True)
async def test_a_worker_needs_a_token_with_its_right_and_a_name_of_its_own(
    machine: RemoteMachine, server: Server
) -> None:
    machine.token_file.write_text("crush_" + "x" * 43)
    refused = await asyncio.to_thread(machine.run)
    assert refused.code == 4
    assert "does not accept the token" in refused.err
    await asyncio.to_thread(machine.get_token, "prompt", "read")
    refused = await asyncio.to_thread(machine.run)
    assert refused.code == 4
    assert "lacks the right `work`" in refused.err
    await asyncio.to_thread(machine.get_token, name="other")
    refused = await asyncio.to_thread(machine.run)
    assert refused.code == 4
    assert "has another name than this worker ('box')" in refused.err

    token = await asyncio.to_thread(machine.get_token)
    worker = await asyncio.to_thread(machine.start)
    refused = await asyncio.to_thread(machine.run)
    assert refused.code == 1
    assert "another remote worker of the name 'box' is connected" in refused.err

    revoked = await asyncio.to_thread(command, server.env, "token", "revoke", token[:12])
    assert revoked.code == 0
    assert await asyncio.to_thread(worker.wait) == 4
    assert "was revoked" in worker.log_text()
    assert token not in worker.log_text() + server.log_text()
