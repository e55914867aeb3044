"""A process says whether it can do its work: to balancers, to service managers, to `ready`."""

import asyncio
import signal
from collections.abc import Mapping

from tests.acceptance.conversation import take_seat
from tests.acceptance.faults.conftest import NewDetour
from tests.acceptance.harness.commands import command
from tests.acceptance.harness.http import Http
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.shapes import Server, Shape
from tests.acceptance.serve.starting import Connect, MakeProject, MakeServer
from tests.doubles.tcp_proxy import Mode

ANSWER_SECONDS = 10.0  # the checks take two
UNKNOWN_TOKEN = {"Authorization": "Bearer crush_" + "x" * 43}


async def state_of(url: str, **headers: str) -> tuple[int, list[str]]:
    """The status and the failing checks of `/readyz`; its HEAD has the same status."""
    async with Http(url) as http, asyncio.timeout(ANSWER_SECONDS):
        assert await http.call("GET", "/healthz") == {"message": "ok"}
        before = await read_state(http, headers)
        async with http.session.head(f"{url}/readyz") as head:
            head_state = (head.status, await head.read())
        after = await read_state(http, headers)
        if before == after:  # else it changed between the two
            assert head_state == (after[0], b"")
        return after


async def read_state(http: Http, headers: Mapping[str, str]) -> tuple[int, list[str]]:
    async with http.session.get(f"{http.url}/readyz", headers=headers) as answer:
        body = await answer.json()
    assert set(body) == {"message", "failing"}
    return answer.status, body["failing"]


def ready(server: Server, *arguments: str) -> tuple[int, str]:
    done = command(server.env, "ready", *arguments)
    return done.code, (done.out or done.err).strip()


async def test_a_draining_process_is_alive_and_not_ready(
    make_a_server: MakeServer,
    shape: Shape,
    connect: Connect,
    project: MakeProject,
    model: ScriptedModel,
) -> None:
    server = make_a_server(shape, env={"CRUSH_DRAIN": "60"}, monitored=True)
    await asyncio.to_thread(server.start)
    (url,) = server.monitor_urls
    assert await state_of(server.url) == await state_of(url) == (200, [])
    assert await asyncio.to_thread(ready, server) == (0, "ready")
    assert await asyncio.to_thread(ready, server, "--server", url) == (0, "ready")
    seat = await take_seat(connect(server), project())
    session, gate = await seat.workspace.session(), model.new_gate()
    await seat.workspace.prompt(session, f"[[n=10 hold=5 gate={gate}]]", "held")
    await seat.stream.words(session, 3)
    worker = server.processes("worker")[0]
    worker.send(signal.SIGTERM)
    await asyncio.to_thread(worker.wait_for_line, "Stopping")
    assert await state_of(url) == (503, ["draining"])
    code, sentence = await asyncio.to_thread(ready, server, "--server", url)
    assert code == 1
    assert "not ready: draining" in sentence
    model.open_gate(gate)
    await seat.stream.run_complete(session, "held")
    assert await asyncio.to_thread(worker.wait) == 0
    code, sentence = await asyncio.to_thread(ready, server, "--server", url)
    assert code == 3
    assert "cannot be reached" in sentence


async def test_processes_without_their_database_or_redis_are_alive_and_not_ready(
    make_a_server: MakeServer, detour: NewDetour
) -> None:
    database = detour("DATABASE_URL", "web", "worker")
    redis = detour("REDIS_URL", "web", "worker")

    def both(name: str, env: dict[str, str]) -> dict[str, str]:
        return {**database(name, env), **redis(name, env)}

    server = make_a_server(Shape.SCALED, reroute=both, monitored=True)
    await asyncio.to_thread(server.start)
    urls = [server.url, *server.monitor_urls]
    for way, mode, name in (
        (database, Mode.REFUSE, "database"),
        (database, Mode.SILENT, "database"),
        (redis, Mode.SILENT, "channel_layer"),
    ):
        for url in urls:
            await becomes(url, 200)
        way.proxy.set_mode(mode)
        for url in urls:
            await becomes(url, 503, name)
            # A credential is not looked up: that would need the database.
            assert await state_of(url, **UNKNOWN_TOKEN) == (503, [name])
        way.proxy.set_mode(Mode.PASS)
    for url in urls:
        await becomes(url, 200)


async def becomes(url: str, status: int, *failing: str) -> None:
    """Returns when the state is this one; a result counts for a moment."""
    async with asyncio.timeout(60):
        while await state_of(url) != (status, [*failing]):
            await asyncio.sleep(0.1)


async def test_a_worker_answers_nothing_else(make_a_server: MakeServer) -> None:
    server = make_a_server(Shape.SCALED, monitored=True)
    await asyncio.to_thread(server.start)
    (url,) = server.monitor_urls
    async with Http(url) as http:
        for path in ("/v1/workspaces", "/api/workspaces", "/admin/", "/v1/health", "/"):
            await http.call("GET", path, expect=404)
        await http.call("GET", "/readyz", expect=403, headers={"Host": "evil.example"})
