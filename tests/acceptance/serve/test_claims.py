"""Who holds a workspace open: streams, claims, runs."""

import asyncio
import time

import pytest

from tests.acceptance.conversation import take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.http import UnexpectedStatus
from tests.acceptance.harness.shapes import Server, Shape
from tests.acceptance.serve.starting import Connect, MakeProject, MakeServer
from tests.acceptance.transcripts import BlockedTool


@pytest.mark.server_env(CRUSH_SERVER_CREATE_GRACE="3")
async def test_a_claim_without_a_stream_lapses(
    server: Server, connect: Connect, project: MakeProject
) -> None:
    client = connect(server)
    workspace = await client.workspace(project())
    assert (await workspace.get())["id"] == workspace.id
    await _closed(client, workspace.id)


@pytest.mark.server_env(CRUSH_SERVER_CREATE_GRACE="3", CRUSH_SERVER_DETACH_GRACE="5")
async def test_a_client_that_returns_within_its_grace_keeps_the_workspace(
    server: Server, connect: Connect, project: MakeProject
) -> None:
    client = connect(server)
    seat = await take_seat(client, project())
    await asyncio.sleep(4.5)  # past the create grace: the stream holds it
    for _ in range(3):
        await seat.stream.abort()
        await asyncio.sleep(0.8)
        seat.stream = await seat.workspace.attach()
    await asyncio.sleep(5.5)
    assert (await seat.workspace.get())["id"] == seat.workspace.id
    await seat.stream.close()
    left = time.monotonic()
    await _closed(client, seat.workspace.id)
    assert time.monotonic() - left > 4


@pytest.mark.server_env(CRUSH_SERVER_DETACH_GRACE="0.3")
async def test_two_streams_of_one_client_are_one_claim(
    server: Server, connect: Connect, project: MakeProject
) -> None:
    client = connect(server)
    seat = await take_seat(client, project())
    second = await seat.workspace.attach()
    await seat.stream.close()
    await asyncio.sleep(1)
    assert (await seat.workspace.get())["id"] == seat.workspace.id
    await second.close()
    await _closed(client, seat.workspace.id)


async def _closed(client: Client, workspace_id: str) -> None:
    async with asyncio.timeout(60):
        while workspace_id in [w["id"] for w in await client.workspaces()]:
            await asyncio.sleep(0.05)


async def test_a_release_closes_at_once_and_ends_the_client_s_stream(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    client = connect(shared_server)
    seat = await take_seat(client, project("released"))
    await seat.workspace.release()
    await seat.workspace.get(expect=404)
    await seat.stream.wait_end()
    with pytest.raises(UnexpectedStatus) as refusal:
        await seat.workspace.release()
    assert refusal.value.status == 404


async def test_a_retired_client_gets_no_claim_again(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    client, path = connect(shared_server), project("retired")
    stays = await take_seat(client, path)
    seat = await take_seat(client, path)
    client_id = seat.workspace.client_id
    await client.retire(client_id)
    await client.retire(client_id)  # twice is no error
    await seat.stream.wait_end()
    for again in (client_id, client_id.upper()):
        with pytest.raises(UnexpectedStatus) as refusal:
            await client.workspace(path, client_id=again)
        assert refusal.value.status == 409
    with pytest.raises(UnexpectedStatus) as refusal:
        await seat.workspace.attach()
    assert refusal.value.status == 409
    assert (await stays.workspace.get())["id"] == stays.workspace.id


async def test_current_sessions_are_counted_while_their_clients_stream(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    client, path = connect(shared_server), project("current")
    unattached = await client.workspace(path)
    session, other = await unattached.session(), await unattached.session()
    await unattached.set_current(session, expect=409)
    a, b = await take_seat(client, path), await take_seat(client, path)

    async def counts() -> list[int]:
        shown = [await unattached.get_session(one) for one in (session, other)]
        return [one["attached_clients"] for one in shown]

    await a.workspace.set_current(session)
    await b.workspace.set_current(session)
    assert await counts() == [2, 0]
    await b.workspace.set_current(other)
    assert await counts() == [1, 1]
    counted = await a.stream.wait_for(
        lambda e: (
            e.type == "session" and e.payload["id"] == other and e.payload["attached_clients"] == 1
        )
    )
    assert counted.action == "updated"
    await b.workspace.set_current("nope", expect=404)
    await b.workspace.set_current("")
    assert await counts() == [1, 0]
    await a.stream.abort()
    async with asyncio.timeout(60):
        while await counts() != [0, 0]:
            await asyncio.sleep(0.02)
    await a.workspace.set_current(session, expect=409)


async def test_a_run_keeps_its_workspace_open_until_it_ends(
    make_a_server: MakeServer, connect: Connect, project: MakeProject
) -> None:
    server = make_a_server(Shape.EMBEDDED, env={"CRUSH_SERVER_DETACH_GRACE": "0.1"})
    await asyncio.to_thread(server.start)
    client, path = connect(server), project("held")
    seat = await take_seat(client, path, yolo=True)
    session = await seat.workspace.session()
    tool = BlockedTool(path)
    await seat.workspace.prompt(session, f"{tool.script} [[n=1]]", "held")
    await seat.workspace.release()  # at once, and the run is not asked
    await tool.wait()
    assert (await seat.workspace.get())["id"] == seat.workspace.id
    tool.release()
    await _closed(client, seat.workspace.id)
