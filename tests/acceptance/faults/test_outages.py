"""PostgreSQL or Redis are away for a while: runs go on, clients get an answer, the log stays short."""

import asyncio
import json
import time
import uuid

import aiohttp
import psycopg
import pytest

from tests.acceptance.calling import eventually
from tests.acceptance.conversation import take_seat
from tests.acceptance.faults.conftest import NewDetour
from tests.acceptance.harness.http import UnexpectedStatus
from tests.acceptance.harness.shapes import Server, Shape
from tests.acceptance.serve.starting import Connect, MakeProject, MakeServer
from tests.acceptance.watching import LogWatch
from tests.doubles.tcp_proxy import Mode

AWAY_SECONDS = 7.0
LAYER_SECONDS = 1.0  # how long a message to Redis is waited for
RUNS = 8


async def test_no_run_is_interrupted_while_postgresql_is_away(
    make_a_server: MakeServer, detour: NewDetour, connect: Connect, project: MakeProject
) -> None:
    way = detour("DATABASE_URL", "web", "worker")
    # Leases run out meanwhile: each worker must leave the others the time to renew theirs.
    server = make_a_server(Shape.SCALED, env={"CRUSH_LEASE": "5"}, workers=2, reroute=way)
    await asyncio.to_thread(server.start)
    client = connect(server)
    seat = await take_seat(client, project(), yolo=True)
    step = json.dumps({"command": "echo step >> steps; sleep 0.5", "description": "s"})
    sessions = [await seat.workspace.session() for _ in range(RUNS)]
    for number, session in enumerate(sessions):
        await seat.workspace.prompt(session, f"[[tools=4 bash {step}]] [[n=3]]", f"run {number}")
    steps = seat.workspace.path / "steps"
    await eventually(steps.exists, "they are in the middle of their steps")
    log = LogWatch(server)
    began_at = time.monotonic()
    way.proxy.set_mode(Mode.REFUSE)
    await asyncio.sleep(1.5)  # longer than a restart
    for method, path, body in (
        ("POST", f"/v1/workspaces/{seat.workspace.id}/agent", {"session_id": "s", "prompt": "p"}),
        ("GET", f"/v1/workspaces/{seat.workspace.id}/sessions", None),
        ("GET", f"/api/workspaces/{seat.workspace.id}/events", None),
        ("GET", f"/v1/workspaces/{seat.workspace.id}/events?client_id={uuid.uuid4()}", None),
    ):
        began = time.monotonic()
        async with client.http.session.request(
            method, server.url + path, json=body, timeout=60
        ) as answer:
            text = await answer.text()
            assert answer.status == 503, (path, answer.status, text)
            assert answer.headers["Retry-After"] == "2", path
            assert "database cannot be reached" in json.loads(text)["message"]
        assert time.monotonic() - began < 20, path  # nobody waits for the database to return
    await asyncio.sleep(AWAY_SECONDS - 1.5)
    way.proxy.set_mode(Mode.PASS)
    away_seconds = time.monotonic() - began_at
    for number, session in enumerate(sessions):
        complete = await seat.stream.run_complete(session, f"run {number}")
        assert "error" not in complete, complete
    assert steps.read_text().split() == ["step"] * 4 * RUNS
    assert await asyncio.to_thread(_outcomes, server) == ["completed"] * RUNS
    for text in log.texts():
        lines = [line for line in text.splitlines() if " info " not in line]
        assert len(lines) <= away_seconds * 2, text
        assert "Traceback" not in text


