"""`ps`: the processes of the server, and runs that are stuck with the reason."""

import asyncio
import json
import signal
from typing import Any

from tests.acceptance.conversation import take_seat
from tests.acceptance.harness.commands import command
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.shapes import Server, Shape
from tests.acceptance.serve.starting import Connect, MakeProject, MakeServer
from workspaces.release import VERSION


async def ps(server: Server) -> dict[str, Any]:
    done = await asyncio.to_thread(command, server.env, "ps", "--json")
    assert done.code == 0, done.err
    return dict(json.loads(done.out))


async def test_it_shows_the_processes_and_a_run_whose_worker_has_died(
    make_a_server: MakeServer,
    shape: Shape,
    connect: Connect,
    project: MakeProject,
    model: ScriptedModel,
) -> None:
    server = make_a_server(shape, env={"CRUSH_LEASE": "2"})
    await asyncio.to_thread(server.start)
    seat = await take_seat(connect(server), project())
    session, gate = await seat.workspace.session(), model.new_gate()
    await seat.workspace.prompt(session, f"[[n=10 hold=5 gate={gate}]]", "held")
    await seat.stream.words(session, 3)
    shown = await ps(server)
    pids = {process["pid"]: process["kind"] for process in shown["processes"]}
    kinds = ["serve"] if shape is Shape.EMBEDDED else ["web", "worker"]
    assert pids == dict(zip(server.pids(), kinds, strict=True))
    holder = next(each for each in shown["processes"] if each["runs"])
    assert (holder["runs"], holder["kind"]) == (1, kinds[-1])
    lease = holder["lease_seconds"]
    assert lease is None if shape is Shape.EMBEDDED else 0 < lease <= 2
    assert (holder["version"], holder["is_draining"]) == (VERSION, False)
    assert 0 <= holder["started_seconds"] < 600
    assert (shown["runs"], shown["stuck"]) == ({"running": 1}, [])
    server.processes("worker")[0].send(signal.SIGKILL)
    async with asyncio.timeout(60):
        while not (shown := await ps(server))["stuck"]:
            await asyncio.sleep(0.1)
    (stuck,) = shown["stuck"]
    assert "does not renew its registration" in stuck["reason"]
    assert (stuck["session_id"], stuck["worker"]) == (session, holder["id"])
    gone = [process for process in shown["processes"] if process["runs"]]
    assert [(each["pid"], each["database"]) for each in gone] == [(holder["pid"], "not connected")]
    text = await asyncio.to_thread(command, server.env, "ps")
    assert text.code == 0
    for part in ("not connected", "Unfinished runs: 1 running", "does not renew its registration"):
        assert part in text.out
    model.open_gate(gate)
