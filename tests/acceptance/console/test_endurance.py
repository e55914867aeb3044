"""What the console shows stays equal to what is stored, whatever happens to its connection."""

import asyncio
import contextlib
import io
import json
import random
import re
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from tests.acceptance.console.conftest import PHONE, OpenConsole, shown_texts
from tests.acceptance.conversation import Seat, text_of
from tests.acceptance.harness.commands import Typed, command
from tests.acceptance.harness.shapes import Server
from tests.acceptance.harness.stream import finish_reason
from tests.doubles.tcp_proxy import Mode, TcpProxy

Address = Callable[[str], str]
DRAWING = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
DROPS = 200
# A browser whose network is back at once: it reports that, and the console does not wait.
BACK_AT_ONCE = "setInterval(() => dispatchEvent(new Event('online')), 10)"
ROWS_AT_MOST = 160
PIXELS = 2

# Scrolls, and follows one row for as long as rows come and go around it. Returns by how many pixels
# it moved at most, looking once in each frame; -1 if nothing came.
FOLLOWED = """
async ([edge, wait]) => {
  const scroller = document.querySelector(".transcript");
  const rows = () => [...scroller.querySelectorAll("c-message")];
  const ends = () => rows().at(0).dataset.message + rows().at(-1).dataset.message;
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  const before = ends();
  const height = scroller.scrollHeight - scroller.clientHeight;
  scroller.scrollTop = { top: 300, middle: height / 2, bottom: height - 300 }[edge];
  const top = scroller.getBoundingClientRect().top;
  const row = rows().find((each) => each.getBoundingClientRect().bottom > top);
  const place = row.getBoundingClientRect().top;
  let most = 0;
  let settled = 0;
  for (const end = performance.now() + wait; performance.now() < end && settled < 10; ) {
    await frame();
    most = Math.max(most, Math.abs(row.getBoundingClientRect().top - place));
    if (ends() !== before) settled++;
  }
  return settled || edge === "middle" ? most : -1;
}
"""


@pytest_asyncio.fixture
async def proxy(embedded_server: Server) -> AsyncIterator[TcpProxy]:
    proxy = TcpProxy("127.0.0.1", embedded_server.port)
    yield proxy
    proxy.close()


async def stored(server_seat: Seat, session: str) -> list[dict[str, Any]]:
    return [m for m in await server_seat.workspace.messages(session) if m["role"] == "assistant"]


async def in_step(page: Page, seat: Seat, session: str) -> None:
    """Returns when all replies are finished; the page then shows exactly the stored texts."""
    async with asyncio.timeout(60):
        while not all(map(finish_reason, replies := await stored(seat, session))):
            await asyncio.sleep(0.1)
    await expect(page.locator("article.assistant")).to_have_count(len(replies))
    await expect(page.locator("article.assistant[aria-busy=true]")).to_have_count(0)
    texts = [text_of(message).strip() for message in replies]
    await expect(page.locator("article.assistant .markdown")).to_have_text([t for t in texts if t])
    assert [text.strip() for text in await shown_texts(page)] == [t for t in texts if t]


@pytest.mark.timeout(180)
async def test_a_killed_server_heals_without_a_reload(
    embedded_server: Server, seat: Seat, open_console: OpenConsole, address: Address
) -> None:
    session = await seat.workspace.session("killed")
    page = await open_console(embedded_server, address(session))
    await page.evaluate("window.isSamePage = true")
    await page.get_by_label("Your prompt").fill("Go on [[n=400 d=20]]")
    await page.get_by_role("button", name="Send").click()
    reply = page.locator("article.assistant .markdown").first
    await expect(reply).to_have_text(re.compile(r"(\S+\s+){20}"))
    await asyncio.to_thread(embedded_server.kill9)
    await expect(
        page.get_by_text("Connection lost").or_(page.locator(".connection"))
    ).to_be_visible()
    await asyncio.to_thread(embedded_server.start)
    await expect(page.locator(".connection")).to_have_count(0)
    await in_step(page, seat, session)
    assert await page.evaluate("window.isSamePage")


async def open_through(proxy: TcpProxy, page: Page, address: str) -> Page:
    """The page of a session behind a proxy, which tries to connect again at once."""
    await page.add_init_script(BACK_AT_ONCE)
    await page.goto(f"http://localhost:{proxy.port}{address}")
    return page