async def test_requests_with_a_credential_get_503_while_postgresql_is_away(
    make_a_server: MakeServer, detour: NewDetour, connect: Connect, project: MakeProject
) -> None:
    way = detour("DATABASE_URL", "web")
    server = make_a_server(Shape.SCALED, reroute=way)
    await asyncio.to_thread(server.start)
    client = connect(server)
    seat = await take_seat(client, project())
    way.proxy.set_mode(Mode.REFUSE)
    credentials = (
        {"Authorization": "Bearer crush_" + "x" * 43},
        {"Cookie": "crush_sessionid=abcdefghijklmnopqrstuvwxyz012345"},
    )
    base = f"{server.url}/api/workspaces/{seat.workspace.id}"
    for headers in credentials:
        for url in (f"{server.url}/v1/workspaces", f"{base}/events", f"{server.url}/admin/"):
            async with client.http.session.get(url, headers=headers, timeout=60) as answer:
                assert (answer.status, answer.headers["Retry-After"]) == (503, "2"), url
                assert "database cannot be reached" in await answer.text()
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await client.http.session.ws_connect(f"{base}/stream", headers=headers)
        assert refused.value.status == 503
        assert (refused.value.headers or {})["Retry-After"] == "2"
    way.proxy.set_mode(Mode.PASS)

    async def status(headers: dict[str, str]) -> int:
        async with client.http.session.get(f"{server.url}/v1/workspaces", headers=headers) as again:
            return again.status

    for headers in credentials:  # looked up again, and known to nobody
        async with asyncio.timeout(60):
            while await status(headers) == 503:
                await asyncio.sleep(0.1)
        assert await status(headers) == 401


async def test_a_silent_redis_holds_up_neither_prompts_nor_the_stop(
    make_a_server: MakeServer, detour: NewDetour, connect: Connect, project: MakeProject
) -> None:
    way = detour("REDIS_URL", "web", "worker")
    server = make_a_server(Shape.SCALED, reroute=way)
    await asyncio.to_thread(server.start)
    client = connect(server)
    seat = await take_seat(client, project())
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, "[[n=2]]", "before")
    await seat.stream.run_complete(session, "before")
    way.proxy.set_mode(Mode.SILENT)
    waits = [LAYER_SECONDS]
    # A nudge alone waits for longer; a busy machine may need that long for a prompt now and then.
    while min(waits) > 0.9 * LAYER_SECONDS and len(waits) < 20:
        began = time.monotonic()
        await seat.workspace.prompt(session, "[[n=2]]", f"silent {len(waits)}")
        waits.append(time.monotonic() - began)
    assert min(waits) < 0.9 * LAYER_SECONDS, waits
    # Events and words are found in the database, and readers of other workspaces can come.
    await seat.stream.run_complete(session, f"silent {len(waits) - 1}")
    await seat.workspace.prompt(session, "[[n=1000 d=20]]", "slow")
    await seat.stream.words(session, 100)
    assert (await seat.workspace.agent())["is_busy"]
    await seat.workspace.cancel(session)
    other = await take_seat(client, project("other"))
    began = time.monotonic()
    await other.workspace.prompt(await other.workspace.session(), "[[n=2]]", "other")
    await other.stream.run_complete(run_id="other")
    assert time.monotonic() - began < 30
    began = time.monotonic()
    await asyncio.to_thread(server.stop)
    seconds = time.monotonic() - began
    assert seconds < 20, seconds  # about three on a quiet machine; who hangs has thirty


async def test_the_stop_ends_a_worker_whose_postgresql_is_away(
    make_a_server: MakeServer, detour: NewDetour, connect: Connect, project: MakeProject
) -> None:
    way = detour("DATABASE_URL", "web", "worker")
    server = make_a_server(Shape.SCALED, env={"CRUSH_DRAIN": "1"}, reroute=way)
    await asyncio.to_thread(server.start)
    seat = await take_seat(connect(server), project())
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, "[[n=20000 d=20]]", "streams")
    await seat.stream.words(session, 3)
    way.proxy.set_mode(Mode.REFUSE)
    try:
        await seat.workspace.call("GET", "/sessions")
    except UnexpectedStatus as error:
        assert error.status == 503, error  # noqa: PT017
    began = time.monotonic()
    await asyncio.to_thread(server.stop)
    seconds = time.monotonic() - began
    assert seconds < 25, seconds  # about five on a quiet machine; who hangs has thirty


def _outcomes(server: Server) -> list[str]:
    with psycopg.connect(server.env["DATABASE_URL"]) as connection:
        rows = connection.execute("SELECT outcome FROM agents_run ORDER BY id").fetchall()
    return [str(row[0]) for row in rows]
