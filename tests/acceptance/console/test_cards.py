"""Permission requests and questions as cards, in two browsers, in the inbox, and by keyboard."""

import asyncio
import json
import re
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page, expect

from tests.acceptance.calling import bash, call, permission_request, results, until, write
from tests.acceptance.console.conftest import PHONE, OpenConsole
from tests.acceptance.conversation import Seat, take_seat
from tests.acceptance.harness.browser import overflow
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.shapes import Server

pytestmark = pytest.mark.timeout(240)

Address = Callable[[str], str]
Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]

CHOICES = [{"id": "pg", "label": "PostgreSQL"}, {"id": "lite", "label": "SQLite"}]
QUESTIONS = [
    {"type": "yes_no", "question": "Go?"},
    {"type": "single_choice", "question": "Which database?", "choices": CHOICES},
    {"type": "multi_choice", "question": "Which are installed?", "choices": CHOICES},
    {"type": "free_text", "question": "What is its name?"},
]
SHOWN = """async (card) => (await registration.getNotifications())
    .some((each) => each.title === "bash waits" && each.data.address.endsWith(card))"""
# Clicks the only notification, or the one with this title: their order is not defined.
CLICK = """async (title) => {
    const shown = await registration.getNotifications();
    const notification = shown.find((each) => !title || each.title === title);
    self.dispatchEvent(new NotificationEvent("notificationclick", {notification}));
}"""


async def test_an_answer_on_the_phone_closes_the_card_of_the_other_browser(
    embedded_server: Server, seat: Seat, open_console: OpenConsole, address: Address
) -> None:
    session = await seat.workspace.session("shared")
    desktop = await open_console(embedded_server, address(session))
    phone = await open_console(embedded_server, address(session), width=PHONE, dark=True)
    await seat.workspace.prompt(session, write("notes.md", "# Title <b>bold</b>\n"))
    card = desktop.get_by_role("article", name="Write a file")
    await expect(card.get_by_text("# Title <b>bold</b>")).to_be_visible()
    await expect(desktop).to_have_title("(1) shared – Crush")
    await phone.get_by_role("button", name="Allow", exact=True).click()
    for page in (phone, desktop):
        await expect(page.locator(".request-end")).to_have_text("Allowed by owner")
    await expect(card.get_by_role("button", name="Allow")).to_have_count(0)
    await seat.stream.run_complete(session)
    assert (seat.workspace.path / "notes.md").read_text() == "# Title <b>bold</b>\n"
    # Somebody could read who answered; then the card leaves.
    await expect(desktop.locator(".request-card")).to_have_count(0)


async def test_a_denial_with_a_reason_reaches_the_model_by_keyboard_alone(
    embedded_server: Server,
    model: ScriptedModel,
    seat: Seat,
    open_console: OpenConsole,
    address: Address,
) -> None:
    session = await seat.workspace.session("denied")
    page = await open_console(embedded_server, address(session))
    await expect(page.get_by_label("Your prompt")).to_be_visible()
    start = seat.stream.mark()
    await seat.workspace.prompt(session, bash("touch never.txt"))
    # Whoever writes a prompt answers nothing with its letters.
    await page.get_by_label("Your prompt").focus()
    await expect(page.get_by_role("button", name="Allow", exact=True)).to_be_enabled()
    await page.keyboard.type("a day")
    await expect(page.get_by_label("Your prompt")).to_have_value("a day")
    await page.get_by_role("article", name="Run a command").focus()
    await page.keyboard.press("r")
    await expect(page.get_by_label("Reason, which the model reads")).to_be_focused()
    await page.keyboard.type("Use the folder build instead.")
    await page.keyboard.press("Enter")
    await expect(page.locator(".request-end")).to_have_text("Denied by owner")
    await seat.stream.run_complete(session, start=start)
    assert not (seat.workspace.path / "never.txt").exists()
    newest = [each for each in model.served("touch never.txt") if not each["title"]][-1]
    sent = model.request(newest["number"])["body"]["messages"]
    assert "Use the folder build instead." in json.dumps(sent)


