"""The board: from the printed link to the first reply, and truthful states after a crash."""

import asyncio
import re
import time

import pytest
from playwright.async_api import expect

from tests.acceptance.calling import permission_request, write
from tests.acceptance.console.conftest import PHONE, MakeProject, OpenConsole
from tests.acceptance.conversation import Seat
from tests.acceptance.harness.shapes import Server


async def test_a_first_visit_gets_its_first_answer_in_three_steps(
    embedded_server: Server, open_console: OpenConsole, project: MakeProject
) -> None:
    folder = project("garden")
    page = await open_console(embedded_server)
    began = time.monotonic()
    await expect(page.get_by_text("No folder is open yet")).to_be_visible()
    await page.get_by_role("button", name="Open a folder").click()
    await page.get_by_label("Folder", exact=True).fill(str(folder / "missing"))
    await page.get_by_role("button", name="Start a session").click()
    await expect(page.get_by_role("alert")).to_contain_text("does not exist")
    await page.get_by_label("Folder", exact=True).fill(str(folder))
    await page.get_by_role("button", name="Start a session").click()
    await page.get_by_label("Your prompt").fill("Plant something [[n=5]]")
    await page.keyboard.press("Enter")
    await expect(page.locator("article.assistant")).to_contain_text("word4")
    # `python -m tests.bench.web --figure first_answer` measures it at the speed of a person.
    print(f"the first answer took {time.monotonic() - began:.1f} s")
    await page.get_by_role("link", name="Board").click()
    session = page.get_by_role("link", name="Done")
    await expect(session).to_contain_text("word4")


@pytest.mark.timeout(180)
async def test_states_are_the_same_after_a_crash(
    embedded_server: Server, seat: Seat, open_console: OpenConsole
) -> None:
    waits = await seat.workspace.session("waits here")
    await seat.workspace.prompt(waits, write("a.txt"))
    await permission_request(seat, waits)
    page = await open_console(embedded_server, width=PHONE, dark=True)
    row = page.get_by_role("link", name="waits here")
    await expect(row).to_contain_text("Waiting for you")
    await asyncio.to_thread(embedded_server.kill9)
    await expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
    await asyncio.to_thread(embedded_server.start)
    await expect(page.get_by_role("alert")).to_have_count(0)
    await expect(row).to_contain_text("Waiting for you")
    await page.get_by_role("button", name="failed").click()
    await expect(row).to_have_count(0)
    await page.get_by_role("button", name="waiting for you").click()
    await row.click()
    await expect(page).to_have_url(re.compile("approval="))
