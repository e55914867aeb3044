"""Commands and runs that wait for an answer in a workspace that no client has open."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest_asyncio

from tests.acceptance.calling import until
from tests.acceptance.commands.prompts import TOUCH, sessions
from tests.acceptance.conftest import MakeProject
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.commands import Done, command
from tests.acceptance.harness.shapes import Server

Connect = Callable[[Server], Client]


class Waiting:
    """A run that waits for an answer, in a workspace that is closed again."""

    def __init__(self, server: Server, client: Client, path: Path) -> None:
        self.server, self.client, self.path = server, client, path
        self.session, self.request = "", ""

    async def begin(self) -> None:
        workspace = await self.client.workspace(self.path)
        stream = await workspace.attach()
        self.session = await workspace.session()
        await workspace.prompt(self.session, TOUCH)
        event = await stream.wait_for(lambda e: e.type == "permission_request")
        self.request = event.payload["id"]
        await workspace.release()
        await until(self.is_closed, "the workspace is closed")

    async def is_closed(self) -> bool:
        return await self.client.workspaces() == []

    async def is_made(self) -> bool:
        return (self.path / "made.txt").exists()

    async def run(self, *arguments: str) -> Done:
        return await asyncio.to_thread(command, self.server.env, *arguments)


@pytest_asyncio.fixture
async def waiting(embedded_server: Server, project: MakeProject, connect: Connect) -> Waiting:
    waiting = Waiting(embedded_server, connect(embedded_server), project())
    await waiting.begin()
    return waiting


async def test_an_answer_opens_the_workspace_for_its_run(waiting: Waiting) -> None:
    listed = await waiting.run("approvals", "--json")
    (request,) = json.loads(listed.out)["approvals"]
    assert (request["id"], request["path"]) == (waiting.request, str(waiting.path))
    assert "touch made.txt" in (await waiting.run("approvals")).out
    done = await waiting.run("answer", waiting.request[:8], "allow")
    assert (done.code, done.out) == (0, "Allowed.\n"), done.err
    await until(waiting.is_made, "the run continues")
    await until(waiting.is_closed, "the workspace is closed again")
    assert (await waiting.run("approvals")).out == "Nothing waits.\n"


async def test_a_cancel_leaves_the_workspace_closed(waiting: Waiting) -> None:
    (session,) = await asyncio.to_thread(sessions, waiting.server.env)
    assert (session["id"], session["path"]) == (waiting.session, str(waiting.path))
    assert session["is_busy"]
    done = await waiting.run("cancel", waiting.session[:8])
    assert (done.code, done.out) == (0, "Cancelled 1 prompt.\n"), done.err
    assert await waiting.is_closed()
    (session,) = await asyncio.to_thread(sessions, waiting.server.env, str(waiting.path))
    assert not session["is_busy"]
    assert (await waiting.run("approvals")).out == "Nothing waits.\n"
    assert not await waiting.is_made()


async def test_ids_of_requests_and_runs_are_completed(waiting: Waiting) -> None:
    async def completed(*words: str) -> list[str]:
        return (await waiting.run("completion", "--words", *words)).out.splitlines()

    assert await completed("answer", waiting.request[:5]) == [waiting.request]
    assert await completed("answer", "zzzz") == []
    assert await completed("answer", "--server", "https://elsewhere", "") == []
    listed = await waiting.run("runs", "--path", str(waiting.path), "--json")
    keys = [str(run["key"]) for run in json.loads(listed.out)]
    assert await completed("runs", "") == keys
    assert await completed("queue", "--first", "") == []
    assert await completed("cancel", waiting.session[:4]) == [waiting.session]


async def test_an_answer_needs_no_running_server(waiting: Waiting) -> None:
    await asyncio.to_thread(waiting.server.stop)
    done = await waiting.run("answer", waiting.request[:8], "deny")
    assert (done.code, done.out) == (0, "Denied.\n"), done.err