async def test_a_call_runs_with_edited_arguments(
    embedded_server: Server, seat: Seat, open_console: OpenConsole, address: Address
) -> None:
    session = await seat.workspace.session("edited")
    await seat.workspace.prompt(session, bash("touch model.txt"))
    request = await permission_request(seat, session)
    page = await open_console(
        embedded_server, f"{address(session)}?approval={request['id']}", width=PHONE
    )
    card = page.get_by_role("article", name="Run a command")
    await expect(card).to_be_focused()
    await card.get_by_role("button", name="Edit…").click()
    await card.get_by_role("button", name="Allow with changes").click()
    await expect(card.get_by_role("alert")).to_have_text("Nothing is changed yet.")
    await card.get_by_role("textbox", name="command").fill("touch person.txt")
    await card.get_by_role("button", name="Allow with changes").click()
    await expect(page.locator(".request-end")).to_contain_text("Allowed by owner")
    await seat.stream.run_complete(session)
    made = {each.name for each in seat.workspace.path.glob("*.txt")}
    assert made == {"person.txt"}
    assert not results(await seat.workspace.messages(session))[-1]["is_error"]
    # The link goes on showing what became of the request.
    await page.reload()
    await expect(page.locator(".request-end")).to_contain_text(
        "Allowed by owner with changed arguments"
    )


async def test_the_inbox_answers_requests_and_questions_of_two_workspaces(
    embedded_server: Server,
    seat: Seat,
    connect: Connect,
    project: MakeProject,
    open_console: OpenConsole,
) -> None:
    other = await take_seat(connect(embedded_server), project("other"))
    session = await seat.workspace.session("commands")
    await seat.workspace.prompt(session, bash("touch here.txt"))
    await permission_request(seat, session)
    asking = await other.workspace.session("asking")
    await other.workspace.prompt(asking, call("question", questions=QUESTIONS))
    page = await open_console(embedded_server, "/inbox", width=PHONE, dark=True)
    command = page.get_by_role("article", name="Run a command")
    questions = page.get_by_role("article", name="4 questions")
    await expect(command.get_by_text("touch here.txt")).to_be_visible()
    await expect(command.get_by_text("shown", exact=True)).to_be_visible()
    await expect(questions.get_by_text("other", exact=True)).to_be_visible()
    await expect(page.get_by_role("link", name="2 requests wait for you")).to_be_visible()
    await expect(page).to_have_title("(2) Inbox – Crush")
    assert await overflow(page) == 0
    found = await Axe().run(page)
    assert found.violations_count == 0, found.generate_report()

    await questions.get_by_role("button", name="Answer").click()
    await expect(questions.get_by_role("alert")).to_contain_text("“Go?” has no answer")
    await questions.get_by_label("Yes").check()
    await questions.get_by_label("PostgreSQL").first.check()
    await questions.get_by_role("group", name="Which are installed?").get_by_label("SQLite").check()
    await questions.get_by_role("textbox", name="Your answer", exact=True).fill("Ada <i>")
    await questions.get_by_role("button", name="Answer").click()
    await expect(questions.locator(".request-end")).to_have_text("Answered by owner")
    await expect(questions.get_by_text("Ada <i>")).to_be_visible()
    await other.stream.run_complete(asking)
    told = results(await other.workspace.messages(asking))[-1]["content"]
    assert "Ada <i>" in told

    # Another client answers: the card shows who, and the inbox counts no more.
    await page.wait_for_load_state()
    await seat.workspace.grant(await permission_request(seat, session), "deny")
    await expect(command.locator(".request-end")).to_contain_text("Denied by owner")
    await expect(page).to_have_title("Inbox – Crush")
    await expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
    await page.reload()
    past = page.get_by_role("region", name="Answered")
    await expect(past.get_by_text("Answered by owner")).to_be_visible()
    await expect(past.get_by_text("Denied by owner")).to_be_visible()


