"""Workers that die, freeze, or run on a host with another time: the others go on with their runs."""

import asyncio
import signal
import time
from pathlib import Path

import psutil
import psycopg
import pytest

from tests.acceptance.calling import bash, eventually
from tests.acceptance.conversation import Seat, take_seat
from tests.acceptance.crash.ground import bash as bash_call
from tests.acceptance.harness import clock
from tests.acceptance.harness.processes import Process
from tests.acceptance.harness.shapes import Server, Shape
from tests.acceptance.serve.starting import Connect, MakeProject, MakeServer

pytestmark = pytest.mark.timeout(240)

RUNS = 3  # of each of two workspaces, which have their homes in different workers
LONG_LEASE = "120"  # nobody waits for its end here
OFFSETS = {"web": "+20s", "worker 1": "-45s", "worker 2": "+45s"}


async def test_the_runs_of_a_killed_worker_go_on_before_their_leases_end(
    make_a_server: MakeServer, connect: Connect, project: MakeProject
) -> None:
    server = make_a_server(Shape.SCALED, workers=2, env={"CRUSH_LEASE": LONG_LEASE})
    await asyncio.to_thread(server.start)
    client = connect(server)
    seats = [await take_seat(client, project(name)) for name in ("one", "two")]
    sessions = [await streaming(seat, RUNS) for seat in seats]
    killed = await asyncio.to_thread(worker_with_runs_of, server, seats[0])
    await asyncio.to_thread(killed.kill9)
    async with asyncio.timeout(60):
        for seat, own in zip(seats, sessions, strict=True):
            for session in own:
                complete = await seat.stream.run_complete(session)
                assert "error" not in complete, complete
                assert len(complete["text"].split()) == 300
    assert await asyncio.to_thread(count_rescued, server) > 0
    await asyncio.to_thread(killed.start)
    await asyncio.to_thread(killed.wait_for_line, "Working", 60)


async def streaming(seat: Seat, count: int) -> list[str]:
    """Sessions with a run each, all of which have sent words."""
    sessions = [await seat.workspace.session() for _ in range(count)]
    for session in sessions:
        await seat.workspace.prompt(session, "[[n=300 d=20]]")
    for session in sessions:
        await seat.stream.words(session, 3)
    return sessions


async def test_a_worker_that_was_frozen_ends_the_tools_of_runs_that_others_hold_now(
    make_a_server: MakeServer, connect: Connect, project: MakeProject
) -> None:
    env = {"CRUSH_LEASE": "2", "CRUSH_POLL": "0.2"}
    server = make_a_server(Shape.SCALED, workers=2, env=env)
    await asyncio.to_thread(server.start)
    path = project()
    seat = await take_seat(connect(server), path, yolo=True)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, bash("echo $$ > pid; sleep 3600"))
    await eventually(lambda: has_text(path / "pid"), "the command's pid")
    command = psutil.Process(int((path / "pid").read_text()))
    holder = worker_above(server, command)
    holder.send(signal.SIGSTOP)
    try:
        complete = await seat.stream.run_complete(session)
        assert "error" not in complete, complete
        assert command.is_running()
    finally:
        holder.send(signal.SIGCONT)
    await eventually(lambda: has_ended(command), "the end of the command")
    # The worker goes on with other work.
    for _ in range(4):
        start = seat.stream.mark()
        await seat.workspace.prompt(session, "[[n=3]]")
        await seat.stream.run_complete(session, start=start)
    assert holder.alive


def worker_with_runs_of(server: Server, seat: Seat) -> Process:
    with psycopg.connect(server.env["DATABASE_URL"]) as database:
        found = database.execute(
            "SELECT DISTINCT p.pid FROM agents_run r"
            " JOIN workspaces_registeredprocess p ON p.id = r.worker"
            " WHERE r.state = 'running' AND r.workspace_id = %s",
            [seat.workspace.id],
        )
        ((pid,),) = found.fetchall()
    (worker,) = [each for each in server.processes("worker") if each.pid == pid]
    return worker


def count_rescued(server: Server) -> int:
    """The runs that were taken from a worker."""
    with psycopg.connect(server.env["DATABASE_URL"]) as database:
        found = database.execute("SELECT COUNT(*) FROM agents_run WHERE lost_workers > 0")
        row = found.fetchone()
    assert row is not None
    return int(row[0])


def has_text(path: Path) -> bool:
    return path.exists() and path.read_text().strip() != ""


def worker_above(server: Server, command: psutil.Process) -> Process:
    pids = {parent.pid for parent in command.parents()}
    (holder,) = [worker for worker in server.processes("worker") if worker.pid in pids]
    return holder


def has_ended(command: psutil.Process) -> bool:
    return not command.is_running() or command.status() == psutil.STATUS_ZOMBIE


async def test_clocks_of_hosts_that_differ_change_nothing(
    make_a_server: MakeServer, connect: Connect, project: MakeProject
) -> None:
    server = make_a_server(
        Shape.SCALED,
        workers=2,
        env={"CRUSH_LEASE": "10", "CRUSH_SERVER_DETACH_GRACE": "5"},
        reroute=lambda name, _: clock.fixed(OFFSETS[name]),
    )
    await asyncio.to_thread(server.start)
    path = project("one")
    client = connect(server)
    seat = await take_seat(client, path, yolo=True)
    other = await take_seat(client, project("two"))
    talking = await streaming(seat, RUNS)
    elsewhere = await streaming(other, RUNS)
    calling = await seat.workspace.session()
    steps = " ;; ".join(bash_call(f"sleep 1; echo {number} >> steps") for number in range(12))
    await seat.workspace.prompt(calling, f"[[calls={steps}]] [[n=3]]")
    for session in [*talking, calling]:
        complete = await seat.stream.run_complete(session)
        assert "error" not in complete, complete
    for session in elsewhere:
        assert "error" not in await other.stream.run_complete(session)
    assert await asyncio.to_thread(count_rescued, server) == 0
    assert sorted((path / "steps").read_text().split(), key=int) == [str(n) for n in range(12)]
    (moment,) = {
        message["created_at"] // 3600 for message in await seat.workspace.messages(talking[0])
    }
    assert abs(moment - time.time() // 3600) <= 1
