"""What a first visit loads, and what follows when it is needed; what a change renders again."""

import re
from collections.abc import Callable

import aiohttp
from playwright.async_api import Page, expect

from tests.acceptance.calling import write
from tests.acceptance.console.conftest import OpenConsole
from tests.acceptance.console.transcripts import Transcript, load, part
from tests.acceptance.conversation import Seat
from tests.acceptance.harness.shapes import Server

MODULE = re.compile(r"/static/console/(.+)\.[0-9a-f]{12}\.js$")
PRELOAD = re.compile(r'rel="modulepreload" href="([^"]+)"')
LOADED = """(names) => {
  const loaded = performance.getEntriesByType("resource").map((each) => each.name);
  return names.every((name) => loaded.some((each) => each.includes(`/${name}.`)));
}"""
# Notes how many messages are laid out in the first frame that has any.
FIRST_ROWS = """
requestAnimationFrame(function note() {
  const rows = () => document.querySelectorAll("c-message").length;
  if (rows() === 0) requestAnimationFrame(note);
  else new ResizeObserver(() => (window.firstRows ??= rows())).observe(document.body);
});
"""
LATER = re.compile(r"cards/.*card|tools/tool|vendor/(?:highlight|dompurify|uplot)|settings/|queue/")


def requests_of(page: Page) -> list[str]:
    found: list[str] = []
    page.on("request", lambda request: found.append(request.url))
    return found


def modules(requested: list[str]) -> set[str]:
    return {match[1] for each in requested if (match := MODULE.search(each))}


async def test_a_session_loads_what_it_shows_and_the_rest_when_it_is_needed(
    embedded_server: Server, seat: Seat, open_console: OpenConsole, address: Callable[[str], str]
) -> None:
    session = await seat.workspace.session("first")
    await seat.workspace.prompt(session, "Say something [[n=5]]")
    await seat.stream.run_complete(session)
    page = await open_console(embedded_server)
    requested = requests_of(page)
    await page.goto(address(session), wait_until="networkidle")
    await expect(page.locator("article.assistant .markdown")).to_contain_text("word")
    assert [each for each in modules(requested) if LATER.search(each)] == []
    # The request that the page's head starts is the one that the feed uses.
    assert len([each for each in requested if "/snapshot" in each]) == 1
    await seat.workspace.prompt(session, write("notes.txt", "x"))
    await expect(page.get_by_role("button", name="Allow", exact=False).first).to_be_visible()
    await expect(page.locator("c-tool-call")).to_be_visible()
    assert {"cards/cards", "tools/tool_call"} <= modules(requested)


async def test_the_first_modules_are_named_in_the_page_and_served_without_comments(
    embedded_server: Server, seat: Seat, open_console: OpenConsole, address: Callable[[str], str]
) -> None:
    page = await open_console(embedded_server)
    used = requests_of(page)
    for path in ("/", address(await seat.workspace.session("s")), "/usage"):
        used.clear()
        answer = await page.goto(path, wait_until="networkidle")
        assert answer is not None
        named = PRELOAD.findall(await answer.text())
        assert len(named) >= 3
        assert [each for each in named if each not in {url.split(":")[2][5:] for url in used}] == []
        # A module that the page does not need would only delay it.
        assert {f"http://localhost:{embedded_server.port}{each}" for each in named} <= set(used)
        # Nothing is found by reading what came first. The board loads the page of a session after its own.
        session = {"session/session", "stream/session_feed", "vendor/marked"}
        after = {"cards/waiting_count"} | {"/": session, "/usage": {"usage/usage"}}.get(path, set())
        await page.wait_for_function(LOADED, arg=sorted(after))
        assert modules(used) == after | modules(named), path
    async with aiohttp.ClientSession() as http:
        for each in named:
            async with http.get(f"{embedded_server.url}{each}") as response:
                text = await response.text()
                assert "immutable" in response.headers["Cache-Control"]
            assert "/vendor/" in each or not re.search(r"^\s*//", text, re.MULTILINE)


