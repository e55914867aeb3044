"""A person prompts in the console and reads the reply, also where it does not come at once."""

from collections.abc import Callable

import pytest
from playwright.async_api import expect

from tests.acceptance.console.conftest import PHONE, OpenConsole
from tests.acceptance.conversation import Seat, text_of
from tests.acceptance.harness.browser import overflow
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.shapes import Server

Address = Callable[[str], str]


async def test_a_prompt_is_answered_and_the_page_shows_what_is_stored(
    embedded_server: Server, seat: Seat, open_console: OpenConsole, address: Address
) -> None:
    session = await seat.workspace.session("first")
    page = await open_console(embedded_server, address(session))
    await page.get_by_label("Your prompt").fill("Say something [[n=30 d=5]]")
    await page.get_by_role("button", name="Send").click()
    reply = page.locator("article.assistant")
    await expect(reply).to_have_attribute("aria-busy", "false")
    stored = (await seat.workspace.messages(session))[-1]
    await expect(reply.locator(".markdown")).to_have_text(text_of(stored).strip())


@pytest.mark.timeout(180)
async def test_a_retry_shows_what_failed_and_when_the_next_attempt_comes(
    embedded_server: Server,
    seat: Seat,
    open_console: OpenConsole,
    address: Address,
    model: ScriptedModel,
) -> None:
    session = await seat.workspace.session("retried")
    page = await open_console(embedded_server, address(session), width=PHONE)
    await expect(page.get_by_label("Your prompt")).to_be_visible()
    key = model.new_gate()
    await seat.workspace.prompt(
        session, f"[[status=503 times=1 key={key} retry_after=5]] [[n=4 reason=30]]"
    )
    note = page.locator(".note.waiting")
    await expect(note).to_contain_text("Attempt 2 of")
    await expect(note).to_contain_text("In")
    assert await overflow(page) == 0
    reply = page.locator("article.assistant")
    await expect(reply).to_have_attribute("aria-busy", "false")
    await expect(note).to_have_count(0)

    # What the model thought is folded, with the time that it took.
    thoughts = reply.locator("details.reasoning")
    await expect(thoughts.locator("summary")).to_contain_text("Thought for")
    await expect(thoughts.locator(".plain")).to_be_hidden()
    await thoughts.locator("summary").click()
    await expect(thoughts.locator(".plain")).to_be_visible()


@pytest.mark.timeout(180)
async def test_a_page_that_is_opened_while_a_run_waits_for_its_next_attempt_shows_the_same_note(
    embedded_server: Server,
    seat: Seat,
    open_console: OpenConsole,
    address: Address,
    model: ScriptedModel,
) -> None:
    session = await seat.workspace.session("retried")
    early = await open_console(embedded_server, address(session))
    await expect(early.get_by_label("Your prompt")).to_be_visible()
    key = model.new_gate()
    await seat.workspace.prompt(
        session, f"[[status=503 times=1 key={key} retry_after=100]] [[n=4]]"
    )
    await expect(early.locator(".note.waiting")).to_contain_text("Attempt 2 of")
    late = await open_console(embedded_server, address(session))
    note = late.locator(".note.waiting")
    await expect(note).to_contain_text("Attempt 2 of")
    await expect(note).to_contain_text("In")
    await seat.workspace.cancel(session)
    await expect(late.get_by_text("Cancelled by owner.")).to_be_visible()
    await expect(note).to_have_count(0)


@pytest.mark.timeout(180)
async def test_a_failed_run_says_what_to_do_and_runs_again(
    embedded_server: Server,
    seat: Seat,
    open_console: OpenConsole,
    address: Address,
    model: ScriptedModel,
) -> None:
    session = await seat.workspace.session("failed")
    page = await open_console(embedded_server, address(session), width=PHONE)
    await expect(page.get_by_label("Your prompt")).to_be_visible()
    await seat.workspace.prompt(session, f"[[status=401 times=1 key={model.new_gate()}]] [[n=4]]")
    note = page.locator(".note.wrong")
    await expect(note).to_contain_text("The run failed.")
    await expect(note).to_contain_text("Check the provider's key in the settings.")
    await expect(note.get_by_role("link", name="Models and keys")).to_have_attribute(
        "href", "/settings/models"
    )
    assert await overflow(page) == 0
    await note.get_by_role("button", name="Run again").click()
    await expect(page.locator("article.assistant .markdown")).to_have_count(1)
    # It was run again, so that is not offered twice.
    await expect(page.get_by_role("button", name="Run again")).to_have_count(0)


@pytest.mark.timeout(180)
async def test_a_summary_is_requested_by_a_command_and_its_place_is_marked(
    embedded_server: Server, seat: Seat, open_console: OpenConsole, address: Address
) -> None:
    session = await seat.workspace.session("summarised")
    page = await open_console(embedded_server, address(session))
    field = page.get_by_label("Your prompt")
    await field.fill("/summarize")
    await field.press("Enter")
    await expect(page.locator(".toast.wrong")).to_contain_text("no messages")
    await expect(field).to_have_value("/summarize")
    await field.fill("some words [[n=4]]")
    await field.press("Enter")
    await expect(page.locator("article.assistant")).to_have_attribute("aria-busy", "false")

    await field.fill("")
    await field.press_sequentially("/summ")
    await expect(page.get_by_role("option").first).to_contain_text("/summarize")
    await page.keyboard.press("Enter")
    await expect(field).to_have_value("/summarize ")
    await page.keyboard.press("Enter")
    await expect(field).to_have_value("")
    mark = page.get_by_role("separator")
    await expect(mark).to_have_text(
        "The model continues from this summary of the conversation above."
    )
    await expect(page.locator("article.assistant").last).to_have_attribute("aria-busy", "false")
    shown = page.locator("article.message, .summary-boundary")
    await expect(shown.nth(2)).to_have_class("summary-boundary")
    messages = await seat.workspace.messages(session)
    assert [bool(each.get("is_summary_message")) for each in messages] == [False, False, True]
    await page.reload()
    await expect(mark).to_be_visible()
