import asyncio
import json
import socket
import struct
from typing import Any

import aiohttp
import pytest
from channels.testing import WebsocketCommunicator

from tests.integration.delivery.conftest import CLIENT, Site
from tests.stream_schemas import check_item
from workspaces.actions.claims import release_claim, retire_client
from workspaces.log.writer import writer


async def items_of(socket: aiohttp.ClientWebSocketResponse) -> list[Any]:
    """The items of the next message that has some."""
    async with asyncio.timeout(60):
        while not (items := json.loads(await socket.receive_str())):
            pass
    return items


async def close_code_of(socket: aiohttp.ClientWebSocketResponse) -> int | None:
    async with asyncio.timeout(60):
        while (await socket.receive()).type is aiohttp.WSMsgType.TEXT:
            pass
    return socket.close_code


async def test_it_says_that_it_is_live_and_sends_what_happens(site: Site) -> None:
    async with site.session.ws_connect(site.socket()) as socket:
        (opened,) = await items_of(socket)
        assert opened["type"] == "stream.opened"
        number = await site.tell()
        assert [item["number"] for item in await items_of(socket)] == [number]


async def test_it_replays_from_the_cursor(site: Site) -> None:
    first = await site.tell()
    await site.tell()
    async with site.session.ws_connect(site.socket(f"after={first}")) as socket:
        assert (await items_of(socket))[0]["number"] == first + 1


@pytest.mark.parametrize(
    ("query", "workspace_id", "status", "code", "said"),
    [
        ("", "nowhere", 404, "workspace_unknown", "workspace not found"),
        ("after=x", "", 400, "bad_field", "after: must be the number of an event"),
        (
            *("after=100000", "", 409, "cursor_ahead"),
            "after: is larger than the newest event of this workspace",
        ),
        ("client_id=x", "", 400, "bad_field", "invalid client_id: invalid UUID length: 1"),
    ],
)
async def test_it_is_refused_with_an_http_answer(
    site: Site, query: str, workspace_id: str, status: int, code: str, said: str
) -> None:
    url = site.socket(query, workspace_id=workspace_id)
    with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
        await site.session.ws_connect(url)
    assert refusal.value.status == status
    assert refusal.value.headers is not None
    assert refusal.value.headers["content-type"] == "application/json"
    async with site.session.get(
        url.replace("ws://", "http://"),
        headers={
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        },
    ) as answer:
        assert (await answer.json()) == {"message": said, "code": code}


@pytest.mark.parametrize(("path", "code"), [("nowhere/stream", 4404), ("stream?after=x", 4400)])
async def test_a_server_without_http_answers_gets_a_close_code(
    site: Site, path: str, code: int
) -> None:
    place = f"/api/workspaces/{path}".replace("/stream", f"/{site.workspace_id}/stream")
    place = place.replace(f"nowhere/{site.workspace_id}", "nowhere")
    communicator = WebsocketCommunicator(site.application, place)
    assert await communicator.connect() == (False, code)


async def test_a_retired_client_is_refused(site: Site) -> None:
    await writer.write("", lambda tx: retire_client(tx, CLIENT))
    with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
        await site.session.ws_connect(site.socket(f"client_id={CLIENT}"))
    assert refusal.value.status == 409


async def test_a_client_is_attached_while_its_socket_is_open(site: Site) -> None:
    async with site.session.ws_connect(site.socket(f"client_id={CLIENT}")):
        assert await site.claims() == {CLIENT: True}
    await asyncio.wait_for(site.detached.get(), 60)
    assert await site.claims() == {CLIENT: False}


async def test_releasing_its_client_closes_it(site: Site) -> None:
    async with site.session.ws_connect(site.socket(f"client_id={CLIENT}")) as socket:
        await site.write(release_claim, CLIENT)
        site.attachments.close_client(CLIENT)
        assert await close_code_of(socket) == 4409


async def test_a_stopping_server_tells_it_to_come_back(site: Site) -> None:
    async with site.session.ws_connect(site.socket()) as socket:
        await items_of(socket)
        stopping = asyncio.create_task(site.server.stop())
        assert await close_code_of(socket) == 1012
        await stopping


async def test_a_stopping_hub_tells_it_to_come_back(site: Site) -> None:
    async with site.session.ws_connect(site.socket()) as socket:
        await items_of(socket)
        await site.hub.stop()
        assert await close_code_of(socket) == 1012