async def test_an_answer_counts_for_a_folder_until_a_time(
    embedded_server: Server, seat: Seat, open_console: OpenConsole, address: Address
) -> None:
    session = await seat.workspace.session("granted")
    page = await open_console(embedded_server, address(session))
    await expect(page.get_by_label("Your prompt")).to_be_visible()
    await seat.workspace.prompt(session, write("one.txt"))
    await page.get_by_role("button", name="Allow for…").click()
    form = page.locator("c-scope-form")
    await expect(form.get_by_label("This session")).to_be_focused()
    await form.get_by_label("This workspace").check()
    await form.get_by_label("Ends").select_option("In an hour")
    await form.get_by_label("Everything in a folder").check()
    await expect(form.get_by_label("Folder", exact=True)).to_have_value(str(seat.workspace.path))
    found = await Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    start = seat.stream.mark()
    await form.get_by_role("button", name="Allow").click()
    await expect(page.locator(".request-end")).to_contain_text("for this workspace until")
    await seat.stream.run_complete(session, start=start)
    start = seat.stream.mark()
    await seat.workspace.prompt(session, write("two.txt"))
    await seat.stream.run_complete(session, start=start)
    assert (seat.workspace.path / "two.txt").exists()


async def push_service(
    page: Page, server: Server
) -> Callable[[dict[str, Any]], Coroutine[Any, Any, None]]:
    """Switches notifications on; returns what delivers a message as a push service does."""
    devtools = await page.context.new_cdp_session(page)
    registered: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def note(event: dict[str, Any]) -> None:
        for each in event["registrations"]:
            if not registered.done():
                registered.set_result(each["registrationId"])

    devtools.on("ServiceWorker.workerRegistrationUpdated", note)
    await devtools.send("ServiceWorker.enable")
    await page.get_by_role("switch", name="Notify me").click()
    await expect(page.get_by_role("switch", name="Notify me")).to_be_checked()
    registration = await registered

    async def push(message: dict[str, Any]) -> None:
        await devtools.send(
            "ServiceWorker.deliverPushMessage",
            {
                "origin": f"http://localhost:{server.port}",
                "registrationId": registration,
                "data": json.dumps(message),
            },
        )

    return push


async def test_a_push_message_shows_its_title_and_opens_its_card(
    embedded_server: Server, seat: Seat, open_console: OpenConsole, address: Address
) -> None:
    session = await seat.workspace.session("pushed")
    await seat.workspace.prompt(session, bash("touch pushed.txt"))
    request = await permission_request(seat, session)
    page = await open_console(embedded_server, "/inbox")
    await page.context.grant_permissions(["notifications"])
    push = await push_service(page, embedded_server)
    card = f"{address(session)}?approval={request['id']}"
    for link in ("https://elsewhere.example/usage", card):
        await push({"title": "bash waits", "body": "/srv", "request_id": "r", "url": link})
    worker = page.context.service_workers[0]
    await until(lambda: worker.evaluate(SHOWN, card), "the notification of the card")
    await worker.evaluate(CLICK)
    await expect(page.get_by_role("article", name="Run a command")).to_be_focused()
    assert page.url.endswith(card)


HIDE = """(isHidden) => {
    for (const [name, value] of [["hidden", isHidden], ["visibilityState", isHidden ? "hidden" : "visible"]])
        Object.defineProperty(document, name, { configurable: true, get: () => value });
    document.dispatchEvent(new Event("visibilitychange"));
}"""
TITLES = "async () => (await registration.getNotifications()).map((each) => each.title)"


