"""Who holds the server open, and whom it obeys."""

import asyncio
from pathlib import Path

from tests.acceptance.conversation import take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.shapes import Server
from tests.acceptance.serve.starting import EXIT_SECONDS, Connect, MakeProject, Serve


async def test_a_server_that_a_person_started_obeys_no_client(
    embedded_server: Server, connect: Connect, project: MakeProject
) -> None:
    client = connect(embedded_server)
    for command in ("shutdown", "shutdown_if_idle"):
        await client.http.call("POST", "/v1/control", {"command": command}, expect=409)
    await client.workspace(project())
    for command in ("shutdown", "shutdown_if_idle"):
        await client.http.call("POST", "/v1/control", {"command": command}, expect=409)
    await client.http.call("GET", "/v1/health")


async def test_a_server_that_ends_when_idle_obeys_a_shutdown_without_open_workspaces(
    serve: Serve, tmp_path: Path
) -> None:
    process = serve("--host", "tcp://127.0.0.1:0", "--idle-exit")
    url = process.wait_for_line("Serving", 60).split()[2]
    async with Client(url) as client:
        workspace = await client.workspace(tmp_path)
        refused = await _message(client, {"command": "shutdown"})
        assert refused[0] == 409
        await workspace.release()
        # What a client of another version sends before it starts a server of its own.
        status, message = await _message(client, {"command": "shutdown_if_idle"})
        assert status == 409
        assert "clients of every version" in message
        await client.http.call("GET", "/v1/health")
        status, _ = await _message(client, {"command": "shutdown"})
        assert status == 200
    assert await asyncio.to_thread(process.wait, EXIT_SECONDS) == 0


async def _message(client: Client, body: object) -> tuple[int, str]:
    url = f"{client.http.url}/v1/control"
    async with client.http.session.post(url, json=body) as answer:
        return answer.status, await answer.text()


async def test_a_server_that_a_client_started_ends_after_the_last_client(
    serve: Serve, tmp_path: Path
) -> None:
    graces = {"CRUSH_SERVER_CREATE_GRACE": "4", "CRUSH_SERVER_DETACH_GRACE": "0.1"}
    process = serve(
        "--host", "tcp://127.0.0.1:0", "--idle-exit", CRUSH_SERVER_IDLE_TIMEOUT="5", **graces
    )
    url = process.wait_for_line("Serving", 60).split()[2]
    async with Client(url) as client:
        seat = await take_seat(client, tmp_path)
        await asyncio.sleep(6.5)  # past both
        assert process.alive  # somebody is there
        await seat.stream.close()
    assert await asyncio.to_thread(process.wait, EXIT_SECONDS) == 0
    assert process.log_text().splitlines()[-1] == "Stopped"
