"""Every page in both themes: no error, no violation of its policy, nothing that axe finds, no overflow.

With `CRUSH_TEST_SCREENSHOTS`, a picture of each page at each width is kept in that folder.
"""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, BrowserContext, Page

from tests.acceptance.console.conftest import DESKTOP, LAPTOP, PHONE, OpenConsole
from tests.acceptance.console.gallery.pages import (
    Shown,
    console_pages,
    server_pages,
    signed_out_pages,
)
from tests.acceptance.console.gallery.world import World, furnished
from tests.acceptance.harness.browser import overflow
from tests.acceptance.harness.shapes import Server

PICTURES = os.environ.get("CRUSH_TEST_SCREENSHOTS", "")


@pytest_asyncio.fixture
async def world(embedded_server: Server, tmp_path: Path) -> AsyncIterator[World]:
    async with furnished(embedded_server, tmp_path / "work") as world:
        yield world


def width_of(page: Page) -> int:
    assert page.viewport_size is not None
    return page.viewport_size["width"]


async def look(page: Page, shown: Shown, theme: str) -> None:
    """Opens a page as a person would see it, and keeps its picture where that is wanted."""
    await page.goto(shown.address)
    await shown.prepare(page)
    width = width_of(page)
    assert await overflow(page) <= 0, (shown.name, width)
    if PICTURES:
        Path(PICTURES).mkdir(parents=True, exist_ok=True)
        await picture(page, f"{shown.name}-{width}-{theme}")
        if width == LAPTOP:
            await page.set_viewport_size({"width": DESKTOP, "height": 900})
            await picture(page, f"{shown.name}-{DESKTOP}-{theme}")
            await page.set_viewport_size({"width": LAPTOP, "height": 900})


async def picture(page: Page, name: str) -> None:
    await page.screenshot(path=Path(PICTURES) / f"{name}.png")


async def violations(page: Page, shown: Shown) -> list[str]:
    found = (await Axe().run(page)).response["violations"]
    width = width_of(page)
    return [
        f"{shown.name}, {width} px: {each['id']}: {[node['html'][:200] for node in each['nodes']]}"
        for each in found
    ]


async def another(browser: Browser, page: Page, *, is_signed_in: bool, dark: bool) -> Page:
    """A page in a window like that of `page`, whose policy lets axe add its styles."""
    state = await page.context.storage_state() if is_signed_in else None
    context: BrowserContext = await browser.new_context(
        base_url=page.url,
        storage_state=state,
        viewport=page.viewport_size,
        color_scheme="dark" if dark else "light",
        bypass_csp=True,
    )
    return await context.new_page()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_every_page_is_sound(
    embedded_server: Server,
    world: World,
    browser: Browser,
    open_console: OpenConsole,
    theme: str,
) -> None:
    dark = theme == "dark"
    wrong: list[str] = []
    wide = await open_console(embedded_server, width=LAPTOP, dark=dark)
    phone = await open_console(embedded_server, width=PHONE, dark=dark)
    for shown in console_pages(world):
        await look(wide, shown, theme)
        wrong += await violations(wide, shown)
        await look(phone, shown, theme)
        wrong += await violations(phone, shown)
    for pages, is_signed_in in ((server_pages(), True), (signed_out_pages(), False)):
        if not is_signed_in:
            for page in (wide, phone):
                await page.context.clear_cookies()
        checked = await another(browser, wide, is_signed_in=is_signed_in, dark=dark)
        for shown in pages:
            for page in (wide, phone):
                await look(page, shown, theme)
            await checked.goto(shown.address)
            await shown.prepare(checked)
            wrong += await violations(checked, shown)
            await checked.set_viewport_size({"width": PHONE, "height": 844})
            wrong += await violations(checked, shown)
            await checked.set_viewport_size({"width": LAPTOP, "height": 900})
        await checked.context.close()
    assert not wrong, "\n".join(wrong)
