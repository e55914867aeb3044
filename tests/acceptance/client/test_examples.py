"""The example programs against a real server, as people run them."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from crushclient import Client
from tests.acceptance.harness.environment import ROOT
from tests.acceptance.harness.shapes import Server

MakeProject = Callable[..., Path]
WRITE = '[[tool=write {"file_path": "made", "content": "x"}]] [[n=3 id=word]]'


@pytest.fixture
def env(embedded_server: Server) -> dict[str, str]:
    """Without an address: the programs find the server by its data folder."""
    return {**os.environ, "CRUSH_DATA_DIR": str(embedded_server.data_dir), "PYTHONPATH": str(ROOT)}


@asynccontextmanager
async def example(
    name: str, *arguments: object, env: dict[str, str]
) -> AsyncIterator[asyncio.subprocess.Process]:
    program = await asyncio.create_subprocess_exec(
        sys.executable,
        ROOT / "examples" / f"{name}.py",
        *map(str, arguments),
        env=env,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(90):
            yield program
    finally:
        if program.returncode is None:
            program.kill()
        await program.wait()


async def lines_until(program: asyncio.subprocess.Process, text: str) -> list[str]:
    assert program.stdout is not None
    lines: list[str] = []
    while not any(text in line for line in lines):
        line = await program.stdout.readline()
        assert line, lines
        lines.append(line.decode().strip())
    return lines


async def printed(name: str, *arguments: object, env: dict[str, str]) -> str:
    async with example(name, *arguments, env=env) as program:
        out, _ = await program.communicate()
        assert program.returncode == 0
        return out.decode()


async def test_prompt_and_export(env: dict[str, str], project: MakeProject) -> None:
    folder = project()
    words = await printed("prompt", folder, "[[n=3 id=word]]", env=env)
    assert words.split() == ["word-0", "word-1", "word-2"]
    async with Client.local(Path(env["CRUSH_DATA_DIR"])) as client:
        workspace = await client.open_workspace(folder)
        (session,) = (await client.api.sessions.list(workspace.id))["items"]
        page = await printed("export", folder, session["id"], env=env)
    assert re.findall(r"^## \w+", page, re.MULTILINE) == ["## user", "## assistant"]
    assert "word-0 word-1 word-2" in page


async def test_approve_and_follow(env: dict[str, str], project: MakeProject) -> None:
    folder = project()
    async with (
        Client.local(Path(env["CRUSH_DATA_DIR"])) as client,
        example("follow_sessions", folder, env=env) as follower,
    ):
        workspace = await client.open_workspace(folder)
        session = await client.api.sessions.create(workspace.id, title="to watch")
        await client.api.sessions.prompt(workspace.id, session["id"], text=WRITE)
        assert any("1 to answer" in line for line in await lines_until(follower, "1 to answer"))
        async with example("approve", folder, env=env) as approver:
            answered = await lines_until(approver, "write:")
        assert answered[-1].endswith(": deny")
        assert (await lines_until(follower, "idle"))[-1].startswith("to watch: idle")
    assert not (folder / "made").exists()
