"""Named roots: two workers with folders of their own, and a disk that is not mounted."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.acceptance.conversation import Seat, take_seat
from tests.acceptance.harness.commands import command
from tests.acceptance.harness.http import Http
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.project import make_project
from tests.acceptance.harness.shapes import Server, Shape
from tests.acceptance.serve.starting import Connect, MakeServer


async def run(server: Server, *arguments: str) -> str:
    done = await asyncio.to_thread(command, server.env, *arguments)
    assert done.code == 0, done.err
    return done.out


async def processes(server: Server) -> dict[str, dict[str, Any]]:
    """The workers by their roots, found or missing."""
    shown = json.loads(await run(server, "ps", "--json"))["processes"]
    return {"".join([*each["roots"], *each["missing_roots"]]): each for each in shown}


async def started(make_a_server: MakeServer, code: Path, data: Path) -> Server:
    roots = {"worker 1": f"code={code}", "worker 2": f"data={data}"}

    def reroute(name: str, _: Mapping[str, str]) -> Mapping[str, str]:
        return {"CRUSH_ROOTS": roots[name]} if name in roots else {}

    server = make_a_server(Shape.SCALED, workers=2, reroute=reroute, monitored=True)
    await run(server, "root", "init", *roots.values())
    await asyncio.to_thread(server.start)
    return server


async def held_prompt(seat: Seat, gate: str) -> str:
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, f"[[n=10 hold=5 gate={gate}]]", "held")
    return session


async def test_each_worker_serves_its_own_root_and_no_unmounted_disk(
    make_a_server: MakeServer, connect: Connect, tmp_path: Path, model: ScriptedModel
) -> None:
    code, data = tmp_path / "code", tmp_path / "data"
    shop = make_project(code / "shop", model.base_url)
    notes = make_project(data / "notes", model.base_url)
    server = await started(make_a_server, code, data)
    client = connect(server)
    seats = {"code": await take_seat(client, shop), "data": await take_seat(client, notes)}
    gates = {name: model.new_gate() for name in seats}
    sessions = {name: await held_prompt(seat, gates[name]) for name, seat in seats.items()}
    for name, seat in seats.items():
        await seat.stream.words(sessions[name], 3)
    found = await processes(server)
    assert (found["code"]["runs"], found["data"]["runs"]) == (1, 1)
    listed = await run(server, "root", "list")
    assert str(code) in listed
    assert str(data) in listed

    # The disk is unmounted: its folder is there, but empty.
    code.rename(tmp_path / "disk")
    code.mkdir()
    async with asyncio.timeout(60):
        while (await processes(server))["code"]["runs"]:
            await asyncio.sleep(0.1)
    found = await processes(server)
    assert (found["code"]["missing_roots"], found["data"]["roots"]) == (["code"], ["data"])
    assert "the root code is not served" in server.log_text()
    async with Http(server.monitor_urls[0]) as monitor:
        ready = await monitor.call("GET", "/readyz", expect=503)
    assert ready["failing"] == ["roots"]
    model.open_gate(gates["data"])
    await seats["data"].stream.run_complete(sessions["data"], run_id="held")
    assert list(code.iterdir()) == []

    # It is mounted again: the run continues where it was, with the model of its folder.
    code.rmdir()
    (tmp_path / "disk").rename(code)
    model.open_gate(gates["code"])
    await seats["code"].stream.run_complete(sessions["code"], run_id="held")
    (_, reply) = await seats["code"].workspace.messages(sessions["code"])
    assert reply["model"] == "fake-large"
    assert (await processes(server))["code"]["roots"] == ["code"]
