"""Changed files and comments on their lines in the console."""

import json
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.acceptance.console.conftest import Connect, MakeProject, OpenConsole, written
from tests.acceptance.conversation import take_seat
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.shapes import Server


@pytest.fixture
def folder(project: MakeProject) -> Path:
    return project("changed")


@pytest.mark.timeout(120)
async def test_comments_on_lines_become_one_prompt(
    embedded_server: Server,
    connect: Connect,
    folder: Path,
    open_console: OpenConsole,
    model: ScriptedModel,
) -> None:
    seat = await take_seat(connect(embedded_server), folder, yolo=True)
    session = await written(seat, "one line\nanother line\n<b>bold</b>\n")
    page = await open_console(embedded_server, f"/w/{seat.workspace.id}/s/{session}")
    await page.get_by_role("link", name="Changes").click()
    await expect(page.get_by_role("heading", name="Changes")).to_be_visible()
    await expect(page.get_by_text("<b>bold</b>")).to_be_visible()

    line = page.get_by_role("button", name="Comment on line 1")
    await line.focus()
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Enter")
    comment = page.get_by_label("Your comment on this line")
    await expect(comment).to_be_focused()
    await comment.fill("Say it in French.")
    await comment.press("Control+Enter")
    await expect(page.get_by_role("button", name="Comment on line 2")).to_be_focused()
    await page.reload()
    await expect(page.get_by_text("Say it in French.")).to_be_visible()
    await line.click()
    await comment.fill("Too short.")
    await page.get_by_role("button", name="Add comment").click()
    await page.get_by_role("button", name="Send as one prompt").click()

    await expect(page.locator("article.user").last).to_contain_text("Say it in French.")
    await expect(page.locator("article.assistant").last).to_have_attribute("aria-busy", "false")
    [request] = [each for each in model.served("Say it in French.") if not each["title"]]
    sent = json.dumps(model.request(request["number"])["body"]["messages"][-1])
    assert "Too short." in sent
    assert "another line" in sent
    assert "notes.txt" in sent
    await page.goto(f"/w/{seat.workspace.id}/s/{session}/changes")
    await expect(page.get_by_text("<b>bold</b>")).to_be_visible()
    await expect(page.get_by_text("Say it in French.")).to_have_count(0)
