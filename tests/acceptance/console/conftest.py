"""The console in Chromium: pages that are signed in, and watched for errors."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Protocol

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, expect

from tests.acceptance.calling import write
from tests.acceptance.conversation import Seat, take_seat
from tests.acceptance.harness.browser import chromium
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.commands import command
from tests.acceptance.harness.shapes import Server

DESKTOP, LAPTOP, PHONE = 1440, 1280, 390
Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]

# What a browser prints of requests that fail as the test wants them to, and of its own limits.
EXPECTED = re.compile(
    r"Failed to load resource|WebSocket connection to .* failed|the Push API in incognito mode"
)


class OpenConsole(Protocol):
    async def __call__(
        self,
        server: Server,
        path: str = "/",
        *,
        width: int = LAPTOP,
        dark: bool = False,
        **options: Any,
    ) -> Page: ...


@pytest_asyncio.fixture
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as browser:
        yield browser


async def login_link(server: Server) -> str:
    done = await asyncio.to_thread(command, server.env, "login-link")
    assert done.code == 0, done
    return str(done.out.strip())


@pytest_asyncio.fixture
async def open_console(browser: Browser) -> AsyncIterator[OpenConsole]:
    """`await open_console(server, "/inbox", width=PHONE)`: a page of a new browser, signed in.

    `options` are Playwright's, of the browser's context.

    After the test, no page may have printed an error or violated its content policy.
    """
    wrong: list[str] = []
    contexts: dict[int, BrowserContext] = {}

    async def open_page(
        server: Server,
        path: str = "/",
        *,
        width: int = LAPTOP,
        dark: bool = False,
        **options: Any,
    ) -> Page:
        context = await browser.new_context(
            base_url=f"http://localhost:{server.port}",
            viewport={"width": width, "height": 844 if width == PHONE else 900},
            color_scheme="dark" if dark else "light",
            has_touch=width == PHONE,
            permissions=["clipboard-read", "clipboard-write"],
            **options,
        )
        contexts[len(contexts)] = context
        page = await context.new_page()
        watch(page, wrong)
        await page.goto(await login_link(server))
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("navigation", name="Main")).to_be_visible()
        if path != "/":
            await page.goto(path)
        return page

    yield open_page
    for context in contexts.values():
        await context.close()
    assert wrong == []


def watch(page: Page, wrong: list[str]) -> None:
    """Collects the errors of a page; violations of its policy are among them."""

    def printed(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"} and not EXPECTED.search(message.text):
            wrong.append(f"{page.url}: {message.text}")

    page.on("console", printed)
    page.on("pageerror", lambda error: wrong.append(f"{page.url}: {error}"))


@pytest_asyncio.fixture
async def seat(embedded_server: Server, connect: Connect, project: MakeProject) -> Seat:
    """A workspace of the embedded server, and a /v1 stream of it."""
    return await take_seat(connect(embedded_server), project("shown"))


@pytest.fixture
def address(seat: Seat) -> Callable[[str], str]:
    """`address(session)`: the session's page."""
    return lambda session: f"/w/{seat.workspace.id}/s/{session}"


async def shown_texts(page: Page) -> list[Any]:
    """The texts of the replies, as the page shows them."""
    return list(await page.locator("article.assistant .markdown").all_inner_texts())


async def written(seat: Seat, *contents: str) -> str:
    """A session whose prompts have written these contents to the file, one after the other."""
    session = await seat.workspace.session("written")
    for content in contents:
        start = seat.stream.mark()
        await seat.workspace.prompt(session, write("notes.txt", content))
        assert "error" not in await seat.stream.run_complete(session, start=start)
    return session
