"""What was written is found again: by the search, by the command palette, and by keyboard alone."""

import json
import re
from collections.abc import Callable

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page, expect

from tests.acceptance.console.conftest import LAPTOP, PHONE, OpenConsole
from tests.acceptance.conversation import Seat
from tests.acceptance.harness.shapes import Server

Address = Callable[[str], str]
MESSAGES, FOUND = 700, 100  # the found one is far outside of the newest 150
HOSTILE = '<img src=x onerror="document.title=1"> \U0001f998\U0001f998 the rare quokka <b>rests</b>'
TITLE = '<i>Zoo</i> \U0001f998 & "notes"'


async def import_long_session(seat: Seat) -> str:
    def text_of(number: int) -> str:
        return HOSTILE if number == FOUND else f"message {number} about lions\n\nand their cubs"

    lines = [{"type": "session", "version": 1, "session": {"id": "old", "title": TITLE}}]
    for number in range(MESSAGES):
        message = {
            "id": f"m{number}",
            "session_id": "old",
            "role": "user" if number % 2 == 0 else "assistant",
            "created_at": 1_700_000_000 + number,
            "updated_at": 1_700_000_000 + number,
            "parts": [{"type": "text", "data": {"text": text_of(number)}}],
        }
        lines.append({"type": "message", "message": message})
    lines.append({"type": "end", "sessions": 1, "messages": MESSAGES})
    made = await seat.workspace.client.http.call(
        "POST",
        f"/api/workspaces/{seat.workspace.id}/sessions/import",
        "\n".join(json.dumps(line) for line in lines).encode(),
        headers={"Content-Type": "application/json"},
        expect=201,
    )
    return str(made["id"])


async def expect_accessible(page: Page) -> None:
    found = (await Axe().run(page)).response["violations"]
    assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found] == []
    overflow = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert await page.evaluate(overflow) == 0


@pytest.mark.timeout(180)
async def test_a_search_opens_a_long_session_at_the_match(
    embedded_server: Server, seat: Seat, open_console: OpenConsole, address: Address
) -> None:
    session = await import_long_session(seat)
    for width, dark in ((LAPTOP, False), (PHONE, True)):
        page = await open_console(embedded_server, "/search", width=width, dark=dark)
        field = page.get_by_role("searchbox", name="Words to find")
        await expect(field).to_be_focused()
        await page.keyboard.type("rare quok")
        match = page.get_by_role("link", name="Prompt")
        await expect(match).to_contain_text(HOSTILE)
        await expect(match.locator("mark")).to_have_text(["rare", "quok"])
        await expect(page).to_have_url(re.compile(r"/search\?q=rare\+quok$"))
        await expect(page.get_by_text("1 match in 1 session").first).to_be_visible()
        await expect_accessible(page)

        await match.click()
        await expect(page).to_have_url(re.compile(rf"{re.escape(address(session))}\?message="))
        shown = page.get_by_role("article").filter(has_text="the rare quokka")
        await expect(shown).to_be_in_viewport()
        await expect(shown).to_contain_text(HOSTILE)
        await expect(page.locator("c-message:focus")).to_contain_text("the rare quokka")
        assert await page.get_by_role("article").count() <= 150
        await page.reload()
        await expect(shown).to_be_in_viewport()

        # Back at the search, with its words; another match is opened in the same session.
        await page.go_back()
        await expect(field).to_have_value("rare quok")
        await expect(match).to_be_visible()
        await field.fill("lions")
        await expect(page.get_by_role("link", name="message 699 ")).to_be_visible()
        assert await page.get_by_role("link", name=re.compile("message ")).count() == 50
        await page.get_by_role("button", name="Older matches").click()
        await expect(page.get_by_role("link", name="message 649 ")).to_be_focused()
        await page.get_by_role("link", name="message 600 ").click()
        await expect(page.locator("c-message:focus")).to_contain_text("message 600 ")
        await page.go_back()
        await field.fill("nowhere")
        await expect(page.get_by_text("Nothing has all of these words.").first).to_be_visible()
        await page.route("**/api/search**", lambda route: route.abort())
        await field.fill("zoo")
        await expect(page.get_by_role("alert")).to_contain_text("The server cannot be reached.")
        await page.unroute("**/api/search**")
        await page.get_by_role("button", name="Try again").click()
        await expect(page.get_by_role("heading", name=TITLE)).to_be_visible()


@pytest.mark.timeout(180)
async def test_the_palette_and_the_help_work_by_keyboard_alone(
    embedded_server: Server, seat: Seat, open_console: OpenConsole, address: Address
) -> None:
    first = await seat.workspace.session("Water the plants")
    second = await seat.workspace.session("<b>Prune</b> the тюльпаны")
    for width, dark in ((LAPTOP, True), (PHONE, False)):
        page = await open_console(embedded_server, address(first), width=width, dark=dark)
        prompt = page.get_by_label("Your prompt")
        await prompt.focus()
        await page.keyboard.press("Control+k")
        palette = page.get_by_role("dialog", name="Command palette")
        field = palette.get_by_role("combobox")
        await expect(field).to_be_focused()
        await expect(palette.get_by_role("option", name="Water the plants")).to_be_visible()
        await expect_accessible(page)
        await page.keyboard.press("Escape")
        await expect(palette).to_be_hidden()
        await expect(prompt).to_be_focused()

        await page.keyboard.press("Control+k")
        await page.keyboard.type("тюль")
        options = palette.get_by_role("option")
        await expect(options.first).to_contain_text("<b>Prune</b> the тюльпаны")
        await expect(options).to_have_count(2)
        await page.keyboard.press("ArrowUp")
        await expect(options.last).to_have_attribute("aria-selected", "true")
        chosen = await options.last.get_attribute("id") or ""
        await expect(field).to_have_attribute("aria-activedescendant", chosen)
        await page.keyboard.press("ArrowDown")
        await page.keyboard.press("Enter")
        await expect(page).to_have_url(re.compile(re.escape(address(second)) + "$"))
        await expect(page.get_by_role("heading", level=1)).to_have_text("<b>Prune</b> the тюльпаны")

        # What was used before comes first; other words lead to the search.
        await page.keyboard.press("Control+k")
        await expect(options.first).to_contain_text("Prune")
        await page.keyboard.type("no such thing")
        await expect(options).to_have_text(re.compile("Search for “no such thing”"))
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("searchbox")).to_have_value("no such thing")

        await page.locator("#content").focus()
        await page.keyboard.press("?")
        help_dialog = page.get_by_role("dialog", name="Keyboard shortcuts")
        await expect(help_dialog).to_contain_text("Command palette")
        await expect_accessible(page)
        await page.keyboard.press("Escape")
        await expect(help_dialog).to_be_hidden()

        await page.keyboard.press("Control+k")
        await page.keyboard.type("new session in shown")
        await expect(options.first).to_contain_text("New session in shown")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", level=1)).to_have_text("New session")
        await expect(page.get_by_text("Send the first prompt.")).to_be_visible()
        await page.keyboard.press("Control+k")
        await page.keyboard.type("shown")
        await palette.get_by_role("option", name=re.compile(r"^shown \W")).click()
        await expect(page).to_have_url(re.compile(f"/w/{seat.workspace.id}$"))
        await page.keyboard.press("Control+k")
        await page.keyboard.type("sign out")
        await expect(options.first).to_contain_text("Sign out")
        await page.keyboard.press("Enter")
        await expect(page).to_have_url(re.compile("/sign-in/"))
