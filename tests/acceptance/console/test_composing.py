"""Prompts are written, queued and stopped in the console."""

import asyncio
import json
from collections.abc import Callable

import pytest
from playwright.async_api import FileChooser, expect

from tests.acceptance.calling import bash
from tests.acceptance.console.conftest import LAPTOP, PHONE, Connect, MakeProject, OpenConsole
from tests.acceptance.conversation import (
    SLOW,
    Seat,
    roles_and_finishes,
    take_seat,
    text_of,
)
from tests.acceptance.harness.browser import overflow
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.project import configuration
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
    # From the beginning: later, a browser may get the key before the request to report choosers.
    choosers: asyncio.Queue[FileChooser] = asyncio.Queue()
    page.on("filechooser", choosers.put_nowait)
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
    await page.keyboard.press("Enter")
    async with asyncio.timeout(60):
        chooser = await choosers.get()
    await chooser.set_files(
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
    await expect(page.get_by_role("button", name="Send")).to_be_enabled()
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
    said = "Stopped the running prompt and cancelled 1 queued prompt."
    await expect(page.get_by_text(said).first).to_be_visible()
    await expect(page.locator(".queued")).to_have_count(0)
    await expect(other.get_by_role("button", name="Stop")).to_have_count(0)


@pytest.mark.timeout(180)
async def test_commands_and_skills_are_completed_and_carried_out(
    embedded_server: Server, seat: Seat, open_console: OpenConsole, address: Address
) -> None:
    skill = seat.workspace.path / ".crush" / "skills" / "release" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    front = "name: release\ndescription: How to release.\nuser-invocable: true"
    skill.write_text(f"---\n{front}\n---\n\nTag it first.\n")
    session = await seat.workspace.session("commands")
    page = await open_console(embedded_server, address(session), width=PHONE)
    field = page.get_by_label("Your prompt")
    options = page.get_by_role("listbox", name="Suggestions").get_by_role("option")
    await field.press_sequentially("/")
    for name in ("rename", "fork", "changes", "summarize", "export"):
        await expect(options.filter(has_text=f"/{name}")).to_be_visible()
    assert await overflow(page) == 0
    await field.press_sequentially("ren")
    await expect(options.first).to_contain_text("/rename")
    await page.keyboard.press("Tab")
    await expect(field).to_have_value("/rename ")
    await page.keyboard.type("Another title")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Another title")).to_be_visible()
    await expect(field).to_have_value("")

    await field.fill("/rename")
    await page.keyboard.press("Escape")
    await field.press("Enter")
    await expect(page.locator(".toast.wrong")).to_contain_text("Write the title after /rename.")
    await field.fill("/export jsonl")
    async with page.expect_download() as download:
        await field.press("Enter")
    assert (await download.value).suggested_filename.endswith(".jsonl")

    # A skill becomes a sentence and its instructions, as a file that anybody can take away again.
    await expect(field).to_have_value("")
    await field.press_sequentially("/relea")
    await expect(options.first).to_contain_text("How to release.")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("ArrowUp")
    await page.keyboard.press("Enter")
    await expect(field).to_have_value("Use the skill “release”: ")
    attached = page.get_by_role("list", name="Attached files")
    await expect(attached).to_contain_text("release.md")
    await page.keyboard.type("now [[n=3]]")
    await page.keyboard.press("Enter")
    await expect(page.locator("article.assistant")).to_have_attribute("aria-busy", "false")
    await expect(attached).to_have_count(0)
    (prompt, *_) = await seat.workspace.messages(session)
    assert text_of(prompt) == "Use the skill “release”: now [[n=3]]"
    await expect(page.locator("article.user").get_by_text("SKILL.md")).to_be_visible()

    await field.press_sequentially("/cha")
    await expect(options.first).to_contain_text("/changes")
    await options.first.click()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Changes")).to_be_visible()


@pytest.mark.timeout(180)
async def test_a_prompt_chooses_its_model_its_effort_and_its_budget(
    embedded_server: Server,
    connect: Connect,
    project: MakeProject,
    open_console: OpenConsole,
    model: ScriptedModel,
) -> None:
    providers = configuration(model.base_url)["providers"]
    for each in providers["fake"]["models"]:
        each |= {"can_reason": True, "reasoning_levels": ["low", "high"]}
    seat = await take_seat(
        connect(embedded_server), project("options", providers=providers), yolo=True
    )
    session = await seat.workspace.session("options")
    address = f"/w/{seat.workspace.id}/s/{session}"
    page = await open_console(embedded_server, address, width=PHONE)
    field = page.get_by_label("Your prompt")
    await page.get_by_role("button", name="Options").click()
    await page.get_by_label("Model", exact=True).select_option("fake-small (fake)")
    await page.get_by_label("Effort").select_option("high")
    await page.get_by_label("At most, in steps").fill("1")
    await page.get_by_label("At most, in steps").blur()
    assert await overflow(page) == 0
    # The choice is this tab's, and survives its reload.
    await page.reload()
    await expect(page.get_by_role("button", name="Options (changed)")).to_be_visible()
    await expect(page.get_by_role("button", name="Send")).to_be_enabled()
    word = model.new_gate()
    await field.fill(f"{word} {bash('true')}")
    await field.press("Enter")
    note = page.locator(".note.waiting")
    await expect(note).to_contain_text("The run has reached its budget.")
    await expect(note).to_contain_text("1 of 1 requests")
    sent = [each for each in model.served(word) if not each["title"]]
    body = model.request(sent[-1]["number"])["body"]
    assert (body["model"], body["reasoning_effort"]) == ("fake-small", "high")
    (run,) = (
        await seat.workspace.client.http.call("GET", f"/api/workspaces/{seat.workspace.id}/runs")
    )["items"]
    assert run["options"]["budget"] == {"steps": 1}


@pytest.mark.timeout(240)
async def test_a_prompt_to_a_busy_session_does_what_its_strategy_names(
    embedded_server: Server, connect: Connect, project: MakeProject, open_console: OpenConsole
) -> None:
    seat = await take_seat(connect(embedded_server), project("strategies"), yolo=True)
    session = await seat.workspace.session("strategies")
    page = await open_console(embedded_server, f"/w/{seat.workspace.id}/s/{session}")
    field = page.get_by_label("Your prompt")
    strategy = page.get_by_label("While it works")
    await expect(page.get_by_role("button", name="Send")).to_be_enabled()
    await field.fill(f"first {SLOW}")
    await field.press("Enter")

    await strategy.select_option("Only if idle")
    await field.fill("refused")
    await field.press("Enter")
    await expect(page.locator(".toast.wrong")).to_be_visible()
    await expect(field).to_have_value("refused")

    await strategy.select_option("Stop, then this")
    await field.fill(f"second {SLOW}")
    await field.press("Enter")
    await expect(page.get_by_text("Cancelled by owner.")).to_be_visible()
    await expect(page.locator("article.user")).to_have_count(2)

    await strategy.select_option("Undo, then this")
    await field.fill(bash("until [ -e go ]; do sleep 0.1; done"))
    await field.press("Enter")
    command = page.locator("details.tool")
    await expect(command.locator("summary")).to_contain_text("Running")
    await expect(page.locator("article.user").filter(has_text="second")).to_have_count(0)

    # One joins the turn at once, the other one is promoted from the queue.
    await strategy.select_option("Join this turn")
    await field.fill("joins")
    await field.press("Enter")
    await expect(field).to_have_value("")
    await strategy.select_option("Queue it")
    await field.fill("promoted")
    await field.press("Enter")
    await page.get_by_role("button", name="Actions for: promoted").click()
    await page.get_by_role("menuitem", name="Join the running turn").click()
    # The turn must not end before the server has it.
    joined = page.locator("#announce-polite").get_by_text("It joins the running turn")
    await expect(joined).to_have_count(1)
    (seat.workspace.path / "go").touch()
    prompts = page.locator("article.user")
    await expect(prompts.filter(has_text="joins")).to_be_visible()
    await expect(prompts.filter(has_text="promoted")).to_be_visible()
    await expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    await expect(page.locator(".queued")).to_have_count(0)
    messages = await seat.workspace.messages(session)
    roles = [role for role, _ in roles_and_finishes(messages)]
    assert roles == ["user", "assistant", "user", "assistant", "tool", "user", "user", "assistant"]


@pytest.mark.timeout(120)
async def test_the_queue_is_sorted_by_dragging_and_a_stop_of_one_prompt_says_so(
    embedded_server: Server, seat: Seat, open_console: OpenConsole, address: Address
) -> None:
    session = await seat.workspace.session("dragged")
    page = await open_console(embedded_server, address(session))
    field = page.get_by_label("Your prompt")
    await expect(page.get_by_role("button", name="Send")).to_be_enabled()
    await field.fill(SLOW)
    await field.press("Enter")
    await expect(page.get_by_role("button", name="Stop")).to_be_visible()
    for number, text in enumerate(("first", "second", "third"), 1):
        await expect(field).to_have_value("")
        await field.fill(text)
        await field.press("Enter")
        await expect(page.locator(".queued")).to_have_count(number)
    rows = page.locator(".queued .queue-text > span:first-child")
    await page.get_by_role("button", name="Move: third").drag_to(page.locator(".queued").first)
    await expect(rows).to_have_text(["third", "first", "second"])
    await page.get_by_role("button", name="Move: third").drag_to(page.locator(".queued").last)
    await expect(rows).to_have_text(["first", "second", "third"])
    for text in ("first", "second", "third"):
        await page.get_by_role("button", name=f"Actions for: {text}").click()
        await page.get_by_role("menuitem", name="Remove").click()
        await expect(page.get_by_role("button", name=f"Actions for: {text}")).to_have_count(0)
    await page.get_by_role("button", name="Stop").click()
    await expect(page.get_by_text("Stopped the running prompt.").first).to_be_visible()
    await expect(field).to_be_focused()


@pytest.mark.timeout(120)
@pytest.mark.server_env(CRUSH_MAX_RUNS="1")
async def test_a_stop_of_prompts_that_wait_for_a_worker_says_how_many_it_cancelled(
    embedded_server: Server, seat: Seat, open_console: OpenConsole, address: Address
) -> None:
    busy = await seat.workspace.session("busy")
    start = seat.stream.mark()
    await seat.workspace.prompt(busy, SLOW, "busy")
    await seat.stream.wait_for(lambda e: e.type == "message" and e.payload["role"] == "assistant")
    session = await seat.workspace.session("waits")
    page = await open_console(embedded_server, address(session))
    field = page.get_by_label("Your prompt")
    await expect(page.get_by_role("button", name="Send")).to_be_enabled()
    await field.fill("first")
    await field.press("Enter")
    stop = page.get_by_role("button", name="Stop")
    await expect(stop).to_be_visible()
    place = page.get_by_text("Waits for a worker: 1st in the queue")
    await expect(place).to_be_visible()
    await field.fill("second")
    await field.press("Enter")
    await expect(page.locator(".queued")).to_have_count(1)
    await stop.click()
    await expect(place).to_have_count(0)
    await expect(page.get_by_text("Cancelled 2 waiting prompts.").first).to_be_visible()
    await expect(page.get_by_text("Cancelled by owner.")).to_have_count(2)
    await expect(page.locator(".queued")).to_have_count(0)
    await expect(stop).to_have_count(0)
    await expect(field).to_be_focused()

    # The run of the other session goes on; none of the two is carried out after it.
    await seat.workspace.call("POST", f"/agent/sessions/{busy}/cancel")
    ended = await seat.stream.run_complete(busy, "busy", start=start)
    assert ended["cancelled"]
    await field.fill("third [[n=3]]")
    await field.press("Enter")
    await expect(page.locator("article.assistant").last).to_contain_text("word2")
    replies = [text_of(each) for each in await seat.workspace.messages(session)][1::2]
    assert replies[:2] == ["", ""]
