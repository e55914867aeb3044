"""Dialling: what is offered, what is refused, what does not hang. The far end is another library."""

import asyncio
import contextlib
import ipaddress
import ssl
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from websockets.asyncio.server import serve

from agents.fleet import records
from agents.fleet.parent.connection import ChildConnection, dial
from agents.fleet.parent.errors import (
    ChildConnectionLost,
    DialFailed,
    FleetError,
    NoSuchChild,
    Unauthorized,
)
from agents.fleet.parent.outcome import Order
from agents.fleet.parent.spawn import Remote, reach_recorded, reach_remote
from agents.fleet.wire.codec import BadFrame
from agents.fleet.wire.frames import Cancel, EventFrame, MessageFrame, Terminal
from tests.integration.fleet.parent.listening import Ears


@contextlib.asynccontextmanager
async def served(handler, **options):
    async with serve(handler, "127.0.0.1", 0, compression=None, **options) as server:
        yield f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"


@contextlib.asynccontextmanager
async def dialled(endpoint, **options):
    connection = await dial(endpoint, **options)
    try:
        yield connection
    finally:
        await connection.close()


async def test_a_bad_text_is_an_error_and_the_socket_stays_usable():
    async def child(socket):
        await socket.send("nonsense")
        await socket.send('{"kind":"heartbeat"}')
        await socket.send(b'{"kind":"event","event":1}')
        await socket.ping()
        await socket.send('{"kind":"event","event":2}')
        assert await socket.recv() == '{"kind":"message","text":"still here"}'
        await socket.send('{"kind":"terminal","status":"completed","result":"r"}')

    async with served(child) as endpoint, dialled(endpoint) as connection:
        for _ in range(2):
            with pytest.raises(BadFrame):
                await connection.next_frame()
        assert await connection.next_frame() == EventFrame(2)
        await connection.send(MessageFrame("still here"))
        terminal = await connection.next_frame()
        assert isinstance(terminal, Terminal)
        assert await connection.next_frame() is None
        assert await connection.next_frame() is None


async def test_frames_leave_as_the_other_side_writes_them():
    heard = asyncio.Queue()

    async def child(socket):
        async for text in socket:
            heard.put_nowait(text)

    async with served(child) as endpoint, dialled(endpoint) as connection:
        await connection.send(Cancel())
        assert await heard.get() == '{"kind":"cancel"}'


async def test_the_handshake_offers_nothing_and_keeps_path_and_query():
    seen = asyncio.get_running_loop().create_future()

    async def child(socket):
        seen.set_result((socket.request.path, socket.request.headers))
        await socket.wait_closed()

    async with served(child) as endpoint, dialled(f"{endpoint}/a/b?c=d"):
        path, headers = await seen
    assert path == "/a/b?c=d"
    for name in ("Origin", "Cookie", "Authorization", "Sec-WebSocket-Extensions"):
        assert name not in headers
    assert "Sec-WebSocket-Protocol" not in headers


async def test_closing_sends_an_empty_close_and_does_not_wait():
    ended = asyncio.get_running_loop().create_future()

    async def child(socket):
        await socket.wait_closed()
        ended.set_result(socket.protocol.close_rcvd)

    async with served(child) as endpoint:
        connection = await dial(endpoint)
        await connection.close()
        await connection.close()
        close = await ended
        assert (close.code, close.reason) == (1005, "")  # as an empty one is told
        assert not connection.is_open
        with pytest.raises(ChildConnectionLost):
            await connection.send(Cancel())
        assert await connection.next_frame() is None


async def test_closing_wakes_who_reads():
    async def child(socket):
        await socket.wait_closed()

    async with served(child) as endpoint:
        connection = await dial(endpoint)
        reading = asyncio.create_task(connection.next_frame())
        await asyncio.sleep(0)
        await connection.close()
        async with asyncio.timeout(60):
            assert await reading is None


async def test_a_token_opens_and_a_wrong_one_is_told_without_it():
    def check(socket, request):
        if request.headers.get("Authorization") != "Bearer s3cret":
            return socket.respond(HTTPStatus.UNAUTHORIZED, "no")
        return None

    async def child(socket):
        async for _ in socket:
            await socket.send('{"kind":"terminal","status":"completed","result":"in"}')

    async with served(child, process_request=check) as endpoint:
        remote = Remote(endpoint, token="s3cret")
        assert "s3cret" not in repr(remote)
        reached = await reach_remote(remote)
        outcome = await reached.run(reached.assignment(Order("x"), listener=Ears().listener))
        assert outcome.result == "in"
        await reached.end()
        with pytest.raises(Unauthorized) as told:
            await dial(endpoint, token="wr0ng")
        assert "wr0ng" not in str(told.value)
        assert told.value.__cause__ is None


