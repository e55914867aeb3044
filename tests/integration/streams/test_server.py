"""The server itself: where it listens, what it takes, how it stops, and slow readers."""

import asyncio
import gc
import os
import socket
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest
import pytest_asyncio

from crushsite.server import AsgiServer
from crushsite.serving.endpoints import EndpointError, TcpEndpoint, UnixEndpoint, parse_endpoint
from tests.integration.streams.reading import narrow_socket

Start = Callable[..., Awaitable[AsgiServer]]
MEGABYTE = 1024 * 1024


class App:
    """Answers with what came, streams without an end, echoes on sockets, or hangs."""

    def __init__(self) -> None:
        self.sent = 0
        self.is_waiting = asyncio.Event()
        self.was_left = asyncio.Event()
        self.seen: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await self._socket(scope["path"], receive, send)
            return
        size = 0
        while True:
            message = await receive()
            size += len(message.get("body", b""))
            if not message.get("more_body"):
                break
        await getattr(self, scope["path"][1:])(size, receive, send)

    async def size(self, size: int, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"%d" % size})

    async def boom(self, size: int, receive: Any, send: Any) -> None:
        raise ValueError("a secret of the server")

    async def nothing(self, size: int, receive: Any, send: Any) -> None:
        pass

    async def half(self, size: int, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})

    async def split(self, size: int, receive: Any, send: Any) -> None:
        headers = [(b"x-split", b"a\r\nset-cookie: b")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"ok"})

    async def empty(self, size: int, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b"ignored"})

    async def two(self, size: int, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"one ", "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": True})
        await send({"type": "http.response.body", "body": b"two"})

    async def hang(self, size: int, receive: Any, send: Any) -> None:
        self.is_waiting.set()
        await asyncio.Event().wait()

    async def slow(self, size: int, receive: Any, send: Any) -> None:
        self.is_waiting.set()
        await asyncio.sleep(0.3)
        await self.size(size, receive, send)

    async def flood(self, size: int, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        left = asyncio.create_task(receive())
        while not left.done() and self.sent < 400 * MEGABYTE:
            await send({"type": "http.response.body", "body": b"x" * 65_536, "more_body": True})
            self.sent += 65_536
            await asyncio.sleep(0)
        left.cancel()
        self.was_left.set()

    async def _socket(self, path: str, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        while path == "/flood" and self.sent < 400 * MEGABYTE:
            await send({"type": "websocket.send", "text": "x" * 65_536})
            self.sent += 65_536
            await asyncio.sleep(0)
        while path == "/deaf":
            self.is_waiting.set()
            await asyncio.sleep(0.5)
            break
        while (message := await receive())["type"] != "websocket.disconnect":
            self.seen.append(message["text"])
            await send({"type": "websocket.send", "text": message["text"]})
        self.was_left.set()


@pytest_asyncio.fixture
async def app() -> App:
    return App()


@pytest_asyncio.fixture
async def start(app: App) -> AsyncIterator[Start]:
    servers: list[AsgiServer] = []

    async def begin(*endpoints: str, **options: Any) -> AsgiServer:
        server = AsgiServer(app, endpoints=endpoints or ["tcp://127.0.0.1:0"], **options)
        await server.start()
        servers.append(server)
        return server

    yield begin
    for server in servers:
        await server.stop(grace_seconds=0.1)


@pytest_asyncio.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


def port_of(server: AsgiServer) -> int:
    (endpoint,) = server.endpoints_open
    assert isinstance(endpoint, TcpEndpoint)
    return endpoint.port


def url_of(server: AsgiServer, path: str = "/size") -> str:
    return f"http://127.0.0.1:{port_of(server)}{path}"


# -- where it listens


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("tcp://127.0.0.1:8000", TcpEndpoint("127.0.0.1", 8000)),
        ("tcp://[::1]:0", TcpEndpoint("::1", 0)),
        ("tcp://localhost:1/", TcpEndpoint("localhost", 1)),
        ("unix:///run/a.sock", UnixEndpoint("/run/a.sock")),
    ],
)
def test_an_endpoint_is_read(text: str, endpoint: object) -> None:
    assert parse_endpoint(text) == endpoint


