"""Rewinds and forks from a message, and the actions of a session's head."""

from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.acceptance.console.conftest import PHONE, Connect, MakeProject, OpenConsole, written
from tests.acceptance.conversation import SLOW, take_seat
from tests.acceptance.harness.browser import overflow
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
    await expect(dialog).to_contain_text("4 messages are removed")
    removed = dialog.get_by_role("list", name="Messages that are removed")
    await expect(removed.get_by_text("[[tool=write")).to_be_visible()
    await expect(dialog.get_by_role("list", name="Files that are restored")).to_contain_text(
        f"{folder / 'notes.txt'}: restored"
    )
    await dialog.get_by_label("Also undo what tools wrote to files since").uncheck()
    await expect(dialog.get_by_role("list", name="Files that are restored")).to_have_count(0)
    await dialog.get_by_label("Also undo what tools wrote to files since").check()
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


@pytest.mark.timeout(180)
async def test_a_rewind_shows_what_it_leaves_and_is_undone_later_at_its_place(
    embedded_server: Server, connect: Connect, folder: Path, open_console: OpenConsole
) -> None:
    seat = await take_seat(connect(embedded_server), folder, yolo=True)
    session = await written(seat, "first\n", "second\n")
    address = f"/w/{seat.workspace.id}/s/{session}"
    page = await open_console(embedded_server, address, width=PHONE)
    prompts = page.locator("article.user")
    dialog = page.get_by_role("dialog")

    async def open_dialog() -> None:
        await prompts.last.get_by_role("button", name="Actions for this message").click()
        await page.get_by_role("menuitem", name="Rewind to before this").click()

    (folder / "notes.txt").write_text("by a person\n")
    await open_dialog()
    left = dialog.get_by_role("list", name="Files that stay as they are")
    await expect(left).to_contain_text("left as it is (it has changed since)")
    await expect(dialog.get_by_role("list", name="Files that are restored")).to_have_count(0)
    assert await overflow(page) == 0
    await dialog.get_by_role("button", name="Cancel").click()
    await expect(dialog).to_have_count(0)
    await expect(prompts).to_have_count(2)

    (folder / "notes.txt").write_text("second\n")
    await open_dialog()
    await expect(dialog.get_by_role("list", name="Files that are restored")).to_be_visible()
    await dialog.get_by_role("button", name="Rewind").click()
    await dialog.get_by_role("button", name="Close").click()
    line = page.get_by_role("group", name="Rewound")
    await expect(line).to_contain_text("owner rewound the session to here.")
    other = await open_console(embedded_server, address)
    await expect(other.locator("article.user")).to_have_count(1)
    await page.reload()
    assert await overflow(page) == 0
    await line.get_by_role("button", name="Undo").click()
    for each in (page, other):
        await expect(each.locator("article.user")).to_have_count(2)
        await expect(each.get_by_role("group", name="Rewound")).to_have_count(0)
    assert (folder / "notes.txt").read_text() == "second\n"

    # The next prompt ends the possibility.
    await open_dialog()
    await dialog.get_by_role("button", name="Rewind").click()
    await dialog.get_by_role("button", name="Close").click()
    await expect(line).to_be_visible()
    await page.get_by_label("Your prompt").fill(f"go on {SLOW}")
    await page.get_by_label("Your prompt").press("Enter")
    await expect(line).to_have_count(0)

    # While it works, a rewind is refused before somebody tries it.
    await open_dialog()
    await expect(dialog.get_by_role("alert")).to_contain_text("The session still works")
    await expect(dialog.get_by_role("button", name="Rewind")).to_be_disabled()