async def test_a_certificate_that_nobody_signed_is_refused_and_a_known_one_is_not(tmp_path):
    async def child(socket):
        await socket.wait_closed()

    certificate = self_signed(tmp_path)
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(certificate)
    async with served(child, ssl=theirs) as endpoint:
        secure = endpoint.replace("ws:", "wss:")
        with pytest.raises(DialFailed):
            await dial(secure, token="s3cret")
        ours = ssl.create_default_context(cafile=certificate)
        async with dialled(secure, tls=ours) as connection:
            assert await connection.is_answering(within_seconds=60)


def self_signed(folder):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / "certificate.pem"
    encoding = serialization.Encoding.PEM
    key_format = serialization.PrivateFormat.PKCS8
    path.write_bytes(
        key.private_bytes(encoding, key_format, serialization.NoEncryption())
        + certificate.public_bytes(encoding)
    )
    return path


async def test_a_redirect_is_not_followed():
    async def other(socket):
        raise AssertionError("the token went elsewhere")

    async with served(other) as elsewhere:

        def redirect(socket, request):
            answer = socket.respond(HTTPStatus.FOUND, "there")
            answer.headers["Location"] = elsewhere.replace("ws:", "http:")
            return answer

        async def never(socket):
            pass

        async with served(never, process_request=redirect) as endpoint:
            with pytest.raises(DialFailed):
                await dial(endpoint, token="s3cret")


async def test_a_silent_peer_fails_the_dial_in_time():
    left = asyncio.Event()

    async def silent(reader, writer):
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        left.set()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(DialFailed, match="within"):
            await dial(f"ws://127.0.0.1:{port}", within_seconds=0.3)
        await left.wait()


@pytest.mark.parametrize(
    "endpoint",
    ["", "x", "http://127.0.0.1:1", "ws://", "ws://[::1", "ws://h:99999999", "ws:" + "a" * 5000],
)
async def test_what_is_no_websocket_address_is_refused(endpoint):
    with pytest.raises(DialFailed, match="ws://"):
        await dial(endpoint)


async def test_nobody_there_is_told():
    with pytest.raises(DialFailed):
        await dial("ws://127.0.0.1:1", within_seconds=60)


async def test_a_peer_that_speaks_no_websocket_is_told():
    left = asyncio.Event()

    async def http(reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
        await writer.drain()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        left.set()

    server = await asyncio.start_server(http, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(DialFailed):
            await dial(f"ws://127.0.0.1:{port}", within_seconds=60)
        await left.wait()


async def test_invalid_utf_8_loses_the_connection():
    async def child(socket):
        await socket.send(b"\xff\xfe", text=True)
        await socket.wait_closed()

    async with served(child) as endpoint, dialled(endpoint) as connection:
        with pytest.raises(ChildConnectionLost):
            await connection.next_frame()
        assert await connection.next_frame() is None


async def test_a_recorded_child_is_found_by_role_past_dead_ones(start, tmp_path):
    fabric = tmp_path / "fabric"
    dead = records.new_record("a-dead", role="tester", endpoint="ws://127.0.0.1:1")
    records.publish(fabric, dead)
    mine = await start(reusable=True)
    await mine.connection.close()
    found = await reach_recorded(fabric, role="tester", within_seconds=60)
    assert (found.agent_id, found.process) == (mine.agent_id, None)
    outcome = await found.run(found.assignment(Order("hi"), listener=Ears().listener))
    assert outcome.result == "echo: hi"
    await found.end()
    with pytest.raises(NoSuchChild):
        await reach_recorded(fabric, role="other")
    with pytest.raises(NoSuchChild):
        await reach_recorded(fabric, agent_id="unknown")


async def test_a_hundred_connections_leave_no_descriptor():
    async def child(socket):
        await socket.wait_closed()

    async with served(child) as endpoint:
        counts = []
        for number in range(100):
            connection = await dial(endpoint)
            assert await connection.is_answering(within_seconds=60)
            await connection.close()
            if number in {9, 99}:
                counts.append(len(list(Path("/proc/self/fd").iterdir())))
    assert counts[1] <= counts[0] + 5  # the server's half may close a moment later


async def test_a_ping_is_answered_or_not():
    async def child(socket):
        await socket.wait_closed()

    async with served(child) as endpoint, dialled(endpoint) as connection:
        assert await connection.is_answering(within_seconds=60)
    assert not await connection.is_answering(within_seconds=1)


def test_every_error_has_a_code_and_a_sentence():
    kinds = [FleetError, *FleetError.__subclasses__(), Unauthorized]
    assert len({kind.code for kind in kinds}) == len(kinds)
    assert all(kind().sentence.endswith(".") for kind in kinds)
    assert ChildConnection.__doc__
