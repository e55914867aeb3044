"""The server itself: how answers go out, whole or in pieces."""

import asyncio
import os
import socket

import aiohttp
import pytest

from crushsite.server.asgi_server import AsgiServer
from tests.integration.server.app import App
from tests.integration.server.started import Start, port_of, url_of


async def test_a_failing_application_tells_nothing(
    start: Start, session: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    server = await start()
    for path in ("/boom", "/nothing"):
        async with session.get(url_of(server, path)) as answer:
            assert answer.status == 500
            assert await answer.json() == {"message": "internal server error"}
    assert "a secret of the server" in caplog.text


async def test_a_stream_that_breaks_off_is_seen_to(
    start: Start, session: aiohttp.ClientSession
) -> None:
    server = await start()
    with pytest.raises(aiohttp.ClientError):
        async with session.get(url_of(server, "/half")) as answer:
            await answer.read()


async def raw(server: AsgiServer, request: str) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(server))
    writer.write(request.encode())
    answer = await asyncio.wait_for(reader.read(), 60)
    writer.close()
    return answer


async def test_a_header_cannot_hold_another(start: Start, session: aiohttp.ClientSession) -> None:
    server = await start()
    async with session.get(url_of(server, "/split")) as answer:
        assert answer.status == 500
        assert not answer.cookies


async def test_an_answer_says_its_length(start: Start, session: aiohttp.ClientSession) -> None:
    server = await start()
    async with session.get(url_of(server)) as answer:
        assert answer.headers["content-length"] == "1"


async def test_an_answer_in_pieces_is_put_together(
    start: Start, session: aiohttp.ClientSession
) -> None:
    server = await start()
    for _ in range(2):  # on one connection
        async with session.get(url_of(server, "/two")) as answer:
            assert await answer.text() == "one two"
    assert len(server.transports) == 1


async def test_an_older_clients_answer_ends_with_its_connection(start: Start) -> None:
    server = await start()
    answer = await raw(server, "GET /two HTTP/1.0\r\n\r\n")
    assert b"chunked" not in answer
    assert answer.endswith(b"\r\n\r\none two")


async def test_an_application_may_end_its_answer_with_the_connection(start: Start) -> None:
    server = await start()
    answer = await raw(server, "GET /closing HTTP/1.1\r\nHost: x\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert body == b"one two"  # and no chunk around it
    assert b"transfer-encoding" not in head.lower()
    assert head.lower().count(b"connection: close") == 1


async def test_such_an_answer_is_closed_without_a_reset_when_its_application_fails(
    start: Start,
) -> None:
    server = await start()
    answer = await raw(server, "GET /closing_half HTTP/1.1\r\nHost: x\r\n\r\n")
    assert answer.endswith(b"\r\n\r\none")


@pytest.mark.parametrize(
    ("status", "phrase"),
    [(422, "Unprocessable Entity"), (429, "Too Many Requests"), (599, "Unknown")],
)
async def test_a_status_comes_with_its_phrase(
    start: Start, session: aiohttp.ClientSession, status: int, phrase: str
) -> None:
    server = await start()
    async with session.post(url_of(server, "/status"), data=b"x" * status) as answer:
        assert (answer.status, answer.reason) == (status, phrase)


@pytest.mark.parametrize("request_line", ["HEAD /size", "HEAD /two", "GET /empty"])
async def test_an_answer_without_a_body_has_none(start: Start, request_line: str) -> None:
    server = await start()
    answer = await raw(server, f"{request_line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert answer.endswith(b"\r\n\r\n")
    assert b"chunked" not in answer
    assert b"\r\nConnection: close\r\n" in answer


async def test_small_writes_are_not_held_back(start: Start) -> None:
    server = await start()
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(server))
    writer.write(b"GET /size HTTP/1.1\r\nHost: x\r\n\r\n")
    await reader.readline()
    (transport,) = server.transports
    assert transport.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert not os.get_inheritable(transport.socket.fileno())
    writer.close()


async def test_what_is_pushed_goes_out_between_what_is_sent(
    start: Start, session: aiohttp.ClientSession, app: App
) -> None:
    server = await start()
    async with session.get(url_of(server, "/pushed")) as answer:
        assert await answer.read() == b"sent pushed sent "
    assert app.seen == ["before its head: False", "begun: True", "ended: False"]


async def test_messages_are_pushed_to_an_open_socket_only(
    start: Start, session: aiohttp.ClientSession, app: App
) -> None:
    server = await start()
    async with session.ws_connect(url_of(server, "/pushed")) as socket:
        assert await socket.receive_str() == "sent"
        assert await socket.receive_str() == "pushéd"
        assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
        assert socket.close_code == 4401
    assert app.seen == [
        "before it is accepted: False",
        "open: True",
        "too large: False",
        "closed: False",
    ]