@pytest.mark.parametrize(
    "text",
    [
        "",
        "127.0.0.1:8000",
        "tcp://",
        "tcp://127.0.0.1",
        "tcp://127.0.0.1:99999",
        "tcp://127.0.0.1:x",
        "tcp://:80",
        "tcp://me@127.0.0.1:80",
        "tcp://127.0.0.1:80/path",
        "ftp://127.0.0.1:80",
        "unix://relative",
        "unix://",
        "unix:///a\0b",
        "unix:///" + "x" * 200,
    ],
)
def test_a_bad_endpoint_is_refused(text: str) -> None:
    with pytest.raises(EndpointError):
        parse_endpoint(text)


async def test_it_says_its_real_port(start: Start, session: aiohttp.ClientSession) -> None:
    server = await start()
    assert port_of(server) > 0
    async with session.get(url_of(server)) as answer:
        assert await answer.text() == "0"
        assert answer.headers["server"] == "crush"


async def test_it_listens_on_ipv6(start: Start, session: aiohttp.ClientSession) -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    server = await start("tcp://[::1]:0")
    async with session.get(f"http://[::1]:{port_of(server)}/size") as answer:
        assert answer.status == 200


async def test_an_address_in_use_is_told(start: Start) -> None:
    server = await start()
    with pytest.raises(EndpointError, match="in use"):
        await start(f"tcp://127.0.0.1:{port_of(server)}")


async def test_it_listens_everywhere_or_nowhere(start: Start, tmp_path: Path) -> None:
    server = await start()
    path = tmp_path / "s"
    with pytest.raises(EndpointError, match="in use"):
        await start(f"unix://{path}", f"tcp://127.0.0.1:{port_of(server)}")
    assert not path.exists()


async def test_a_socket_file_is_ours_alone_and_is_removed(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "s"
    server = await start(f"unix://{path}")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    async with (
        aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(path))) as session,
        session.get("http://api.crush.localhost/size") as answer,
    ):
        assert answer.status == 200
    await server.stop()
    assert not path.exists()


