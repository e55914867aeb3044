"""A child's side of the socket, byte by byte: handshake, limits, ping, close."""

import asyncio
import base64
import os
import socket
import struct
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import psutil
import pytest

from tests.integration.fleet.children import SECONDS, dialled
from tests.integration.fleet.conftest import StartChild

MEBI = 1024 * 1024
TEXT, BINARY, CLOSE, PING, PONG, CONT = 0x1, 0x2, 0x8, 0x9, 0xA, 0x0


class Wire:
    """A bare TCP connection that speaks just enough to be rude."""

    def __init__(self, endpoint: str) -> None:
        at = urlsplit(endpoint)
        self.host = f"{at.hostname}:{at.port}"
        self.socket = socket.create_connection((at.hostname, at.port), timeout=SECONDS)

    def ask(self, path: str = "/", *more: str) -> None:
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [
            f"GET {path} HTTP/1.1",
            f"Host: {self.host}",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {key}",
            *more,
        ]
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode())

    def answer(self) -> tuple[str, list[str]]:
        """The status line and the other header lines."""
        data = b""
        while not data.endswith(b"\r\n\r\n"):
            byte = self.socket.recv(1)
            if not byte:
                break
            data += byte
        first, *rest = data.decode().strip().split("\r\n")
        return first, rest

    def send(self, opcode: int, payload: bytes, *, fin: bool = True, length: int = -1) -> None:
        size = len(payload) if length < 0 else length
        head = bytes([(0x80 if fin else 0) | opcode])
        if size < 126:
            head += bytes([0x80 | size])
        elif size < 65_536:
            head += struct.pack("!BH", 0x80 | 126, size)
        else:
            head += struct.pack("!BQ", 0x80 | 127, size)
        self.socket.sendall(head + b"\0\0\0\0" + payload)  # a mask of zeros

    def read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            chunk = self.socket.recv(size - len(data))
            if not chunk:
                raise EOFError
            data += chunk
        return data

    def frame(self) -> tuple[int, bytes]:
        first, second = self.read(2)
        assert first & 0x80, "never fragmented"
        assert not second & 0x80, "never masked"
        size = second
        if size == 126:
            (size,) = struct.unpack("!H", self.read(2))
        elif size == 127:
            (size,) = struct.unpack("!Q", self.read(8))
        return first & 0x0F, self.read(size)

    def is_dropped(self) -> bool:
        """No close frame: the connection is just gone."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True


@pytest.fixture
async def endpoint(start_child: StartChild) -> str:
    return await start_child(arguments=("--forever",)).endpoint()


@pytest.fixture
def wire(endpoint: str) -> Iterator[Wire]:
    made = Wire(endpoint)
    yield made
    made.socket.close()


@pytest.fixture
def open_wire(wire: Wire) -> Wire:
    wire.ask()
    assert wire.answer()[0].split()[1] == "101"
    return wire


def test_the_answer_has_three_headers_whatever_is_offered(wire: Wire) -> None:
    wire.ask(
        "/any/path?and=query",
        "Sec-WebSocket-Protocol: a, b",
        "Sec-WebSocket-Extensions: permessage-deflate",
    )
    status, headers = wire.answer()
    assert status.startswith("HTTP/1.1 101")
    names = sorted(line.partition(":")[0].lower() for line in headers)
    assert names == ["connection", "sec-websocket-accept", "upgrade"]


def test_the_endpoint_is_loopback_without_a_path(endpoint: str) -> None:
    at = urlsplit(endpoint)
    assert (at.scheme, at.hostname, at.path) == ("ws", "127.0.0.1", "")
    assert at.port


def test_a_page_of_a_browser_is_refused(wire: Wire) -> None:
    wire.ask("/", "Origin: http://evil.example")
    assert wire.answer()[0].split()[1] == "403"


def test_a_request_that_is_no_websocket_is_told_so_and_the_next_is_served(
    endpoint: str, wire: Wire
) -> None:
    wire.socket.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert wire.answer()[0].split()[1] in {"400", "426"}
    other = Wire(endpoint)
    other.ask()
    assert other.answer()[0].split()[1] == "101"
    other.socket.close()


def test_a_ping_is_answered_while_a_run_is_on(open_wire: Wire) -> None:
    open_wire.send(TEXT, b'{"kind":"run","assignment":"__sleep_ms:60000"}')
    open_wire.send(PING, b"are you there")
    assert open_wire.frame() == (PONG, b"are you there")


def test_frames_are_written_byte_by_byte_as_described(open_wire: Wire) -> None:
    open_wire.send(TEXT, '{"kind":"run","assignment":"\u00fc"}'.encode())
    assert open_wire.frame() == (
        TEXT,
        '{"kind":"event","event":{"content":"\u00fc ","type":"token"}}'.encode(),
    )
    assert open_wire.frame() == (TEXT, b'{"kind":"event","event":{"type":"complete"}}')
    ended = '{"kind":"terminal","status":"completed","result":"echo: \u00fc"}'
    assert open_wire.frame() == (TEXT, ended.encode())


def test_a_message_in_fragments_is_one_message(open_wire: Wire) -> None:
    open_wire.send(TEXT, b'{"kind":"run",', fin=False)
    open_wire.send(PING, b"between")
    open_wire.send(CONT, b'"assignment":', fin=False)
    open_wire.send(CONT, b'"__suspend"}')
    assert open_wire.frame() == (PONG, b"between")
    assert open_wire.frame()[1].startswith(b'{"kind":"terminal","status":"suspended"')


@pytest.mark.parametrize("payload", [b"", struct.pack("!H", 1000), struct.pack("!H", 1001) + b"x"])
def test_a_close_is_answered_by_an_empty_one(open_wire: Wire, payload: bytes) -> None:
    open_wire.send(CLOSE, payload)
    assert open_wire.frame() == (CLOSE, b"")
    assert open_wire.is_dropped()


def test_a_frame_over_the_limit_drops_the_connection_without_a_word(open_wire: Wire) -> None:
    # The head alone: nobody waits for 17 MiB that are not wanted.
    open_wire.send(TEXT, b"", length=17 * MEBI)
    assert open_wire.is_dropped()


def test_a_message_over_the_limit_drops_the_connection_without_a_word(open_wire: Wire) -> None:
    part = b"x" * (15 * MEBI)
    with pytest.raises((EOFError, ConnectionError)):  # noqa: PT012
        open_wire.send(TEXT, part, fin=False)
        for _ in range(4):
            open_wire.send(CONT, part, fin=False)
        open_wire.frame()


@pytest.mark.parametrize(
    "frame",
    [
        b"\x81\x02hi",  # not masked
        b"\xf1\x82\0\0\0\0hi",  # reserved bits
        b"\x83\x82\0\0\0\0hi",  # an opcode that is none
        b"\x80\x82\0\0\0\0hi",  # goes on with nothing
        b"\x09\x82\0\0\0\0hi",  # a control frame in fragments
        b"\x81\x82\0\0\0\0\xff\xfe",  # no UTF-8
    ],
)
def test_a_broken_protocol_drops_the_connection(open_wire: Wire, frame: bytes) -> None:
    open_wire.socket.sendall(frame)
    assert open_wire.is_dropped()


def test_small_frames_are_not_held_back(open_wire: Wire) -> None:
    # With Nagle's algorithm the second of each pair would wait for 40 ms.
    took = []
    for number in range(500):
        begun = time.monotonic()
        open_wire.send(TEXT, b'{"kind":"run","assignment":"__stream:3:1"}')
        while b"terminal" not in open_wire.frame()[1]:
            pass
        took.append(time.monotonic() - begun)
        # The first ones are acknowledged at once in any case; a busy machine needs several tries.
        if number > 10 and took[-1] < 0.04:
            return
    raise AssertionError(f"none took less than 40 ms: {took}")


def test_pings_of_one_who_reads_nothing_are_answered_by_one_pong(start_child: StartChild) -> None:
    child = start_child(arguments=("--forever",))
    wire = Wire(asyncio.run(child.endpoint()))
    wire.ask()
    assert wire.answer()[0].split()[1] == "101"
    wire.send(TEXT, b'{"kind":"run","assignment":"__stream:100000000:0"}')
    wire.frame()
    _wait_until_idle(psutil.Process(child.pid))  # everything that takes bytes is full
    for number in range(2_000):
        wire.send(PING, b"%d" % number)
    wire.send(TEXT, b'{"kind":"cancel"}')
    pongs = []
    while True:
        opcode, payload = wire.frame()
        if opcode == PONG:
            pongs.append(payload)
        if pongs and b'"terminal"' in payload:
            break
    wire.socket.close()
    assert len(pongs) < 100
    assert pongs[-1] == b"1999"


def _wait_until_idle(process: psutil.Process) -> None:
    used = -1.0
    for _ in range(100):
        now = sum(process.cpu_times()[:2])
        if now == used:
            return
        used = now
        time.sleep(0.2)
    raise AssertionError("the child works on")


async def test_memory_stays_bounded_while_nobody_reads_a_flood(start_child: StartChild) -> None:
    child = start_child(arguments=("--forever",))
    endpoint = await child.endpoint()
    process = psutil.Process(child.pid)
    async with dialled(endpoint) as parent:
        assert (await parent.outcome("warm"))["status"] == "completed"
        before = process.memory_info().rss
        wires = [Wire(endpoint) for _ in range(5)]
        for wire in wires:
            wire.ask()
            assert wire.answer()[0].split()[1] == "101"
            wire.send(TEXT, b'{"kind":"run","assignment":"__stream:100000000:0"}')
        # Long enough for a hundred megabytes, were nothing held back.
        await parent.outcome("__sleep_ms:1500")
        grown = process.memory_info().rss - before
        for wire in wires:
            wire.socket.close()
    assert grown < 40 * MEBI
