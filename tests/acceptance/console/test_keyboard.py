"""The first conversation by keyboard alone: from the printed link to the reply."""

import pytest
from playwright.async_api import Browser, Page, expect

from tests.acceptance.calling import bash
from tests.acceptance.console.conftest import MakeProject, login_link
from tests.acceptance.harness.shapes import Server

STOPS = 40  # of the Tab key, at most


async def tab_to(page: Page, name: str) -> None:
    """Presses Tab until the control with this name has the focus."""
    for _ in range(STOPS):
        if (
            await page.get_by_role("button", name=name)
            .or_(page.get_by_label(name))
            .evaluate_all("found => found.includes(document.activeElement)")
        ):
            return
        await page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not lead to {name}")


@pytest.mark.timeout(120)
async def test_a_first_conversation_needs_no_mouse(
    embedded_server: Server, browser: Browser, project: MakeProject
) -> None:
    folder = project("garden")
    page = await browser.new_page(viewport={"width": 1280, "height": 900})
    await page.goto(await login_link(embedded_server))
    # The browser gives the button the focus when it has drawn the page, which may be after loading.
    await expect(page.get_by_role("button", name="Sign in")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("No folder is open yet")).to_be_visible()

    await tab_to(page, "Open a folder")
    await page.keyboard.press("Enter")
    await expect(page.get_by_label("Folder", exact=True)).to_be_focused()
    await page.keyboard.type(str(folder))
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("Send the first prompt.")).to_be_visible()

    await tab_to(page, "Your prompt")
    await page.keyboard.insert_text(bash("touch planted.txt"))
    await page.keyboard.press("Enter")
    card = page.get_by_role("article", name="Run a command")
    await expect(card.get_by_role("button", name="Allow", exact=True)).to_be_enabled()
    # The field keeps the focus, so that nobody answers with the letters of a prompt.
    await expect(page.get_by_label("Your prompt")).to_be_focused()
    for _ in range(STOPS):
        await page.keyboard.press("Shift+Tab")
        if await card.evaluate("card => card.contains(document.activeElement)"):
            break
    await page.keyboard.press("a")
    await expect(page.locator(".request-end")).to_have_text("Allowed by owner")
    reply = page.locator("article.assistant").last
    await expect(reply).to_contain_text("word2")
    assert (folder / "planted.txt").exists()