async def test_a_live_servers_socket_file_is_left_alone(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "s"
    await start(f"unix://{path}")
    with pytest.raises(EndpointError, match="in use"):
        await start(f"unix://{path}")
    assert path.is_socket()


async def test_a_dead_servers_socket_file_is_replaced(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    await start(f"unix://{path}")
    assert path.is_socket()


async def test_a_file_that_is_no_socket_is_left_alone(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_text("precious")
    with pytest.raises(EndpointError, match="not a socket"):
        await start(f"unix://{path}")
    assert path.read_text() == "precious"


async def test_another_servers_socket_file_outlives_ours(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "s"
    server = await start(f"unix://{path}")
    path.unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        await server.stop()
        assert path.is_socket()


# -- what it takes


async def test_a_body_up_to_the_limit_is_taken(
    start: Start, session: aiohttp.ClientSession
) -> None:
    server = await start(body_limit=300_000)
    async with session.post(url_of(server), data=b"x" * 300_000) as answer:
        assert await answer.text() == "300000"


async def _chunks(size: int) -> AsyncIterator[bytes]:
    for _ in range(size // 1000):
        yield b"x" * 1000


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_a_larger_body_is_refused(
    start: Start, session: aiohttp.ClientSession, is_chunked: bool
) -> None:
    server = await start(body_limit=300_000)
    data = _chunks(301_000) if is_chunked else b"x" * 300_001
    async with session.post(url_of(server), data=data) as answer:
        assert answer.status == 413
        assert "300000" in (await answer.json())["message"]


async def test_a_huge_announced_body_is_refused_before_it_comes(start: Start) -> None:
    server = await start()
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(server))
    writer.write(b"POST /size HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n")
    assert b" 413 " in await asyncio.wait_for(reader.readline(), 5)
    writer.close()


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"nonsense\r\n\r\n",
        b"GET /size HTTP/1.1\r\nHost x\r\n\r\n",
        b"GET /size HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"GET /size HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /size HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /size HTTP/1.1\r\n" + b"A: b\r\n" * 1000 + b"\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        b"GET /size HTTP/1.1\r\nH\xc3: x\r\nConnection: close\r\n\r\n",
        b"GET /size HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        b"GET /size HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 99\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    ],
)
async def test_a_malformed_request_gets_a_sentence_and_is_no_error_of_ours(
    start: Start, request_bytes: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    server = await start()
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(server))
    writer.write(request_bytes)
    answer = await asyncio.wait_for(reader.read(), 10)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 426 "))
    assert body.startswith(b'{"message":')
    assert not [record for record in caplog.records if record.levelname in {"ERROR", "CRITICAL"}]
    writer.close()


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
    answer = await asyncio.wait_for(reader.read(), 5)
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
    assert len(server.channels) == 1


async def test_an_older_clients_answer_ends_with_its_connection(start: Start) -> None:
    server = await start()
    answer = await raw(server, "GET /two HTTP/1.0\r\n\r\n")
    assert b"chunked" not in answer
    assert answer.endswith(b"\r\n\r\none two")


@pytest.mark.parametrize("request_line", ["HEAD /size", "HEAD /two", "GET /empty"])
async def test_an_answer_without_a_body_has_none(start: Start, request_line: str) -> None:
    server = await start()
    answer = await raw(server, f"{request_line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert answer.endswith(b"\r\n\r\n")
    assert b"chunked" not in answer
    assert b"\r\nConnection: close\r\n" in answer


async def test_a_large_message_passes_both_ways(
    start: Start, session: aiohttp.ClientSession
) -> None:
    server = await start()
    async with session.ws_connect(url_of(server), max_msg_size=0) as ws:
        for size in (0, 125, 126, 65_535, 65_536, 3 * MEGABYTE):
            await ws.send_str("é" * size)
            if size:
                assert await ws.receive_str() == "é" * size


async def test_a_message_over_the_limit_closes_the_socket(
    start: Start, session: aiohttp.ClientSession
) -> None:
    server = await start(frame_limit=10_000)
    async with session.ws_connect(url_of(server)) as ws:
        await ws.send_str("x" * 10_001)
        assert (await ws.receive()).type is aiohttp.WSMsgType.CLOSE
        assert ws.close_code == 1009


async def test_a_socket_is_not_read_faster_than_its_application(
    start: Start, session: aiohttp.ClientSession, app: App
) -> None:
    server = await start()
    before = memory()
    async with session.ws_connect(url_of(server, "/deaf")) as ws:
        await app.is_waiting.wait()

        async def send() -> None:
            for _ in range(100):
                await ws.send_str("x" * MEGABYTE)

        sending = asyncio.create_task(send())
        await asyncio.sleep(0.3)
        (queue,) = [each.application_queue for each in server.connections]
        assert queue.qsize() <= 3
        assert memory() - before < 60 * MEGABYTE
        sending.cancel()


# -- slow readers


def memory() -> int:
    gc.collect()
    return psutil.Process().memory_info().rss


def stalled(path: str) -> bytes:
    upgrade = (
        "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    )
    kind, _, place = path.partition(":")
    return f"GET {place} HTTP/1.1\r\nHost: x\r\n{upgrade if kind == 'ws' else ''}\r\n".encode()


async def settled(app: App) -> int:
    """How much was sent when no more goes out."""
    async with asyncio.timeout(20):
        before = -1
        while app.sent == 0 or app.sent != before:
            before = app.sent
            await asyncio.sleep(0.25)
    return app.sent


@pytest.mark.parametrize("path", ["http:/flood", "ws:/flood"])
@pytest.mark.parametrize("family", ["tcp", "unix"])
async def test_a_reader_that_does_not_read_costs_no_memory(
    start: Start, app: App, path: str, family: str, tmp_path: Path
) -> None:
    place = tmp_path / "s"
    server = await start("tcp://127.0.0.1:0" if family == "tcp" else f"unix://{place}")
    before = memory()
    if family == "tcp":
        client = narrow_socket(port_of(server))
    else:
        client = socket.socket(socket.AF_UNIX)
        client.connect(str(place))
        client.setblocking(False)
    with client:
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(client, stalled(path))
        sent = await settled(app)
        assert sent < 20 * MEGABYTE  # what the kernel holds
        assert memory() - before < 20 * MEGABYTE
        while app.sent < sent + 5 * MEGABYTE:  # it goes on when the client does
            assert await loop.sock_recv(client, 256 * 1024)


@pytest.mark.parametrize("path", ["http:/flood", "ws:/flood"])
async def test_a_reader_that_takes_nothing_for_the_patience_is_cut_off(
    start: Start, app: App, path: str
) -> None:
    server = await start(patience_seconds=0.6)
    with narrow_socket(port_of(server)) as client:
        await asyncio.get_running_loop().sock_sendall(client, stalled(path))
        await settled(app)
        async with asyncio.timeout(10):
            while server.connections:
                await asyncio.sleep(0.05)


async def test_a_reader_that_takes_a_little_each_time_is_not_cut_off(
    start: Start, app: App
) -> None:
    server = await start(patience_seconds=1.5)
    loop = asyncio.get_running_loop()
    with narrow_socket(port_of(server)) as client:
        await loop.sock_sendall(client, stalled("http:/flood"))
        await settled(app)
        until = loop.time() + 4
        while loop.time() < until:
            assert await loop.sock_recv(client, 512 * 1024)
            await asyncio.sleep(0.05)
        assert server.connections


# -- how it stops


async def test_a_running_request_is_finished_before_the_stop(
    start: Start, session: aiohttp.ClientSession, app: App
) -> None:
    server = await start()
    url = url_of(server, "/slow")
    asking = asyncio.create_task(session.get(url))
    await app.is_waiting.wait()
    await server.stop(grace_seconds=5)
    answer = await asking
    assert await answer.text() == "0"


async def test_a_request_that_never_ends_is_cut_off(
    start: Start, session: aiohttp.ClientSession, app: App, caplog: pytest.LogCaptureFixture
) -> None:
    server = await start()
    asking = asyncio.create_task(session.get(url_of(server, "/hang")))
    await app.is_waiting.wait()
    async with asyncio.timeout(5):
        await server.stop(grace_seconds=0.1)
    async with await asking as answer:
        assert answer.status == 503
        assert await answer.json() == {"message": "server is shutting down"}
    assert not [record for record in caplog.records if record.levelno >= 30]


async def test_it_accepts_nobody_after_the_stop(
    start: Start, session: aiohttp.ClientSession
) -> None:
    server = await start()
    url = url_of(server)
    async with session.get(url) as answer:
        await answer.read()  # and keeps the connection
    await server.stop()
    await server.stop()
    with pytest.raises(aiohttp.ClientError):
        await session.get(url)


async def test_a_process_may_start_one_server_after_another(
    start: Start, session: aiohttp.ClientSession
) -> None:
    first = await start()
    await first.stop()
    second = await start()
    async with session.get(url_of(second)) as answer:
        assert answer.status == 200


async def test_small_writes_are_not_held_back(start: Start) -> None:
    server = await start()
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(server))
    writer.write(b"GET /size HTTP/1.1\r\nHost: x\r\n\r\n")
    await reader.readline()
    (channel,) = server.channels
    assert channel.transport.getTcpNoDelay()
    assert not os.get_inheritable(channel.transport.fileno())
    writer.close()
