"""Logging in at a real MCP server behind OAuth: a person's browser is played by the test."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest

from tests.acceptance.calling import call, run_call, until
from tests.acceptance.conversation import Seat, take_seat
from tests.acceptance.harness.environment import ROOT
from tests.acceptance.harness.http import UnexpectedStatus
from tests.acceptance.harness.ports import free_port
from tests.acceptance.harness.shapes import Server, Shape
from tests.acceptance.mcp.servers import Distant, states, until_state
from tests.acceptance.mcp.sitting import Connect, MakeDistant, MakeProject
from tests.acceptance.watching import LogWatch

MakeGuarded = Callable[..., Distant]

SCRIPT = str(ROOT / "tests/doubles/mcp_oauth.py")


@pytest.fixture
def guarded(distant: MakeDistant) -> MakeGuarded:
    """`guarded("--lifetime", "5")`: a started server that asks for a login."""
    return partial(distant, "oauth", script=SCRIPT)


@pytest.fixture
async def browser() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def address_of(seat: Seat, name: str = "s") -> str:
    """Where the person has to go, as a client shows it."""

    async def shown_address() -> str:
        answer = await seat.workspace.call("GET", "/mcp/auth-url", params={"name": name})
        return str(answer.get("auth_url", ""))

    return str(await until(shown_address, "the login's address"))


async def log_in(seat: Seat, browser: aiohttp.ClientSession) -> None:
    waiting = asyncio.create_task(
        seat.workspace.call("POST", "/mcp/auth", {"name": "s"}, timeout=60)
    )
    async with browser.get(await address_of(seat)) as answer:
        assert answer.status == 200, await answer.text()
        assert "Logged in" in await answer.text()
    assert await waiting == {}


async def counts(browser: aiohttp.ClientSession, server: Distant) -> dict[str, int]:
    async with browser.get(f"http://127.0.0.1:{server.port}/counts") as answer:
        return dict(await answer.json())


async def test_a_person_logs_in_and_the_login_is_stored(
    embedded_server: Server,
    connect: Connect,
    project: MakeProject,
    guarded: MakeGuarded,
    browser: aiohttp.ClientSession,
) -> None:
    there = guarded()
    path = project("login", mcp={"s": there.entry})
    seat = await take_seat(connect(embedded_server), path, yolo=True)
    await until_state(seat, "s", "needs auth")
    assert (await states(seat))["s"]["state"] == "needs auth"
    pending = await seat.workspace.call("GET", "/mcp/pending-auth")
    assert pending == [{"name": "s", "url": there.url}]
    assert await seat.workspace.call("GET", "/mcp/auth-url", params={"name": "s"}) == {}
    # Nobody was registered for a login that nobody asked for, and a turn goes on without.
    assert await counts(browser, there) == {}
    session = await seat.workspace.session()
    missing = await run_call(seat, session, call("mcp_s_add", first=1, second=1))
    assert "There is no tool" in missing["content"]
    await log_in(seat, browser)
    assert (await states(seat))["s"]["state"] == "connected"
    assert await seat.workspace.call("GET", "/mcp/pending-auth") == []
    assert await seat.workspace.call("GET", "/mcp/auth-url", params={"name": "s"}) == {}
    result = await run_call(seat, session, call("mcp_s_add", first=1, second=1))
    assert result["content"] == "2"
    assert await counts(browser, there) == {"registered": 1, "let_in": 1}
    # It outlives the server, sealed.
    await asyncio.to_thread(embedded_server.restart)
    again = await take_seat(connect(embedded_server), path, yolo=True)
    await until_state(again, "s", "connected")
    assert await counts(browser, there) == {"registered": 1, "let_in": 1}
    stored = b"".join(
        file.read_bytes() for file in embedded_server.data_dir.rglob("*") if file.is_file()
    )
    seen = json.dumps([e.payload for e in (*seat.stream.events, *again.stream.events)]).encode()
    for text in (stored, seen, embedded_server.log_text().encode()):
        assert b"access-token-" not in text
        assert b"refresh-token-" not in text
    assert "Traceback" not in embedded_server.log_text()


async def test_a_login_is_valid_in_every_workspace_with_the_same_server(
    shared_server: Server,
    connect: Connect,
    project: MakeProject,
    guarded: MakeGuarded,
    browser: aiohttp.ClientSession,
) -> None:
    there = guarded()
    seats = [
        await take_seat(
            connect(shared_server), project(f"shared-{n}", mcp={"s": there.entry}), yolo=True
        )
        for n in range(2)
    ]
    sessions = [await seat.workspace.session() for seat in seats]
    for seat, session in zip(seats, sessions, strict=True):
        await run_call(seat, session, call("mcp_s_add", first=1, second=1))
        await until_state(seat, "s", "needs auth")
    await log_in(seats[0], browser)

    async def adds(seat: Seat, session: str) -> bool:
        result = await run_call(seat, session, call("mcp_s_add", first=1, second=1))
        return bool(result["content"] == "2")

    for seat, session in zip(seats, sessions, strict=True):
        await until(lambda seat=seat, session=session: adds(seat, session), "it is let in")
    assert (await counts(browser, there))["let_in"] == 1


async def test_an_expired_token_is_renewed_without_a_person(
    embedded_server: Server,
    connect: Connect,
    project: MakeProject,
    guarded: MakeGuarded,
    browser: aiohttp.ClientSession,
) -> None:
    there = guarded()
    path = project("renewal", mcp={"s": there.entry})
    seat = await take_seat(connect(embedded_server), path, yolo=True)
    await until_state(seat, "s", "needs auth")
    await log_in(seat, browser)
    session = await seat.workspace.session()
    # Taken back while connected: the next call finds its way with the refresh token.
    async with browser.delete(f"http://127.0.0.1:{there.port}/tokens"):
        pass

    async def adds() -> bool:
        result = await run_call(seat, session, call("mcp_s_add", first=1, second=1))
        return bool(result["content"] == "2")

    await until(adds, "a new token")
    totals = await counts(browser, there)
    assert totals["let_in"] == 1
    assert totals["renewed"] >= 1
    # The same between two lives of the server.
    async with browser.delete(f"http://127.0.0.1:{there.port}/tokens"):
        pass
    await asyncio.to_thread(embedded_server.restart)
    again = await take_seat(connect(embedded_server), path, yolo=True)
    await until_state(again, "s", "connected")
    assert (await counts(browser, there))["let_in"] == 1
    # Without one that can be renewed a person is needed again.
    async with browser.delete(f"http://127.0.0.1:{there.port}/tokens?refresh"):
        pass
    start = again.stream.mark()
    session = await again.workspace.session()
    await run_call(again, session, call("mcp_s_add", first=1, second=1))
    await until_state(again, "s", "needs auth", start=start)
    await log_in(again, browser)


async def test_an_unrelated_callback_neither_ends_nor_completes_a_login(
    kept_servers: Callable[[Shape], Server],
    connect: Connect,
    project: MakeProject,
    guarded: MakeGuarded,
    browser: aiohttp.ClientSession,
) -> None:
    server = kept_servers(Shape.EMBEDDED)
    log = LogWatch(server)
    there = guarded()
    seat = await take_seat(connect(server), project("stray", mcp={"s": there.entry}), yolo=True)
    await until_state(seat, "s", "needs auth")
    call_auth = seat.workspace.call("POST", "/mcp/auth", {"name": "s"}, timeout=60)
    waiting = asyncio.create_task(call_auth)
    # Whoever asks a second time waits for the same login.
    also = asyncio.create_task(seat.workspace.call("POST", "/mcp/auth", {"name": "s"}, timeout=60))
    address = await address_of(seat)
    query = parse_qs(urlsplit(address).query)
    callback = query["redirect_uri"][0]
    assert urlsplit(callback).hostname == "localhost"
    for stray in (
        "?code=stolen",
        "?code=stolen&state=guessed",
        "?error=access_denied&state=",
        "",
    ):
        async with browser.get(callback + stray) as answer:
            assert answer.status == 400
    async with browser.get(callback.replace("/callback", "/other")) as answer:
        assert answer.status == 404
    assert not waiting.done()
    async with browser.get(address) as answer:
        assert answer.status == 200
    assert await waiting == {}
    assert await also == {}
    assert (await counts(browser, there))["let_in"] == 1
    with pytest.raises(aiohttp.ClientConnectionError):  # nobody listens any more
        await browser.get(callback)
    assert log.loud() == []


async def test_a_refused_login_is_reported_to_the_waiting_client(
    kept_servers: Callable[[Shape], Server],
    connect: Connect,
    project: MakeProject,
    guarded: MakeGuarded,
    browser: aiohttp.ClientSession,
) -> None:
    there = guarded()
    server = kept_servers(Shape.EMBEDDED)
    seat = await take_seat(connect(server), project("refused", mcp={"s": there.entry}), yolo=True)
    await until_state(seat, "s", "needs auth")
    waiting = asyncio.create_task(
        seat.workspace.call("POST", "/mcp/auth", {"name": "s"}, timeout=60)
    )
    query = parse_qs(urlsplit(await address_of(seat)).query)
    denied = {"error": "access_denied", "state": query["state"][0]}
    async with browser.get(query["redirect_uri"][0], params=denied) as answer:
        assert answer.status == 400
    with pytest.raises(UnexpectedStatus) as refused:
        await waiting
    assert refused.value.status == 502
    assert refused.value.message == "mcp server s: The login was refused: access_denied"
    assert (await states(seat))["s"]["state"] == "needs auth"

    async def is_forgotten() -> bool:
        answer = await seat.workspace.call("GET", "/mcp/auth-url", params={"name": "s"})
        return not answer

    await until(is_forgotten, "the refused login's address is gone")
    await log_in(seat, browser)


async def test_a_configured_client_logs_in_with_its_secret_on_its_port(
    kept_servers: Callable[[Shape], Server],
    connect: Connect,
    project: MakeProject,
    guarded: MakeGuarded,
    browser: aiohttp.ClientSession,
) -> None:
    port = free_port()
    there = guarded("--callback", f"http://localhost:{port}/callback")
    entry: dict[str, Any] = {
        **there.entry,
        "oauth_client_id": "configured-client",
        "oauth_client_secret": "$CLIENT_SECRET",
        "oauth_callback_port": port,
    }
    server = kept_servers(Shape.EMBEDDED)
    log = LogWatch(server)
    path = project("configured", mcp={"s": entry})
    env = ["CLIENT_SECRET=configured-secret-value", "PATH=/usr/bin:/bin"]
    seat = await take_seat(connect(server), path, yolo=True, env=env)
    await until_state(seat, "s", "needs auth")
    await log_in(seat, browser)
    assert await counts(browser, there) == {"let_in": 1}
    session = await seat.workspace.session()
    result = await run_call(seat, session, call("mcp_s_add", first=1, second=1))
    assert result["content"] == "2"
    assert "configured-secret-value" not in log.text()


async def test_a_key_in_a_header_that_is_refused_is_an_error_and_no_login(
    kept_servers: Callable[[Shape], Server],
    connect: Connect,
    project: MakeProject,
    guarded: MakeGuarded,
) -> None:
    there = guarded()
    entry = {**there.entry, "headers": {"Authorization": "Bearer wr0ng-key-of-somebody"}}
    server = kept_servers(Shape.EMBEDDED)
    seat = await take_seat(connect(server), project("header", mcp={"s": entry}), yolo=True)
    failed = await until_state(seat, "s", "error")
    assert failed["error"] == "The server answered with status 401."
    with pytest.raises(UnexpectedStatus) as refused:
        await seat.workspace.call("POST", "/mcp/auth", {"name": "s"})
    assert refused.value.message == "mcp server s: The server requires no login."