async def test_a_tab_in_the_background_shows_what_ends_and_opens_that_session(
    embedded_server: Server, seat: Seat, open_console: OpenConsole, address: Address
) -> None:
    page = await open_console(embedded_server, "/settings/notifications")
    await page.context.grant_permissions(["notifications"])
    await page.get_by_role("switch", name="Notify me").click()
    await expect(page.get_by_text("On while a tab of the console is open")).to_be_visible()
    browser = page.get_by_role("group", name="What to notify about: This browser")
    await expect(browser.get_by_label("When a run ends")).to_have_value("own")
    async with page.expect_response(lambda answer: "/notifications/ends" in answer.url):
        await page.evaluate(HIDE, True)
    other = await seat.workspace.session("elsewhere")
    session = await seat.workspace.session("built")
    await seat.workspace.prompt(session, "[[n=3]]")
    await seat.stream.run_complete(session)
    worker = page.context.service_workers[0]
    await until(lambda: worker.evaluate(TITLES), "the notification of the end")
    assert await worker.evaluate(TITLES) == ["Done: built"]
    # What the person cancels is no news; the end after it shows that it would have come.
    gate = "[[n=50000 d=20]]"
    await seat.workspace.prompt(other, gate)
    await seat.workspace.cancel(other)
    await seat.stream.run_complete(other)
    title = "failing <img src=x onerror=alert(1)>"
    failed = await seat.workspace.session(title)
    await seat.workspace.prompt(failed, "[[status=401]]")
    await seat.stream.run_complete(failed)

    async def is_shown() -> bool:
        return f"Failed: {title}" in await worker.evaluate(TITLES)

    await until(is_shown, "the notification of the failure")
    assert set(await worker.evaluate(TITLES)) <= {"Done: built", f"Failed: {title}"}
    await page.evaluate(HIDE, False)
    await worker.evaluate(CLICK, f"Failed: {title}")
    await expect(page).to_have_url(re.compile(re.escape(address(failed)) + "$"))
    await expect(page.get_by_role("heading", name=title)).to_be_visible()


async def test_a_push_message_of_an_end_opens_its_session_unless_it_is_looked_at(
    embedded_server: Server, seat: Seat, open_console: OpenConsole, address: Address
) -> None:
    session = await seat.workspace.session("pushed end")
    shown = await seat.workspace.session("shown")
    page = await open_console(embedded_server, "/inbox")
    await page.context.grant_permissions(["notifications"])
    push = await push_service(page, embedded_server)
    # The page listens to its service worker before it reads what waits.
    async with page.expect_response(lambda answer: "/api/approvals" in answer.url):
        await page.goto(address(shown))
    for each in (shown, session):
        title = {"title": f"Done: {each}", "body": "/srv", "request_id": "", "session_id": each}
        await push(title | {"url": address(each)})
    worker = page.context.service_workers[0]
    await until(lambda: worker.evaluate(TITLES), "the notification of the end")
    assert await worker.evaluate(TITLES) == [f"Done: {session}"]
    await worker.evaluate(CLICK)
    await expect(page).to_have_url(re.compile(re.escape(address(session)) + "$"))


@pytest.mark.server_env(CRUSH_TRUST="ask")
async def test_a_person_trusts_a_folder_after_reading_what_it_would_start(
    embedded_server: Server,
    connect: Connect,
    project: MakeProject,
    open_console: OpenConsole,
) -> None:
    hook = {"PreToolUse": [{"command": "touch HOOK_RAN <img src=x>"}]}
    seat = await take_seat(connect(embedded_server), project("foreign", hooks=hook))
    session = await seat.workspace.session("foreign")
    page = await open_console(embedded_server, f"/w/{seat.workspace.id}/s/{session}", width=PHONE)
    card = page.get_by_role("article", name="Trust this folder")
    await expect(card.get_by_text("touch HOOK_RAN <img src=x>").first).to_be_visible()
    await expect(card.get_by_role("button", name="Allow for…")).to_have_count(0)
    found = await Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    await card.get_by_role("button", name="Do not trust").click()
    await expect(card.locator(".request-end")).to_contain_text("Denied")
    http = seat.workspace.client.http
    status = await http.call("GET", f"/api/trust?path={seat.workspace.path}")
    assert status["state"] == "denied"


