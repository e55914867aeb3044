"""The first visit: from the printed link to the first answered prompt, at the speed of a person."""

import asyncio
import time
from pathlib import Path

from playwright.async_api import Browser, Locator

LOOK_SECONDS, KEY_MS = 0.5, 100  # before each click; between two keys: about 100 words a minute
PROMPT = "Say a few words"


async def click(target: Locator) -> None:
    """Clicks like somebody who has to find the button first."""
    await target.wait_for()
    await asyncio.sleep(LOOK_SECONDS)
    await target.click()


async def first_answer(browser: Browser, link: str, folder: Path) -> float:
    """Signs in, opens a folder, sends a prompt; returns the seconds until a frame shows the reply.

    The browser is a new one with an empty cache. The path of the folder is pasted.
    """
    context = await browser.new_context(
        viewport={"width": 1440, "height": 900}, service_workers="block"
    )
    page = await context.new_page()
    began = time.monotonic()
    await page.goto(link)
    await click(page.get_by_role("button", name="Sign in"))
    await click(page.get_by_role("button", name="Open a folder"))
    await page.get_by_label("Folder", exact=True).fill(str(folder))
    await click(page.get_by_role("button", name="Start a session"))
    prompt = page.get_by_label("Your prompt")
    await click(prompt)
    await prompt.press_sequentially(PROMPT, delay=KEY_MS)
    await page.keyboard.press("Enter")
    reply = page.locator("article.assistant c-markdown p")
    await reply.filter(has_text="word").first.wait_for()
    took = time.monotonic() - began
    await context.close()
    return took
