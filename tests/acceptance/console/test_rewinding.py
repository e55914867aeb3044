"""Rewinds and forks from a message, and the actions of a session's head."""

from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.acceptance.console.conftest import Connect, MakeProject, OpenConsole, written
from tests.acceptance.conversation import take_seat
from tests.acceptance.harness.shapes import Server


@pytest.fixture
def folder(project: MakeProject) -> Path:
    return project("rewound")


@pytest.mark.timeout(180)
async def test_a_session_is_rewound_with_files_the_rewind_undone_and_the_session_forked(
    embedded_server: Server, connect: Connect, folder: Path, open_console: OpenConsole
) -> None:
    seat = await take_seat(connect(embedded_server), folder, yolo=True)
    session = await written(seat, "first\n", "second\n")
    page = await open_console(embedded_server, f"/w/{seat.workspace.id}/s/{session}")
    prompts = page.locator("article.user")
    await expect(prompts).to_have_count(2)

    await prompts.last.get_by_role("button", name="Actions for this message").click()
    await page.get_by_role("menuitem", name="Rewind to before this").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("messages are removed")
    await dialog.get_by_role("button", name="Rewind").click()
    await expect(dialog).to_contain_text("restored")
    await expect(prompts).to_have_count(1)
    assert (folder / "notes.txt").read_text() == "first\n"
    await dialog.get_by_role("button", name="Undo the rewind").click()
    await expect(dialog).to_have_count(0)
    await expect(prompts).to_have_count(2)
    assert (folder / "notes.txt").read_text() == "second\n"

    await prompts.first.get_by_role("button", name="Actions for this message").press("ArrowDown")
    await page.keyboard.press("f")
    await page.keyboard.press("Enter")
    await expect(page).not_to_have_url(f"/w/{seat.workspace.id}/s/{session}")
    await expect(prompts).to_have_count(1)

    await page.get_by_role("button", name="Actions for this session").click()
    await page.get_by_role("menuitem", name="Rename").click()
    await page.get_by_label("Title").fill("<i>another</i>")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="<i>another</i>")).to_be_visible()
    await page.get_by_role("button", name="Actions for this session").click()
    await page.get_by_role("menuitem", name="Delete").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(page.get_by_text("Deleted.").first).to_be_visible()
    await expect(page).to_have_url(f"http://localhost:{embedded_server.port}/")
