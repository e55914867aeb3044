"""The server itself: where it listens, and where it refuses to."""

import asyncio
import socket
import stat
from pathlib import Path

import aiohttp
import pytest

from crushsite.endpoints import EndpointError, TcpEndpoint, UnixEndpoint, parse_endpoint
from tests.integration.server.app import App
from tests.integration.server.started import Start, port_of, url_of


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


@pytest.mark.parametrize("sent", [b"", b"GET /size HT", b"GET /size HTTP/1.1\r\nHost: x\r\n\r\n"])
async def test_an_idle_connection_is_closed(start: Start, sent: bytes) -> None:
    server = await start(idle_seconds=1, write_timeout_seconds=1)
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(server))
    writer.write(sent)
    async with asyncio.timeout(60):
        await reader.read()
    writer.close()


async def test_a_connection_with_a_request_at_work_is_not_idle(start: Start, app: App) -> None:
    server = await start(idle_seconds=0, write_timeout_seconds=0.1)
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(server))
    writer.write(b"GET /hang HTTP/1.1\r\nHost: x\r\n\r\n")
    await app.is_waiting.wait()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.read(), 2.5)
    writer.close()


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
