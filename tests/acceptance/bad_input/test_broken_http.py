"""What is hardly HTTP is refused or dropped, and holds nobody up."""

import asyncio

import pytest

from tests.acceptance.bad_input.attacker import Attacker
from tests.acceptance.conversation import SHORT
from tests.acceptance.harness.wire import Reply, Wire


async def test_pages_answer_hostile_requests_without_a_server_error(attacker: Attacker) -> None:
    """What is not the API is Django's: it must not be the weak side."""
    sent = [
        ("GET", "/%00", b"", {}),
        ("GET", "/%ff%fe", b"", {}),
        ("GET", "/" + "x" * 8000, b"", {}),
        ("GET", "/nope?" + "a=b&" * 2000, b"", {}),
        ("GET", "/static/../manage.py", b"", {}),
        ("GET", "/static/%2e%2e/%2e%2e/manage.py", b"", {}),
        ("GET", "/static//etc/passwd", b"", {}),
        ("GET", "/static/%00", b"", {}),
        ("GET", "/admin/%00/", b"", {}),
        ("POST", "/admin/login/", b"\xff" * 1000, {"Content-Type": "text/plain; charset=nope"}),
        ("POST", "/admin/login/", b"a=%ff", {"Content-Type": "application/x-www-form-urlencoded"}),
        ("POST", "/admin/login/", b"x", {"Content-Type": "multipart/form-data; boundary=\xe9"}),
        ("POST", "/admin/login/", b"x", {"Content-Type": "multipart/form-data"}),
        ("POST", "/nope", b"{}", {"Content-Type": "application/json"}),
        ("BREW", "/admin/", b"", {}),
        ("GET", "/admin/", b"", {"Cookie": "sessionid=" + "x" * 5000 + "; csrftoken=\xff"}),
    ]
    for method, path, body, headers in sent:
        async with Wire(attacker.server.url) as wire:
            reply = await wire.request(method, path, headers=headers, body=body)
        what = (method, path[:80], headers, reply.status, reply.body[:300])
        assert reply.status in {200, 301, 302, 400, 403, 404, 405, 413}, what
        assert b"Traceback" not in reply.body, what
        assert b"root:" not in reply.body, what
        assert b"DJANGO_SETTINGS_MODULE" not in reply.body, what
    await attacker.nothing_happened()


async def test_a_client_that_expects_100_continue_gets_it(attacker: Attacker) -> None:
    body = b"{nope"
    head = (
        "POST /v1/control HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    async with Wire(attacker.server.url) as wire:
        await wire.send(head.encode())
        first = await wire.answer()
        assert first.status == 100
        await wire.send(body)
        assert (await wire.answer()).status == 400
    await attacker.nothing_happened()


BROKEN = [
    b"\0\0\0\0\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET /v1/health\r\n\r\n",
    b"GET /v1/health HTTP/9.9\r\nHost: localhost\r\n\r\n",
    b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nbroken\r\n\r\n",
    b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n: empty\r\n\r\n",
    b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nA b: c\r\n\r\n",
    b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
    b"GET /v1/health HTTP/1.1\r\n\r\n",
    b"GET /v1/\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET http://evil.example/v1/health HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    b"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n",
    b"POST /v1/control HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    b"POST /v1/control HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
    b"POST /v1/control HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{} ",
    b"POST /v1/control HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST /v1/control HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
    b"POST /v1/control HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n{}",
    b"POST /v1/control HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n" + b"A: b\r\n" * 5000 + b"\r\n",
    b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nA: " + b"x" * 200_000 + b"\r\n\r\n",
    b"GET /" + b"x" * 200_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
    b"* OPTIONS\r\n\r\n",
]


@pytest.mark.parametrize("sent", BROKEN, ids=lambda sent: repr(sent[:70]))
async def test_broken_requests_are_refused_or_dropped(attacker: Attacker, sent: bytes) -> None:
    async with Wire(attacker.server.url) as wire:
        await wire.send(sent)
        try:
            reply: Reply | None = await wire.answer(3)
        except (TimeoutError, asyncio.IncompleteReadError, ConnectionError):
            reply = None  # it waits for the rest, or has closed
    if reply is not None:
        assert 400 <= reply.status < 500, reply.body
        assert b"Traceback" not in reply.body
    await attacker.nothing_happened()


async def test_incomplete_and_slow_requests_do_not_block_others(attacker: Attacker) -> None:
    slow: list[Wire] = []
    for number in range(200):
        wire = await Wire(attacker.server.url).__aenter__()
        slow.append(wire)
        if number % 3 == 0:
            await wire.send(b"GET /v1/health HTTP/1.1\r\nHost: loc")
        elif number % 3 == 1:
            path = f"{attacker.url}/sessions"
            head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"
            await wire.send(head.encode() + b'{"title": ')
    for _ in range(3):
        for wire in slow[::3]:
            await wire.send(b"a")
        await attacker.seat.workspace.client.http.call("GET", "/v1/health", timeout=30)
    await attacker.seat.workspace.prompt(attacker.session, SHORT, "beside")
    await attacker.seat.stream.run_complete(attacker.session, "beside")
    await attacker.seat.stream.wait_for(
        lambda e: e.type == "session" and e.payload["title"].startswith("word0")
    )  # a slow title comes behind the run's end
    await attacker.begin()
    for wire in slow:
        await wire.__aexit__()
    await attacker.nothing_happened()


async def test_pipelined_requests_are_answered_in_order(attacker: Attacker) -> None:
    head = b"HTTP/1.1\r\nHost: localhost\r\n"
    good = b"GET /v1/version " + head + b"\r\n"
    body = b"{nope"
    bad = b"POST /v1/control " + head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    lost = b"GET /v1/nope " + head + b"\r\n"
    async with Wire(attacker.server.url) as wire:
        await wire.send((good + bad + lost) * 10)
        statuses = [(await wire.answer()).status for _ in range(30)]
    assert statuses == [200, 400, 404] * 10
    await attacker.nothing_happened()
