"""A person prompts in the console and reads the reply."""

from collections.abc import Callable

from playwright.async_api import expect

from tests.acceptance.console.conftest import OpenConsole
from tests.acceptance.conversation import Seat, text_of
from tests.acceptance.harness.shapes import Server


async def test_a_prompt_is_answered_and_the_page_shows_what_is_stored(
    embedded_server: Server, seat: Seat, open_console: OpenConsole, address: Callable[[str], str]
) -> None:
    session = await seat.workspace.session("first")
    page = await open_console(embedded_server, address(session))
    await page.get_by_label("Your prompt").fill("Say something [[n=30 d=5]]")
    await page.get_by_role("button", name="Send").click()
    reply = page.locator("article.assistant")
    await expect(reply).to_have_attribute("aria-busy", "false")
    stored = (await seat.workspace.messages(session))[-1]
    await expect(reply.locator(".markdown")).to_have_text(text_of(stored).strip())
