"""Garbage on the native socket ends at most that socket."""

import asyncio
from typing import Any

import aiohttp
import pytest

from tests.acceptance.bad_input.attacker import Attacker
from tests.acceptance.harness.http import Http
from tests.acceptance.harness.native import NativeSocket
from tests.acceptance.harness.wire import Wire

SOCKET_GARBAGE: list[Any] = [
    "",
    "x",
    "{nope",
    "[]",
    "null",
    "17",
    '"ping"',
    "[" * 100_000,
    '{"a":' * 50_000,
    {},
    {"command": None},
    {"command": 7},
    {"command": []},
    {"command": "nope"},
    {"command": "__class__"},
    {"command": "prompt"},
    {"command": "prompt", "text": 7},
    {"command": "prompt", "text": "x", "session_id": 7},
    {"command": "prompt", "text": "x", "session_id": "nope"},
    {"command": "prompt", "text": "x" * 2_000_000, "session_id": "nope"},
    {"command": "prompt", "text": "\0", "session_id": "nope"},
    {"command": "cancel"},
    {"command": "cancel", "session_id": []},
    {"command": "cancel", "session_id": "nope"},
    {"command": "answer"},
    {"command": "answer", "request_id": "x", "answer": "maybe"},
    {"command": "answer", "request_id": {}, "answer": "allow"},
    {"command": "ping", "id": "x" * 5000},
    {"command": "ping", "id": {"a": [[[[1]]]] * 500}},
    '{"command": "prompt", "text": "\\ud800", "session_id": "nope"}',
    '{"command": "ping", "id": 1e999}',
]


async def test_garbage_on_the_socket_is_answered_and_the_socket_stays_open(
    attacker: Attacker,
) -> None:
    http, workspace = attacker.seat.workspace.client.http, attacker.seat.workspace
    socket = await NativeSocket(http, workspace.id).open()
    for number, sent in enumerate(SOCKET_GARBAGE):
        await socket.send(sent)
        replies = [r for r in socket.received if r.type == "reply"]
        reply = await socket.wait_for(
            lambda r, n=number: r.type == "reply" and r is not None, start=_after(socket, number)
        )
        assert reply.body["ok"] is False, (sent if len(str(sent)) < 500 else "", reply.body)
        assert reply.body["message"], replies
    await socket.send({"command": "ping", "id": 1})
    pong = await socket.wait_for(lambda r: r.type == "reply" and r.body["id"] == 1)
    assert pong.body["ok"] is True
    await socket.close()
    await attacker.nothing_happened()


def _after(socket: NativeSocket, replies: int) -> int:
    """Where the events begin that came after so many replies."""
    seen = 0
    for index, received in enumerate(socket.received):
        if seen == replies:
            return index
        seen += received.type == "reply"
    return len(socket.received)


async def test_bytes_that_are_no_frames_end_only_their_own_socket(attacker: Attacker) -> None:
    path = f"/api/workspaces/{attacker.seat.workspace.id}/stream"
    handshake = (
        f"GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    ).encode()
    for garbage in (
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff" * 64,
        b"\x81\x05hello",  # not masked
        b"\x81\xfe\xff\xff",  # a length, and nothing behind it
        b"\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xff\0\0\0\0",  # a frame of 2^63 bytes
        b"\x82\x80\0\0\0\0" * 1000,  # empty binary messages
        b"\x89\xfe\x00\x7e\0\0\0\0" + b"x" * 126,  # a ping that is too long
        b"\xc1\x80\0\0\0\0",  # a reserved bit
        b"\x81\x82\0\0\0\0\xff\xff",  # text that is not UTF-8
    ):
        async with Wire(attacker.server.url) as wire:
            await wire.send(handshake)
            assert (await wire.answer()).status == 101
            await wire.send(garbage)
            await asyncio.sleep(0)
    for headers in (
        {"Sec-WebSocket-Version": "99", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="},
        {"Sec-WebSocket-Version": "13"},
        {"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "x"},
        {"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "\xff" * 24},
    ):
        upgrade = {"Upgrade": "websocket", "Connection": "Upgrade"}
        async with Wire(attacker.server.url) as wire:
            reply = await wire.request("GET", path, headers=upgrade | headers)
            assert 400 <= reply.status < 500, (headers, reply.body)
    http: Http = attacker.seat.workspace.client.http
    for after in ("x", "-1", "99999999", "9" * 300):
        with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
            await NativeSocket(http, attacker.seat.workspace.id, after=after).open()
        assert 400 <= refusal.value.status < 500
    for unknown in ("nope", "%00"):
        with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
            await NativeSocket(http, unknown).open()
        assert 400 <= refusal.value.status < 500
    await attacker.nothing_happened()