async def test_files_are_served_to_clients_that_want_parts_or_no_compression(
    embedded_server: Server, open_console: OpenConsole
) -> None:
    page = await open_console(embedded_server)
    sheet = await page.locator("link[rel=stylesheet]").first.get_attribute("href")
    url = f"{embedded_server.url}{sheet}"
    async with aiohttp.ClientSession(auto_decompress=False) as http:
        async with http.get(url, headers={"Accept-Encoding": "identity"}) as answer:
            whole = await answer.read()
            assert answer.headers.get("Content-Encoding") is None
        assert b"@import" not in whole
        for refused in ("br;q=0, gzip", "gzip, br; q=0.0"):
            async with http.get(url, headers={"Accept-Encoding": refused}) as answer:
                assert answer.headers["Content-Encoding"] == "gzip"
        part_of = {"Range": "bytes=0-9", "Accept-Encoding": "identity"}
        async with http.get(url, headers=part_of) as answer:
            assert (answer.status, await answer.read()) == (206, whole[:10])
        async with http.get(f"{url[:-5]}x.css") as answer:
            assert answer.status == 404


async def test_a_long_session_opens_at_its_newest_message_and_stays_there(
    embedded_server: Server, seat: Seat, open_console: OpenConsole
) -> None:
    page = await open_console(embedded_server)
    made = Transcript("long")
    for number in range(200):
        text = f"message {number}. " + "Of many words. " * (number * 7 % 40)
        made.add(("user", "assistant")[number % 2], part("text", text=text))
    await load(page, seat.workspace.id, made)
    rows = page.locator("c-message")
    await expect(rows).to_have_count(150)
    await expect(rows.last).to_contain_text("message 199.")
    await expect(rows.last).to_be_in_viewport()
    await page.get_by_label("Your prompt").fill("Say something [[n=400 d=2]]")
    await page.get_by_role("button", name="Send").click()
    newest = page.locator("article.assistant", has_text="word399")
    await expect(newest).to_have_attribute("aria-busy", "false")
    to_newest = page.get_by_role("button", name="To the newest message")
    await expect(newest.locator("p").last).to_be_in_viewport()
    await expect(to_newest).to_have_count(0)
    # The reader leaves the end, and the view stays there.
    await page.locator(".transcript").hover()
    await page.mouse.wheel(0, -900)
    await expect(to_newest).to_be_visible()


async def test_the_first_frame_of_a_session_has_its_newest_messages_alone(
    embedded_server: Server, seat: Seat, open_console: OpenConsole
) -> None:
    page = await open_console(embedded_server)
    made = Transcript("long")
    for number in range(60):
        made.add(("user", "assistant")[number % 2], part("text", text=f"message {number}."))
    await load(page, seat.workspace.id, made)
    await page.add_init_script(FIRST_ROWS)
    await page.reload()
    await expect(page.locator("c-message")).to_have_count(60)
    assert await page.evaluate("() => window.firstRows") == 20


async def test_markdown_becomes_nodes_that_browsers_understand(
    embedded_server: Server, seat: Seat, open_console: OpenConsole
) -> None:
    page = await open_console(embedded_server)
    made = Transcript("markdown")
    made.say(
        "a &mdash; b &unknown; `&amp;` [![picture](http://a.invalid/p.png)](http://b.invalid/?q=1&amp;r=2)\n\n"
        "<kbd>Ctrl</kbd> <b>bold <span>text\n\n" + ">" * 100 + " deep"
    )
    await load(page, seat.workspace.id, made)
    shown = page.locator(".markdown")
    await expect(shown).to_contain_text("a — b &unknown; &amp;")
    link = shown.get_by_role("link", name="picture")
    await expect(link).to_have_attribute("href", "http://b.invalid/?q=1&r=2")
    await expect(link).to_have_attribute("rel", "noopener noreferrer")
    await expect(shown.locator("kbd")).to_have_text("Ctrl")
    await expect(shown.locator("b")).to_have_text("bold <span>text")
    await expect(shown).to_contain_text("deep")
    assert await shown.locator("blockquote").count() < 60
