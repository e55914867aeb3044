"""Foreign hosts and origins, and what is too large, are refused."""

import asyncio

import aiohttp
import pytest

from tests.acceptance.bad_input.attacker import Attacker
from tests.acceptance.harness.native import NativeSocket
from tests.acceptance.harness.wire import Wire


async def test_it_refuses_foreign_hosts_and_origins(attacker: Attacker) -> None:
    host = attacker.server.url.removeprefix("http://")
    port = host.rpartition(":")[2]
    bad_hosts = [
        "evil.example",
        f"evil.example:{port}",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "api.crush.localhost",  # only on the unix socket
        "169.254.169.254",
        "0.0.0.0",
        "127.1",
        "2130706433",
        "",
        "localhost:99999",
        "a@localhost",
        "localhost/evil",
    ]
    for bad in bad_hosts:
        for method, path in (("GET", "/v1/workspaces"), ("POST", "/v1/workspaces"), ("GET", "/")):
            async with Wire(attacker.server.url) as wire:
                reply = await wire.request(method, path, headers={"Host": bad})
                assert 400 <= reply.status < 500, (bad, reply.status)
                assert "Host" in reply.message
    bad_origins = ["http://evil.example", "null", "https://localhost", "http://localhost:1", "x"]
    for origin in bad_origins:
        await attacker.refused(
            "GET", "/v1/workspaces", status=403, naming="Origin", headers={"Origin": origin}
        )
        await attacker.refused(
            "POST",
            "{ws}/sessions",
            {"title": "x"},
            status=403,
            naming="Origin",
            headers={"Origin": origin},
        )
        events = f"{{ws}}/events?client_id={attacker.seat.workspace.client_id}"
        await attacker.refused("GET", events, status=403, headers={"Origin": origin})
        socket = NativeSocket(attacker.seat.workspace.client.http, attacker.seat.workspace.id)
        with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
            await socket.open(origin=origin)
        assert refusal.value.status in {400, 403}, origin
    socket = NativeSocket(attacker.seat.workspace.client.http, attacker.seat.workspace.id)
    with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
        await socket.open(headers={"Host": "evil.example"})
    assert refusal.value.status == 403
    # Our own origin passes, as a browser on this page sends it. But a browser must sign in.
    same = {"Origin": attacker.server.url}
    await attacker.seat.workspace.client.http.call("GET", "/v1/health", headers=same)
    await attacker.refused("GET", "/v1/workspaces", status=401, naming="token", headers=same)
    await attacker.nothing_happened()


async def test_it_refuses_bodies_over_the_limit_however_they_are_sent(attacker: Attacker) -> None:
    limit = 32 * 1024 * 1024
    path = f"{attacker.url}/sessions"
    async with Wire(attacker.server.url) as wire:  # told, and refused before it is sent
        reply = await wire.request("POST", path, headers={"Content-Length": str(limit + 1)})
        assert reply.status == 413
        assert str(limit) in reply.message
    async with Wire(attacker.server.url) as wire:
        huge = "9" * 30
        reply = await wire.request("POST", path, headers={"Content-Length": huge})
        assert 400 <= reply.status < 500
    async with Wire(attacker.server.url) as wire:  # not told: counted
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        await wire.send(head.encode())
        chunk = b"x" * (1024 * 1024)
        answer = asyncio.create_task(wire.answer(60))
        with_size = b"%x\r\n%b\r\n" % (len(chunk), chunk)
        try:
            for _ in range(40):
                await wire.send(with_size)
                if answer.done():
                    break
        except ConnectionError:
            pass
        reply = await answer
        assert reply.status == 413
        assert str(limit) in reply.message
    await attacker.nothing_happened()