async def test_a_page_that_returns_after_its_events_were_deleted_shows_what_is_stored(
    embedded_server: Server,
    seat: Seat,
    open_console: OpenConsole,
    address: Address,
    proxy: TcpProxy,
) -> None:
    session = await seat.workspace.session("away")
    page = await open_through(proxy, await open_console(embedded_server), address(session))
    await seat.workspace.prompt(session, "[[n=5 id=before]]", "before")
    await expect(page.locator("article.assistant .markdown")).to_contain_text(["before-4"])
    proxy.set_mode(Mode.REFUSE)
    await seat.workspace.prompt(session, "[[n=5 id=meanwhile]]", "meanwhile")
    await seat.stream.run_complete(session, "meanwhile")
    done = await asyncio.to_thread(
        command,
        embedded_server.env,
        *("prune", "--kind", "events", "--older-than", "0d", "--yes"),
    )
    assert done.code == 0, done.err
    proxy.set_mode(Mode.PASS)
    await in_step(page, seat, session)
    await seat.workspace.prompt(session, "[[n=5 id=after]]", "after")
    await seat.stream.run_complete(session, "after")
    await in_step(page, seat, session)
    await expect(page.locator("article.assistant")).to_have_count(3)


@pytest.mark.timeout(300)
async def test_dropped_connections_lose_and_repeat_no_word(
    embedded_server: Server,
    seat: Seat,
    open_console: OpenConsole,
    address: Address,
    proxy: TcpProxy,
) -> None:
    session = await seat.workspace.session("dropped")
    page = await open_through(proxy, await open_console(embedded_server), address(session))
    await expect(page.get_by_role("heading", name="dropped")).to_be_visible()
    opened = asyncio.Event()
    page.on("websocket", lambda socket: socket.on("framereceived", lambda frame: received(frame)))

    def received(frame: Any) -> None:
        if "stream.opened" in str(frame):
            opened.set()

    await page.reload()
    chance = random.Random(7)
    is_enough = False

    async def prompts() -> None:
        number = 0
        while not is_enough:
            number += 1
            await seat.workspace.prompt(
                session, f"{number} [[n=1500 d=4 id=r{number}]]", f"{number}"
            )
            await seat.stream.run_complete(session, f"{number}")

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(prompts())
        while proxy.cut_answers < DROPS:
            if proxy.cut_answers % 5:  # the others may be cut while they catch up
                # The cut may have met another request of the page: then the stream goes on.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(2):
                        await opened.wait()
            opened.clear()
            proxy.cut_answers_after(chance.randrange(100, 3_000))
            while proxy.is_armed:
                await asyncio.sleep(0.005)
        is_enough = True
    await in_step(page, seat, session)
    assert proxy.cut_answers >= DROPS


def exported(count: int) -> bytes:
    """A session of so many messages, as an export has it."""
    lines: list[Any] = [{"type": "session", "version": 1, "session": {"id": "s", "title": "long"}}]
    for number in range(1, count + 1):
        text = f"message {number} " + "of many words " * (number * 7 % 40)
        role = ("assistant", "user")[number % 2]
        parts: list[Any] = [{"type": "text", "data": {"text": text}}]
        if role == "assistant":
            parts.append({"type": "finish", "data": {"reason": "end_turn", "time": number}})
        message = {"id": f"m{number}", "session_id": "s", "role": role, "parts": parts}
        lines.append({"type": "message", "message": message})
    lines.append({"type": "end", "sessions": 1, "messages": count})
    return "\n".join(map(json.dumps, lines)).encode()


async def moved_by_words(page: Page, seat: Seat, session: str) -> float:
    """Reads above while a reply is written below."""
    run_id = str(uuid.uuid4())
    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(page.evaluate(FOLLOWED, ["middle", 3_000]))
        await seat.workspace.prompt(session, f"Write [[n=100 d=10 id=w{run_id[:4]}]]", run_id)
    await seat.stream.run_complete(session, run_id)
    return float(following.result())


