"""What a stop does to streams, runs and requests, and what the log says of it all."""

import asyncio
import json
import re
import time
import uuid

import aiohttp

from tests.acceptance.calling import eventually
from tests.acceptance.conversation import roles_and_finishes, take_seat, text_of
from tests.acceptance.harness.http import UnexpectedStatus
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.native import NativeSocket, NativeSse
from tests.acceptance.harness.shapes import Server, Shape
from tests.acceptance.marked import GO
from tests.acceptance.serve.starting import Connect, MakeProject, MakeServer
from tests.acceptance.watching import LogWatch


async def test_it_stops_quickly_while_streams_are_attached(
    server: Server, connect: Connect, project: MakeProject
) -> None:
    client = connect(server)
    seats = [await take_seat(client, project(f"p{n}")) for n in range(3)]
    workspace = seats[0].workspace
    ws = await NativeSocket(client.http, workspace.id).open()
    sse = await NativeSse(client.http, workspace.id).open()
    began = time.monotonic()
    await asyncio.to_thread(server.stop)
    seconds = time.monotonic() - began
    assert seconds < 20, seconds  # about one on a quiet machine; who hangs has thirty
    for seat in seats:
        await seat.stream.wait_end()
    await ws.wait_end()
    await sse.wait_end()
    assert ws.close_code == 1012
    for process in server.processes():
        assert process.log_text().splitlines()[-1] == "Stopped"


async def test_a_run_that_streams_at_the_stop_ends_exactly_once(
    make_a_server: MakeServer,
    shape: Shape,
    connect: Connect,
    project: MakeProject,
    model: ScriptedModel,
) -> None:
    times = {"CRUSH_SERVER_DETACH_GRACE": "600", "CRUSH_POLL": "0.2", "CRUSH_LEASE": "2"}
    server = make_a_server(shape, env={**times, "CRUSH_DRAIN": "5"})
    await asyncio.to_thread(server.start)
    path = project("stopped")
    log = LogWatch(server)
    seat = await take_seat(connect(server), path, yolo=True)
    streaming, between, queued = [await seat.workspace.session() for _ in range(3)]
    gate = model.new_gate()
    held = f"n=20 gate={gate} hold=10"
    await seat.workspace.prompt(streaming, f"[[{held}]]", "streaming")
    step = json.dumps({"command": f"echo step >> steps; {GO}", "description": "s"})
    await seat.workspace.prompt(between, f"[[tools=5 bash {step}]] [[n=2]]", "between")
    await seat.workspace.prompt(queued, f"[[{held} id=q]]", "ahead")
    await seat.workspace.prompt(queued, "[[n=3]]", "behind")
    await seat.stream.words(streaming, 3)
    await seat.stream.words(queued, 3)
    await eventually((path / "steps").exists, "a step was done")
    began = time.monotonic()
    stopping = asyncio.create_task(asyncio.to_thread(server.stop))
    worker = server.processes("worker")[0]
    await asyncio.to_thread(worker.wait_for_line, "Stopping: waiting")
    (path / "go").touch()  # the first step comes to its end while the stop waits
    await stopping
    seconds = time.monotonic() - began
    assert seconds < 30, seconds  # five of them for the runs; the rest is a slow machine's
    model.open_gate(gate)
    await asyncio.to_thread(server.start)
    client = connect(server)
    again = await take_seat(client, path, yolo=True)
    native = await NativeSse(client.http, again.workspace.id, after=0).open()
    await native.wait_for(lambda r: r.type == "stream.opened")
    for name in ("streaming", "between", "ahead", "behind"):
        await native.wait_for(
            lambda r, name=name: (
                r.type == "run.finished" and r.body["data"]["run"]["run_id"] == name
            )
        )
    ended = [r.body["data"]["run"] for r in native.received if r.type == "run.finished"]
    outcomes = {run["run_id"]: run["outcome"] for run in ended}
    assert len(ended) == 4
    assert outcomes == {
        "streaming": "completed",
        "between": "completed",
        "ahead": "completed",
        "behind": "completed",
    }
    # Handed over between two steps: none was done twice, none was left out.
    assert (path / "steps").read_text().split() == ["step"] * 5
    messages = await again.workspace.messages(streaming)
    assert roles_and_finishes(messages) == [("user", "stop"), ("assistant", "end_turn")]
    assert len(text_of(messages[1]).split()) == 20  # the reply was requested again, as a whole
    assert log.loud() == []
    await native.close()


async def test_requests_during_the_stop_are_answered_or_refused(
    embedded_server: Server, connect: Connect, project: MakeProject
) -> None:
    client = connect(embedded_server)
    workspace = await client.workspace(project())
    session = await workspace.session()
    stopping = asyncio.create_task(asyncio.to_thread(embedded_server.stop))
    accepted: set[str] = set()
    while not stopping.done():
        run_id = str(uuid.uuid4())
        try:
            await workspace.prompt(session, "[[n=1]]", run_id)
        except UnexpectedStatus as error:
            assert error.status == 503, error  # noqa: PT017
        except (aiohttp.ClientError, ConnectionError):
            continue
        else:
            accepted.add(run_id)
    await stopping
    await asyncio.to_thread(embedded_server.start)
    again = await take_seat(connect(embedded_server), workspace.path)
    async with asyncio.timeout(60):
        while (await again.workspace.agent())["is_busy"]:
            await asyncio.sleep(0.05)
    assert len(await again.workspace.user_messages(session)) >= len(accepted)


async def test_the_log_records_the_lifecycle_with_its_ids(
    embedded_server: Server, connect: Connect, project: MakeProject
) -> None:
    client = connect(embedded_server)
    seat = await take_seat(client, project("named"))
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, "[[n=2]]", "a-run")
    await seat.stream.run_complete(session, "a-run")
    await seat.stream.close()
    await seat.workspace.release()
    where = f"workspace={seat.workspace.id}"
    for what, more in [
        ("workspace opened", ""),
        ("run started", f" session={session} run="),
        ("run finished", f" session={session} run="),
        ("workspace closed", ""),
    ]:
        expected = re.compile(rf"Z info \S+ {what}.* {where}{more}")
        # A line may be written after clients were sent what it is about.
        await eventually(
            lambda expected=expected: bool(expected.search(embedded_server.log_text())), what
        )
    text = embedded_server.log_text()
    assert "Serving on" in text
    assert "[[n=2]]" not in text  # what people say is not the log's business
