"""The processes that tools start end with their call, their run and their server."""

import asyncio
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.calling import (
    bash,
    call,
    eventually,
    results,
    run_call,
)
from tests.acceptance.conversation import Seat, roles_and_finishes, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.http import UnexpectedStatus
from tests.acceptance.harness.processes import kill_marked
from tests.acceptance.harness.shapes import Server, Shape
from tests.acceptance.marked import STAY, linux_only, mark_in, marked_seat, processes
from tests.acceptance.watching import LogWatch

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]
MakeServer = Callable[..., Server]


async def processes_started(seat: Seat, count: int) -> None:
    await eventually(lambda: len(processes(seat)) >= count, "the processes are there")


async def processes_ended(seat: Seat) -> None:
    try:
        await eventually(lambda: not processes(seat), "the processes are gone")
    finally:
        kill_marked(mark_in(seat.workspace.path))


@linux_only
async def test_a_cancel_ends_everything_that_a_command_started(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    seat = await marked_seat(connect(shared_server), project(uuid.uuid4().hex), yolo=True)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, bash(f"trap '' TERM INT HUP; {STAY}"), "stays")
    await processes_started(seat, 3)
    await seat.workspace.cancel(session)
    complete = await seat.stream.run_complete(session, "stays")
    assert complete["cancelled"] is True
    # They are gone when it is told, not some time after.
    assert processes(seat) == []
    (result,) = results(await seat.workspace.messages(session))
    assert result["is_error"] is True
    assert roles_and_finishes(await seat.workspace.messages(session))[1][1] == "canceled"
    assert seat.stream.errors() == []


@linux_only
async def test_a_command_that_ends_leaves_nothing_running(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    seat = await marked_seat(connect(shared_server), project(uuid.uuid4().hex), yolo=True)
    session = await seat.workspace.session()
    await run_call(seat, session, bash("setsid sleep 987 & (setsid nohup sleep 987 &) ; echo hi"))
    assert processes(seat) == []


@linux_only
@pytest.mark.parametrize("how", ["SIGTERM", "SIGKILL"])
async def test_the_server_s_end_is_the_end_of_its_tools_processes(
    make_a_server: MakeServer, shape: Shape, connect: Connect, project: MakeProject, how: str
) -> None:
    grace = {"CRUSH_SERVER_DETACH_GRACE": "60", "CRUSH_LEASE": "2", "CRUSH_POLL": "0.2"}
    server = make_a_server(shape, env=grace)
    await asyncio.to_thread(server.start)
    path = project(uuid.uuid4().hex)
    seat = await marked_seat(connect(server), path, yolo=True)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, bash(f"trap '' TERM INT HUP; {STAY}"), "stays")
    await processes_started(seat, 3)
    await seat.stream.close()
    await asyncio.to_thread(server.stop if how == "SIGTERM" else server.kill9)
    await processes_ended(seat)
    await asyncio.to_thread(server.start)
    again = await take_seat(connect(server), path)
    async with asyncio.timeout(60):
        while (await again.workspace.get_session(session))["is_busy"]:
            await asyncio.sleep(0.05)
    messages = await again.workspace.messages(session)
    (result,) = results(messages)
    assert result["is_error"] is True
    assert result["content"].startswith("The outcome of this call is unknown")
    assert processes(seat) == []  # it was not run again
    await again.workspace.prompt(session, "[[n=2]]", "next")
    assert "error" not in await again.stream.run_complete(session, "next")


async def test_a_folder_that_vanishes_under_a_workspace_breaks_only_its_tools(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    log = LogWatch(shared_server)
    path = project("vanishes")
    seat = await take_seat(connect(shared_server), path, yolo=True)
    session = await seat.workspace.session()
    await run_call(seat, session, call("ls"))
    shutil.rmtree(path)
    await seat.workspace.prompt(session, bash("touch x"), "gone")
    await seat.stream.run_complete(session, "gone")
    assert (await seat.workspace.get())["path"] == str(path)
    with pytest.raises(UnexpectedStatus) as refusal:
        await seat.workspace.client.workspace(path)
    assert refusal.value.status == 400
    assert "path" in refusal.value.message
    assert log.loud() == []
