"""What the tests of crashes share: patient servers, commands that leave a mark, the whole log."""

import asyncio
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psycopg

from tests.acceptance.folding import Fold
from tests.acceptance.harness.client import Client, Workspace
from tests.acceptance.harness.native import NativeSse
from tests.acceptance.harness.shapes import Server

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]
MakeServer = Callable[..., Server]

# Nobody's claim lapses while the server is down; a dead worker's runs are free again soon.
PATIENT = {"CRUSH_SERVER_CREATE_GRACE": "600", "CRUSH_SERVER_DETACH_GRACE": "600"}
QUICK = {"CRUSH_LEASE": "2", "CRUSH_POLL": "0.2"}


def bash(command: str) -> str:
    return "bash " + json.dumps({"command": command, "description": "mark"})


async def log_of(client: Client, workspace: Workspace) -> Fold:
    """The whole log, folded from its first event."""
    reader = NativeSse(client.http, workspace.id, after=0)
    await reader.open()
    await reader.wait_for(lambda r: r.type == "stream.opened", 60)
    await reader.close()
    fold = Fold()
    for item in reader.received:
        fold.take(item.body)
    return fold


async def wait_for_ends(client: Client, workspace: Workspace, count: int) -> Fold:
    """The log folded, once so many runs have ended and none is left."""
    async with asyncio.timeout(60):
        while True:
            fold = await log_of(client, workspace)
            if len(fold.ends) >= count and not (await workspace.agent())["is_busy"]:
                fold.check_runs()
                return fold
            await asyncio.sleep(0.05)


def stored_outputs(server: Server) -> list[str]:
    """What is stored of the tools that run."""
    query = "SELECT call_outputs FROM agents_run WHERE call_outputs IS NOT NULL"
    if url := server.env.get("DATABASE_URL"):
        with psycopg.connect(url) as connection:
            return [output for (output,) in connection.execute(query)]
    file = Path(server.env["CRUSH_DATA_DIR"]) / "server.sqlite3"
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as read_only:
        return [output for (output,) in read_only.execute(query)]
