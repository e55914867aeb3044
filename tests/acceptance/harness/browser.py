"""Debian's Chromium without a window, driven by Playwright."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Browser, Page, async_playwright, expect

CHROMIUM = "/usr/bin/chromium"
WIDTHS = {"phone": 360, "tablet": 820, "desktop": 1400}

# A busy machine is slow; only a wrong page fails.
expect.set_options(timeout=30_000)


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        try:
            yield browser
        finally:
            await browser.close()


async def overflow(page: Page) -> int:
    """By how many pixels the page is wider than its window."""
    return int(
        await page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
    )