async def test_a_slow_reader_is_told_to_resume_and_its_socket_closed(site: Site) -> None:
    async with site.session.ws_connect(site.socket(), max_msg_size=0) as socket:
        (opened,) = await items_of(socket)
        (reader,) = site.hub._rooms[site.workspace_id].native.readers
        assert socket._response.connection is not None
        transport = socket._response.connection.transport
        assert transport is not None
        transport.pause_reading()
        while not reader.overflowed:
            last = await site.tell(size=100_000)
        transport.resume_reading()
        numbers = []
        while (item := (items := await items_of(socket))[-1])["type"] != "stream.resume":
            numbers += [each["number"] for each in items]
        assert await close_code_of(socket) == 4008
    check_item(item)
    resume = item["data"]["after"]
    assert numbers == list(range(opened["data"]["number"] + 1, resume + 1))
    url = site.socket(f"after={resume}")
    async with site.session.ws_connect(url, max_msg_size=0) as socket:
        numbers = []
        while (items := await items_of(socket))[-1]["type"] != "stream.opened":
            numbers += [each["number"] for each in items]
    assert numbers == list(range(resume + 1, last + 1))


async def test_a_reader_on_a_slow_line_gets_the_last_word_before_it_is_cut_off(
    site: Site,
) -> None:
    """It takes what was sent before for longer than a peer may think about a close frame."""
    loop = asyncio.get_running_loop()
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
        client.setblocking(False)
        await loop.sock_connect(client, ("127.0.0.1", site.port))
        path = site.socket().partition(f":{site.port}")[2]
        await loop.sock_sendall(
            client,
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{site.port}\r\n"
            "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode(),
        )
        body = b""
        while b"stream.opened" not in body:
            body += await loop.sock_recv(client, 4096)
        (reader,) = site.hub._rooms[site.workspace_id].native.readers
        while not reader.overflowed:
            await site.tell(size=100_000)
        body = b""
        async with asyncio.timeout(60):
            while struct.pack("!H", 4008) not in body[-4:]:
                chunk = await loop.sock_recv(client, 32 * 1024)
                assert chunk
                body += chunk
                await asyncio.sleep(0.03)  # about a megabyte a second
    assert b"stream.resume" in body[-200:]


async def test_a_command_is_answered_with_its_id(site: Site) -> None:
    async with site.session.ws_connect(site.socket()) as socket:
        await items_of(socket)
        await socket.send_json({"id": {"any": [1]}, "command": "echo", "say": "hello"})
        assert await items_of(socket) == [
            {"type": "reply", "id": {"any": [1]}, "ok": True, "data": {"said": "hello"}}
        ]


@pytest.mark.parametrize(
    ("sent", "code", "message"),
    [
        ("{", "bad_field", "malformed JSON"),
        ("[1]", "bad_field", "must be a JSON object"),
        ("null", "bad_field", "must be a JSON object"),
        ('"' + "x" * 200_000 + '"', "bad_field", "at most 100000 characters"),
        ("[" * 50_000, "bad_field", "malformed JSON"),
        ('{"command": "nothing"}', "bad_field", "must be one of echo, fail, refuse"),
        ('{"command": {"a": 1}}', "bad_field", "must be one of"),
        ("{}", "bad_field", "must be one of"),
        (json.dumps({"id": "x" * 5000, "command": "echo"}), "bad_field", "id: "),
        ('{"command": "refuse"}', "bad_field", "say: is not wanted"),
        (b"\x00\x01", "bad_field", "text messages"),
    ],
)
async def test_a_bad_command_is_answered_and_the_stream_lives(
    site: Site, sent: str | bytes, code: str, message: str
) -> None:
    async with site.session.ws_connect(site.socket()) as socket:
        await items_of(socket)
        if isinstance(sent, str):
            await socket.send_str(sent)
        else:
            await socket.send_bytes(sent)
        (reply,) = await items_of(socket)
        assert (reply["type"], reply["ok"], reply["code"]) == ("reply", False, code)
        assert message in reply["message"]
        number = await site.tell()
        assert (await items_of(socket))[0]["number"] == number


async def test_a_failing_command_tells_nothing_of_the_server(site: Site) -> None:
    async with site.session.ws_connect(site.socket()) as socket:
        await items_of(socket)
        await socket.send_json({"id": 1, "command": "fail"})
        (reply,) = await items_of(socket)
        assert reply == {
            "type": "reply",
            "id": 1,
            "ok": False,
            "code": "internal_error",
            "message": "internal server error",
        }


async def test_many_commands_are_all_answered(site: Site) -> None:
    async with site.session.ws_connect(site.socket()) as socket:
        await items_of(socket)
        for number in range(500):
            await socket.send_json({"id": number, "command": "echo", "session_id": "s"})
        replies = [(await items_of(socket))[0]["id"] for _ in range(500)]
    assert replies == list(range(500))
