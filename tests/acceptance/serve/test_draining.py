"""A stop waits for runs to come to the end of a step; a second signal does not."""

import asyncio
import signal
import time

from tests.acceptance.conversation import take_seat
from tests.acceptance.harness.http import UnexpectedStatus
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.shapes import Server, Shape
from tests.acceptance.serve.starting import Connect, MakeProject, MakeServer


async def ended(server: Server) -> dict[str, int]:
    codes = [asyncio.to_thread(process.wait) for process in server.processes()]
    names = [process.name for process in server.processes()]
    return dict(zip(names, await asyncio.gather(*codes), strict=True))


async def test_a_stop_waits_for_the_end_of_a_reply_and_its_readers_see_it(
    make_a_server: MakeServer,
    shape: Shape,
    connect: Connect,
    project: MakeProject,
    model: ScriptedModel,
) -> None:
    server = make_a_server(shape, env={"CRUSH_DRAIN": "60"})
    await asyncio.to_thread(server.start)
    seat = await take_seat(connect(server), project())
    session, gate = await seat.workspace.session(), model.new_gate()
    await seat.workspace.prompt(session, f"[[n=150 d=5 hold=50 gate={gate}]]", "streams")
    await seat.stream.words(session, 3)
    worker = server.processes("worker")[0]
    worker.send(signal.SIGTERM)
    line = await asyncio.to_thread(worker.wait_for_line, "Stopping")
    assert "waiting up to 60 s for 1 run." in line
    assert "again" in line
    if shape is Shape.EMBEDDED:
        try:
            await seat.workspace.prompt(session, "[[n=1]]")
        except UnexpectedStatus as error:
            assert (error.status, error.message) == (503, "server is shutting down")  # noqa: PT017
        else:
            raise AssertionError("nobody would work on this prompt")
    model.open_gate(gate)
    complete = await seat.stream.run_complete(session, "streams")
    assert "error" not in complete, complete
    assert len(complete["text"].split()) == 150
    assert await asyncio.to_thread(worker.wait) == 0


async def test_a_cancel_is_obeyed_while_the_server_stops(
    make_a_server: MakeServer, shape: Shape, connect: Connect, project: MakeProject
) -> None:
    server = make_a_server(shape, env={"CRUSH_DRAIN": "60"})
    await asyncio.to_thread(server.start)
    seat = await take_seat(connect(server), project())
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, "[[n=20000 d=20]]", "streams")
    await seat.stream.words(session, 3)
    worker = server.processes("worker")[0]
    worker.send(signal.SIGTERM)
    await asyncio.to_thread(worker.wait_for_line, "Stopping")
    await seat.workspace.cancel(session)
    complete = await seat.stream.run_complete(session, "streams")
    assert complete["cancelled"] is True
    assert await asyncio.to_thread(worker.wait) == 0


async def test_a_second_signal_ends_it_at_once(
    make_a_server: MakeServer, shape: Shape, connect: Connect, project: MakeProject
) -> None:
    server = make_a_server(shape, env={"CRUSH_DRAIN": "60"})
    await asyncio.to_thread(server.start)
    seat = await take_seat(connect(server), project())
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, "[[n=20000 d=20]]", "streams")
    await seat.stream.words(session, 3)
    for process in server.processes():
        process.send(signal.SIGINT)
    for process in server.processes("worker"):
        await asyncio.to_thread(process.wait_for_line, "Stopping: waiting")
    began = time.monotonic()
    for process in server.processes("worker"):  # a web process had nothing to wait for
        process.send(signal.SIGINT)
    codes = await ended(server)
    seconds = time.monotonic() - began
    assert set(codes.values()) == {0}, codes
    assert seconds < 30, seconds  # about one on a quiet machine; the drain is sixty