@pytest.mark.server_env(CRUSH_TRUST="ask")
async def test_the_inbox_answers_a_folder_that_waits_for_trust_once(
    embedded_server: Server,
    connect: Connect,
    project: MakeProject,
    open_console: OpenConsole,
) -> None:
    hook = {"PreToolUse": [{"command": "touch HOOK_RAN <img src=x>"}]}
    seat = await take_seat(connect(embedded_server), project("foreign", hooks=hook))
    session = await seat.workspace.session("foreign")
    desktop = await open_console(embedded_server, f"/w/{seat.workspace.id}/s/{session}")
    inbox = await open_console(embedded_server, "/inbox", width=PHONE)
    other = await open_console(embedded_server, "/inbox")
    card = inbox.get_by_role("article", name="Trust this folder")
    await expect(card.get_by_text("touch HOOK_RAN <img src=x>").first).to_be_visible()
    await expect(card.get_by_text(str(seat.workspace.path)).first).to_be_visible()
    await expect(inbox.get_by_role("link", name="1 request waits for you")).to_be_visible()
    await expect(inbox).to_have_title("(1) Inbox – Crush")
    assert await overflow(inbox) == 0
    found = await Axe().run(inbox)
    assert found.violations_count == 0, found.generate_report()

    late = other.get_by_role("article", name="Trust this folder")
    await expect(late.get_by_role("button", name="Do not trust")).to_be_enabled()
    await other.route("**/api/trust-requests", lambda route: route.abort())  # it learns nothing
    await card.get_by_role("button", name="Trust", exact=True).click()
    answered = "Allowed by owner"
    await expect(card.locator(".request-end")).to_contain_text(answered)
    await expect(desktop.locator(".request-end")).to_contain_text(answered)
    await expect(inbox).to_have_title("Inbox – Crush")
    await late.get_by_role("button", name="Do not trust").click()
    await expect(late.locator(".request-end")).to_contain_text(answered)
    http = seat.workspace.client.http
    status = await http.call("GET", f"/api/trust?path={seat.workspace.path}")
    assert status["state"] == "trusted"
    await inbox.reload()
    past = inbox.get_by_role("region", name="Answered")
    await expect(past.get_by_role("article", name="Trust this folder")).to_contain_text(answered)


async def test_a_call_that_a_crash_has_cut_runs_again_with_a_press(
    embedded_server: Server, connect: Connect, project: MakeProject, open_console: OpenConsole
) -> None:
    path = project("cut", permissions={"cut_calls": {"bash": "ask"}, "allowed_tools": ["bash"]})
    seat = await take_seat(connect(embedded_server), path)
    session = await seat.workspace.session("cut")
    command = "echo x >> marks; [ $(wc -l < marks) = 2 ]||sleep 99"
    await seat.workspace.prompt(session, bash(command))
    await until(lambda: asyncio.to_thread((path / "marks").exists), "the first run")
    await asyncio.to_thread(embedded_server.kill9)
    await asyncio.to_thread(embedded_server.start)
    page = await open_console(embedded_server, f"/w/{seat.workspace.id}/s/{session}", width=PHONE)
    card = page.get_by_role("article", name="Run a command")
    await expect(card.get_by_text("The server stopped while this ran")).to_be_visible()
    await expect(card.get_by_role("button", name="Do not run again", exact=True)).to_be_enabled()
    await card.get_by_role("button", name="Do not run again, with a reason…").click()
    await expect(card.get_by_text("The turn goes on, with or without a reason.")).to_be_visible()
    await card.get_by_role("button", name="Back").click()
    await card.get_by_role("button", name="Run again", exact=True).click()
    await expect(page.locator(".request-end")).to_have_text("Allowed by owner")
    await until(lambda: asyncio.to_thread(lambda: len((path / "marks").read_text()) == 4), "twice")
