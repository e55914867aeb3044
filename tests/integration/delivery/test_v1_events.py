import asyncio
import json
import socket
import struct

import pytest

from tests.integration.delivery.conftest import CLIENT, OTHER, Site
from tests.integration.delivery.reading import next_envelope, next_frame, rest_of
from workspaces.actions.claims import release_claim, retire_client
from workspaces.actions.sessions import create_session
from workspaces.log.writer import writer


async def test_its_head_comes_at_once_and_what_happens_next_follows(site: Site) -> None:
    async with site.session.get(site.v1()) as answer:
        assert answer.status == 200
        assert answer.headers["content-type"] == "text/event-stream"
        assert answer.headers["cache-control"] == "no-cache"
        # Terminal clients notice the death of a server only where its close is the end.
        assert answer.headers["connection"] == "close"
        assert "transfer-encoding" not in answer.headers
        session = await site.write(create_session, title="new")
        envelope = await next_envelope(answer)
    assert envelope["type"] == "session"
    assert envelope["payload"]["payload"]["id"] == session["id"]


async def test_it_begins_with_what_is_pending(site: Site) -> None:
    site.pending = b'data: {"type":"permission_request"}\n\n'
    async with site.session.get(site.v1()) as answer:
        assert await next_envelope(answer) == {"type": "permission_request"}


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("client_id=not-a-uuid", "invalid client_id: invalid UUID length: 10"),
        ("client_id=" + "z" * 36, "invalid client_id: invalid UUID format"),
        ("client_id=", "invalid client_id: invalid UUID length: 0"),
        ("", "invalid client_id: invalid UUID length: 0"),
        ("&".join(f"a{i}=1" for i in range(50)), "query: has too many parameters"),
    ],
)
async def test_it_refuses_a_bad_client_id(site: Site, query: str, sentence: str) -> None:
    async with site.session.get(site.v1().partition("?")[0] + "?" + query) as answer:
        assert answer.status == 400
        assert answer.headers["content-type"] == "application/json"
        assert await answer.json() == {"message": sentence}


async def test_it_knows_no_workspace_that_is_not_there(site: Site) -> None:
    async with site.session.get(site.v1().replace(site.workspace_id, "nowhere")) as answer:
        assert (answer.status, await answer.json()) == (404, {"message": "workspace not found"})
    assert await site.claims() == {}


async def test_it_knows_no_workspace_that_is_closed(site: Site) -> None:
    await site.close_workspace()
    async with site.session.get(site.v1()) as answer:
        assert (answer.status, await answer.json()) == (404, {"message": "workspace not found"})
    assert await site.claims() == {}


async def test_it_refuses_a_retired_client(site: Site) -> None:
    await writer.write("", lambda tx: retire_client(tx, CLIENT))
    async with site.session.get(site.v1()) as answer:
        assert (answer.status, await answer.json()) == (409, {"message": "client retired"})


async def test_only_get_is_answered(site: Site) -> None:
    async with site.session.post(site.v1()) as answer:
        assert answer.status == 405


async def test_its_client_is_attached_while_it_streams(site: Site) -> None:
    async with site.session.get(site.v1()):
        assert await site.claims() == {CLIENT: True}
    assert await asyncio.wait_for(site.detached.get(), 60) == (site.workspace_id, 7.0)
    assert await site.claims() == {CLIENT: False}


async def test_a_client_that_dies_without_a_word_is_detached(site: Site) -> None:
    client = socket.create_connection(("127.0.0.1", site.port))
    request = f"GET {site.v1().partition(str(site.port))[2]} HTTP/1.1\r\nHost: x\r\n\r\n"
    loop = asyncio.get_running_loop()
    client.setblocking(False)
    await loop.sock_sendall(client, request.encode())
    assert await loop.sock_recv(client, 1000)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()  # a reset
    await asyncio.wait_for(site.detached.get(), 60)
    assert await site.claims() == {CLIENT: False}


async def test_the_end_of_one_of_two_streams_detaches_nobody(site: Site) -> None:
    async with site.session.get(site.v1()) as staying, site.session.get(site.v1(OTHER)):
        async with site.session.get(site.v1()):
            pass
        async with site.session.get(site.v1(OTHER)):
            pass
        await site.write(create_session, title="new")
        assert (await next_envelope(staying))["type"] == "session"
        assert site.detached.empty()
        assert await site.claims() == {CLIENT: True, OTHER: True}


async def test_it_ends_when_the_workspace_closes_after_what_is_pending(site: Site) -> None:
    async with site.session.get(site.v1()) as answer:

        async def both() -> None:
            await site.write(create_session, title="last words")
            await site.close_workspace()

        await both()
        assert b"last words" in await rest_of(answer)


async def test_releasing_its_client_ends_it(site: Site) -> None:
    async with site.session.get(site.v1()) as answer, site.session.get(site.v1(OTHER)) as other:
        await site.write(release_claim, CLIENT)
        assert site.attachments.close_client(CLIENT, site.workspace_id) == 1
        await rest_of(answer)
        await site.write(create_session, title="new")
        assert (await next_envelope(other))["type"] == "session"
        assert await site.claims() == {OTHER: True}


async def test_renewing_ends_the_streams_of_clients_that_were_released_elsewhere(
    site: Site,
) -> None:
    async with site.session.get(site.v1()) as answer:
        await site.attachments.renew()
        await site.write(release_claim, CLIENT)
        await site.attachments.renew()
        await rest_of(answer)


async def test_a_stopping_server_ends_it_cleanly(site: Site) -> None:
    async with site.session.get(site.v1()) as answer:
        stopping = asyncio.create_task(site.server.stop())
        assert await rest_of(answer) == b""
        await stopping
    await site.attachments.stop()
    assert await site.claims() == {CLIENT: False}


async def test_a_stopping_hub_ends_it_cleanly(site: Site) -> None:
    async with site.session.get(site.v1()) as answer:
        await site.hub.stop()
        assert await rest_of(answer) == b""


async def test_a_long_answer_comes_whole(site: Site) -> None:
    site.pending = b"data: " + b"x" * 1_000_000 + b"\n\n"
    async with site.session.get(site.v1(), read_bufsize=4_000_000) as answer:
        assert len(await next_frame(answer)) == 1_000_007


async def test_readers_that_split_at_other_line_breaks_get_whole_events(site: Site) -> None:
    title = "one\u2028two\u2029three\x85four"
    async with site.session.get(site.v1()) as answer:
        await site.write(create_session, title=title)
        body = ""
        async with asyncio.timeout(60):
            while "three" not in body or not body.endswith("\n\n"):
                body += (await answer.content.readany()).decode()
    assert body.splitlines() == body[:-1].split("\n")
    assert title in [
        json.loads(line[6:])["payload"]["payload"].get("title")
        for line in body.splitlines()
        if line.startswith("data: ")
    ]