@pytest.mark.timeout(240)
async def test_ten_thousand_messages_scroll_without_jumps(
    embedded_server: Server, seat: Seat, open_console: OpenConsole, address: Address
) -> None:
    made = await seat.workspace.client.http.call(
        "POST",
        f"/api/workspaces/{seat.workspace.id}/sessions/import",
        io.BytesIO(exported(10_000)),
        expect=201,
        headers={"Content-Type": "application/x-ndjson"},
    )
    page = await open_console(embedded_server, address(made["id"]))
    rows = page.locator("c-message")
    newest = page.get_by_text("message 10000 ")
    await expect(newest).to_be_in_viewport()
    moved = [await moved_by_words(page, seat, made["id"])]
    for _ in range(6):
        moved.append(await page.evaluate(FOLLOWED, ["top", 15_000]))
        assert await rows.count() <= ROWS_AT_MOST
    assert all(0 <= pixels <= PIXELS for pixels in moved), moved
    await expect(newest).to_have_count(0)

    moved = [await moved_by_words(page, seat, made["id"])]
    reply = text_of((await seat.workspace.messages(made["id"]))[-1]).strip()
    for _ in range(30):
        if await page.get_by_text(reply).count():
            break
        moved.append(await page.evaluate(FOLLOWED, ["bottom", 15_000]))
        assert await rows.count() <= ROWS_AT_MOST
    assert all(0 <= pixels <= PIXELS for pixels in moved), moved
    await page.get_by_role("button", name="To the newest message").click()
    await expect(page.get_by_text(reply)).to_be_in_viewport()
    assert await rows.count() <= ROWS_AT_MOST


@pytest.mark.timeout(180)
async def test_two_browsers_a_terminal_and_a_v1_client_stay_in_step(
    embedded_server: Server, seat: Seat, open_console: OpenConsole, address: Address
) -> None:
    session = await seat.workspace.session("shared")
    one = await open_console(embedded_server, address(session))
    other = await open_console(embedded_server, address(session), width=PHONE)
    await expect(other.get_by_role("heading", name="shared")).to_be_visible()
    folder = str(seat.workspace.path)
    with Typed(embedded_server.env, "attach", session, "--path", folder) as terminal:
        await asyncio.to_thread(terminal.wait_for, "idle")
        await write_from_all(seat, session, one, terminal)
        for page in (one, other):
            await in_step(page, seat, session)
            for prompt in ("browser", "client", "terminal"):
                await expect(page.get_by_text(f"From a {prompt}")).to_be_visible()
            await expect(page.get_by_role("heading", name="renamed elsewhere")).to_be_visible()
        texts = [text_of(message) for message in await stored(seat, session)]
        await asyncio.to_thread(terminal.wait_for, texts[-1].split()[-1])
        terminal.type("q")
        assert await asyncio.to_thread(terminal.end) == 0
    received = {
        event.payload["id"]: event.text.strip()
        for event in seat.stream.of("message", session)
        if event.payload["role"] == "assistant"
    }
    assert list(received.values()) == [text.strip() for text in await shown_texts(one)]
    # The terminal draws its last lines again while they grow: the first time of each word counts.
    drawn = dict.fromkeys(DRAWING.sub("", terminal.shown).split())
    words = [word for text in texts for word in text.split()]
    assert [word for word in drawn if word in set(words)] == words


async def write_from_all(seat: Seat, session: str, page: Page, terminal: Typed) -> None:
    """Prompts of the browser, the client and the terminal, one after the other; then a new title."""
    await page.get_by_label("Your prompt").fill("From a browser [[n=200 d=5 id=one]]")
    await page.get_by_role("button", name="Send").click()
    await seat.stream.run_complete(session)
    start = seat.stream.mark()
    await seat.workspace.prompt(session, "From a client [[n=200 d=5 id=two]]", "second")
    await seat.stream.run_complete(session, "second", start=start)
    start = seat.stream.mark()
    await asyncio.to_thread(terminal.wait_for, "two-199")
    shown = len(terminal.shown)
    terminal.type("\n")
    await asyncio.to_thread(terminal.wait_for, "❯ ", start=shown)
    terminal.type("From a terminal [[n=200 d=5 id=three]]\n")
    await seat.stream.run_complete(session, start=start)
    await seat.workspace.rename(session, "renamed elsewhere")
