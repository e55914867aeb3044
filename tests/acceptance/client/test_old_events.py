"""The log forgets old events; a client that returns with an old cursor is reset, and misses nothing."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from crushclient import ConflictError, StateReplaced
from crushclient.folded_session import FoldedSession
from crushclient.stream import Protocol
from tests.acceptance.client.reading import client_of
from tests.acceptance.harness.client import Client as Harness
from tests.acceptance.harness.client import Workspace
from tests.acceptance.harness.commands import command
from tests.acceptance.harness.shapes import Server
from tests.doubles.tcp_proxy import Mode, TcpProxy

Connect = Callable[[Server], Harness]
MakeProject = Callable[..., Path]
PROTOCOLS: tuple[Protocol, ...] = ("websocket", "sse")


async def prompt(workspace: Workspace, session: str, run_id: str) -> None:
    """Returns when the run has ended."""
    await workspace.prompt(session, f"[[n=5 id={run_id}]]", run_id)
    async with asyncio.timeout(60):
        while (await workspace.get_session(session))["is_busy"]:
            await asyncio.sleep(0.05)


async def assert_is_stored(session: FoldedSession, workspace: Workspace) -> None:
    rows = await workspace.messages(session.session_id)
    assert [(each.id, each.parts) for each in session.messages] == [
        (row["id"], row["parts"]) for row in rows
    ]


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_client_with_an_old_cursor_is_reset(
    shared_server: Server, connect: Connect, project: MakeProject, protocol: Protocol
) -> None:
    path = project()
    workspace = await connect(shared_server).workspace(path)
    await workspace.attach()
    session = await workspace.session()
    await prompt(workspace, session, "before")
    way = TcpProxy("127.0.0.1", shared_server.port)
    try:
        async with (
            client_of(f"http://127.0.0.1:{way.port}") as client,
            client.follow(workspace.id, session, protocol=protocol) as followed,
        ):
            await assert_is_stored(followed, workspace)
            left_at = followed.state.number
            way.set_mode(Mode.REFUSE)
            await prompt(workspace, session, "meanwhile")
            done = await asyncio.to_thread(
                command,
                shared_server.env,
                *("prune", "--kind", "events", "--older-than", "0d", "--path", str(path), "--yes"),
            )
            assert done.code == 0, done.err
            way.set_mode(Mode.PASS)
            async with asyncio.timeout(60):
                while not isinstance(await anext(followed), StateReplaced):
                    pass
            assert followed.state.number > left_at
            await assert_is_stored(followed, workspace)
            # From here it follows the log again.
            await workspace.prompt(session, "[[n=5 id=after]]", "after")
            async with asyncio.timeout(60):
                await followed.finish("after")
            await assert_is_stored(followed, workspace)
            assert len(followed.messages) == 6
    finally:
        way.close()
    async with client_of(shared_server.url) as client:
        with pytest.raises(ConflictError) as refused:
            await client.stream(workspace.id, after=0, protocol=protocol).open()
        assert refused.value.code == "cursor_expired"


async def test_a_running_server_deletes_old_events_by_itself(
    embedded_server: Server, connect: Connect, project: MakeProject
) -> None:
    workspace = await connect(embedded_server).workspace(project())
    await workspace.attach()
    session = await workspace.session()
    await prompt(workspace, session, "one")
    with closing(sqlite3.connect(embedded_server.data_dir / "server.sqlite3")) as database:
        with database:
            (old,) = database.execute("SELECT max(number) FROM workspaces_event").fetchone()
            database.execute("UPDATE workspaces_event SET created_at = 0")
            database.execute(
                "INSERT OR REPLACE INTO workspaces_dailyjob (name, due_at, holder, held_until, result)"
                " VALUES ('retention', 0, '', 0, '{}')"
            )
        async with asyncio.timeout(120):
            while database.execute(
                "SELECT count(*) FROM workspaces_event WHERE number <= ?", [old]
            ).fetchone() != (0,):
                await asyncio.sleep(0.2)
    assert len(await workspace.messages(session)) == 2
    await prompt(workspace, session, "two")
    assert len(await workspace.messages(session)) == 4
