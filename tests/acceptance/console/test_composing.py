"""Prompts are written, queued and stopped in the console."""

import json
from collections.abc import Callable

import pytest
from playwright.async_api import expect

from tests.acceptance.console.conftest import LAPTOP, PHONE, OpenConsole
from tests.acceptance.conversation import SLOW, Seat, text_of
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.shapes import Server

Address = Callable[[str], str]


@pytest.mark.timeout(120)
async def test_a_prompt_with_files_is_written_by_keyboard_and_survives_a_reload(
    embedded_server: Server,
    seat: Seat,
    open_console: OpenConsole,
    address: Address,
    model: ScriptedModel,
) -> None:
    session = await seat.workspace.session("files")
    page = await open_console(embedded_server, address(session))
    field = page.get_by_label("Your prompt")
    await field.focus()
    await page.keyboard.type("Look at @crus")
    choice = page.get_by_role("option").first
    await expect(choice).to_contain_text("crush.json")
    await page.keyboard.press("Enter")
    await expect(field).to_have_value("Look at @crush.json ")
    await page.reload()
    await expect(field).to_have_value("Look at @crush.json ")

    await field.focus()
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("button", name="Attach files")).to_be_focused()
    async with page.expect_file_chooser() as chooser:
        await page.keyboard.press("Enter")
    await (await chooser.value).set_files(
        {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"the attached words"}
    )
    await expect(page.get_by_role("list", name="Attached files")).to_contain_text("notes.txt")
    await field.focus()
    await page.keyboard.press("End")
    await page.keyboard.type("[[n=4]]")
    await page.keyboard.press("Shift+Enter")
    await page.keyboard.type("please")
    await page.keyboard.press("Enter")
    await expect(page.locator("article.assistant")).to_have_attribute("aria-busy", "false")
    await expect(field).to_have_value("")
    await expect(page.get_by_role("list", name="Attached files")).to_have_count(0)
    prompt = (await seat.workspace.messages(session))[0]
    assert text_of(prompt) == "Look at @crush.json [[n=4]]\nplease"
    sent = json.dumps([model.request(entry["number"]) for entry in model.served("please")])
    assert "the attached words" in sent
    await page.reload()
    await expect(field).to_have_value("")


@pytest.mark.timeout(120)
async def test_the_queue_is_the_same_in_two_browsers_and_a_stop_reports_what_it_ended(
    embedded_server: Server, seat: Seat, open_console: OpenConsole, address: Address
) -> None:
    session = await seat.workspace.session("queue")
    page = await open_console(embedded_server, address(session), width=LAPTOP)
    other = await open_console(embedded_server, address(session), width=PHONE)
    field = page.get_by_label("Your prompt")
    await field.fill(SLOW)
    await field.press("Enter")
    await expect(page.get_by_role("button", name="Stop")).to_be_visible()
    for number, text in enumerate(("first", "second"), 1):
        await expect(field).to_have_value("")
        await field.fill(text)
        await field.press("Enter")
        await expect(page.locator(".queued")).to_have_count(number)
    rows = other.locator(".queued .queue-text > span:first-child")
    await expect(rows).to_have_text(["first", "second"])

    grip = page.get_by_role("button", name="Move: second")
    await grip.press("ArrowUp")
    await expect(rows).to_have_text(["second", "first"])
    await expect(grip).to_be_focused()

    menu = page.get_by_role("button", name="Actions for: first")
    await menu.press("ArrowDown")
    await expect(page.get_by_role("menuitem", name="Edit")).to_be_focused()
    await page.keyboard.press("Enter")
    text = page.get_by_label("Text of the queued prompt")
    await expect(text).to_be_focused()
    await text.fill("changed")
    await text.press("Enter")
    await expect(rows).to_have_text(["second", "changed"])

    await other.get_by_role("button", name="Actions for: second").click()
    await other.get_by_role("menuitem", name="Remove").click()
    await expect(page.locator(".queued")).to_have_count(1)

    await field.focus()
    await page.keyboard.press("Escape")
    await page.keyboard.press("Escape")
    said = "Stopped the running prompt and removed 1 queued prompt."
    await expect(page.get_by_text(said).first).to_be_visible()
    await expect(page.locator(".queued")).to_have_count(0)
    await expect(other.get_by_role("button", name="Stop")).to_have_count(0)
