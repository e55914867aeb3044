"""What was used is shown with its cost, and settings are changed in the console."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import expect

from tests.acceptance.calling import permission_request, write
from tests.acceptance.console.conftest import PHONE, OpenConsole
from tests.acceptance.conversation import Seat, take_seat
from tests.acceptance.harness.browser import overflow
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.project import configuration
from tests.acceptance.harness.shapes import Server

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]
SECRET_KEY = "sk-never-shown-again-71c2"


def priced(base_url: str) -> dict[str, Any]:
    """The providers of a project whose large model costs a dollar for each token of its replies."""
    providers: dict[str, Any] = configuration(base_url)["providers"]
    providers["fake"]["models"][0] |= {"cost_per_1m_in": 0, "cost_per_1m_out": 1_000_000}
    return providers


async def run(seat: Seat, prompt: str) -> str:
    session: str = await seat.workspace.session("used")
    await seat.workspace.prompt(session, prompt)
    await seat.stream.run_complete(session)
    return session


@pytest.mark.timeout(120)
async def test_usage_shows_the_cost_of_a_run(
    embedded_server: Server,
    connect: Connect,
    project: MakeProject,
    model: ScriptedModel,
    open_console: OpenConsole,
) -> None:
    client = connect(embedded_server)
    seat = await take_seat(client, project("priced", providers=priced(model.base_url)))
    other = await take_seat(client, project("unused"))
    session = await run(seat, "[[n=7]]")
    cost = (await seat.workspace.call("GET", f"/sessions/{session}"))["cost"]
    assert cost > 0

    page = await open_console(embedded_server, "/usage", width=PHONE)
    shown = f"${cost:.2f}" if cost < 100 else f"${cost:.0f}"
    for title, row in (("By model", "fake/fake-large"), ("By workspace", "priced")):
        table = page.get_by_role("region", name=title).get_by_role("table")
        await expect(table.get_by_role("row", name=row)).to_contain_text(shown)
    chart = page.get_by_role("img", name="Bar chart: Cost by day, 30 days")
    await expect(chart.locator("canvas")).to_be_visible()
    await expect(chart).to_have_attribute("aria-label", re.compile(re.escape(shown)))

    results = await Axe().run(page)
    assert results.violations_count == 0, results.generate_report()

    async with page.expect_download() as download:
        await page.get_by_role("link", name="Download CSV").click()
    text = Path(await (await download.value).path()).read_text()
    assert "fake-large" in text
    assert "priced" in text

    await page.get_by_label("Workspace", exact=True).last.select_option(other.workspace.id)
    await expect(page.get_by_text("No model was used in this time.")).to_be_visible()
    await page.reload()
    await expect(page.get_by_text("No model was used in this time.")).to_be_visible()


@pytest.mark.timeout(120)
async def test_a_key_is_written_and_never_shown(
    embedded_server: Server, seat: Seat, open_console: OpenConsole
) -> None:
    address = f"/w/{seat.workspace.id}/settings/models"
    page = await open_console(embedded_server, address, width=PHONE)
    await page.get_by_label("Provider", exact=True).select_option("openai")
    key = page.get_by_label("Key", exact=True)
    await expect(key).to_have_attribute("type", "password")
    await key.fill(SECRET_KEY)
    await page.get_by_role("button", name="Store the key").click()
    await expect(page.get_by_text("The key is stored.").first).to_be_visible()
    await expect(key).to_have_value("")
    rows = page.get_by_role("list", name="Providers").get_by_role("listitem")
    row = rows.filter(has_text="api.openai.com")
    await expect(row).to_contain_text("Key stored")
    await page.reload()
    await expect(row).to_contain_text("Key stored")
    assert SECRET_KEY not in await page.content()
    for name in ("configuration", "providers", "model-choices"):
        answer = await page.request.get(f"/api/workspaces/{seat.workspace.id}/{name}")
        assert answer.ok
        assert SECRET_KEY not in await answer.text()

    form = page.locator("form").filter(has_text="For titles")
    await form.get_by_label("Small model").select_option(label="fake / fake-large")
    await form.get_by_role("button", name="Save").click()
    await expect(page.get_by_text("Saved.").first).to_be_visible()
    choices = await seat.workspace.client.http.call(
        "GET", f"/api/workspaces/{seat.workspace.id}/model-choices"
    )
    assert {one["kind"]: one["model"] for one in choices["items"]}["small"] == "fake-large"


@pytest.mark.timeout(120)
async def test_tokens_and_grants_are_made_and_revoked(
    embedded_server: Server, connect: Connect, project: MakeProject, open_console: OpenConsole
) -> None:
    seat = await take_seat(connect(embedded_server), project("granted"))
    session = await seat.workspace.session("grants")
    await seat.workspace.prompt(session, write("granted.txt"))
    await seat.workspace.grant(await permission_request(seat, session), "allow_session")
    await seat.stream.run_complete(session)

    page = await open_console(embedded_server, "/settings/tokens")
    await page.get_by_label("Name", exact=True).fill("nightly build")
    await page.get_by_label("Read", exact=True).check()
    await page.get_by_role("button", name="Create the token").click()
    secret = page.get_by_label("The new token")
    await expect(secret).to_be_focused()
    await page.get_by_role("button", name="Copy").click()
    copied = await page.evaluate("navigator.clipboard.readText()")
    assert copied == await secret.input_value()
    assert copied
    tokens = page.get_by_role("list", name="Tokens")
    await expect(tokens).to_contain_text("nightly build")
    await page.reload()
    await expect(tokens).to_contain_text("nightly build")
    assert copied not in await page.content()
    await page.get_by_role("button", name="Revoke nightly build").click()
    await page.get_by_role("button", name="Revoke for good? nightly build").click()
    await expect(page.get_by_text("You have no tokens.")).to_be_visible()

    await page.get_by_role("link", name="Grants").click()
    grants = page.get_by_role("list", name="Grants")
    await expect(grants).to_contain_text("granted.txt")
    await grants.get_by_role("button", name="Revoke").press("Enter")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("No grant is valid.")).to_be_visible()
    left = await seat.workspace.client.http.call("GET", "/api/grants")
    assert left["items"] == []


@pytest.mark.timeout(180)
async def test_every_section_fits_a_phone_and_is_accessible(
    embedded_server: Server, seat: Seat, open_console: OpenConsole
) -> None:
    page = await open_console(embedded_server, "/settings", width=PHONE, dark=True)
    addresses = ["/usage"]
    for start in ("/settings", f"/w/{seat.workspace.id}/settings"):
        await page.goto(start)
        links = page.get_by_role("navigation", name="Sections").get_by_role("link")
        await expect(links.first).to_be_visible()
        found = [await link.get_attribute("href") for link in await links.all()]
        addresses += [each for each in found if each and each.startswith(f"{start}/")]
    assert len(addresses) == 20
    for address in addresses:
        await page.goto(address)
        heading = page.get_by_role("heading", level=1 if address == "/usage" else 2).first
        await expect(heading).to_be_visible()
        await expect(page.get_by_text("Loading…")).to_have_count(0)
        await expect(page.get_by_role("alert")).to_have_count(0)
        content = page.locator("#content")
        assert await content.evaluate("it => it.scrollWidth <= it.clientWidth"), address
        results = await Axe().run(page)
        assert results.violations_count == 0, (address, results.generate_report())


@pytest.mark.timeout(180)
async def test_shortcuts_of_a_single_character_can_be_turned_off(
    embedded_server: Server, seat: Seat, open_console: OpenConsole
) -> None:
    session = await seat.workspace.session("letters")
    await seat.workspace.prompt(session, write("letters.txt"))
    await permission_request(seat, session)
    address = f"/w/{seat.workspace.id}/s/{session}"

    page = await open_console(embedded_server, address)
    allow = page.get_by_role("button", name="Allow", exact=True)
    await expect(allow).to_have_attribute("aria-keyshortcuts", "a")
    await expect(allow.locator("kbd")).to_have_text("A")
    await page.get_by_role("heading", level=1).press("?")
    help_dialog = page.get_by_role("dialog", name="Keyboard shortcuts")
    await expect(help_dialog).to_contain_text("Allow")
    await help_dialog.get_by_role("link", name="Settings").click()
    switch = page.get_by_role("switch", name="Shortcuts of a single character")
    await expect(switch).to_be_checked()
    await switch.press("Space")

    await page.goto(address)
    await expect(allow).to_be_enabled()
    await expect(allow).not_to_have_attribute("aria-keyshortcuts", "a")
    await expect(page.locator(".request-card kbd")).to_have_count(0)
    for key in ("a", "d", "r", "?"):
        await page.get_by_role("heading", level=1).press(key)
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await page.keyboard.press("Control+k")
    await page.get_by_role("combobox", name="Command palette").fill("keyboard shortcuts")
    await page.keyboard.press("Enter")
    await expect(help_dialog).to_contain_text("are turned off")
    await expect(help_dialog).not_to_contain_text("Allow")
    await page.keyboard.press("Escape")
    await expect(allow).to_be_enabled()  # no key has answered
    await allow.click()
    await seat.stream.run_complete(session)


@pytest.mark.timeout(120)
async def test_settings_of_a_workspace_are_reached_from_everywhere(
    embedded_server: Server, seat: Seat, open_console: OpenConsole
) -> None:
    session = await seat.workspace.session("ways")
    reached = re.compile(f"/w/{seat.workspace.id}/settings$")
    page = await open_console(embedded_server)
    await page.get_by_role("link", name="Settings of shown").click()
    await expect(page).to_have_url(reached)

    await page.goto(f"/w/{seat.workspace.id}/s/{session}")
    await page.get_by_role("button", name="Actions for this session").click()
    await page.get_by_role("menuitem", name="Settings of the workspace").click()
    await expect(page).to_have_url(reached)
    await expect(page.get_by_role("heading", name="Settings of the workspace")).to_be_visible()

    await page.goto("/inbox")
    await page.keyboard.press("Control+k")
    await page.get_by_role("combobox", name="Command palette").fill("settings shown")
    option = page.get_by_role("option", name="Settings of shown")
    await expect(option).to_be_visible()
    await option.click()
    await expect(page).to_have_url(reached)


@pytest.mark.timeout(120)
async def test_each_channel_is_for_what_a_person_chooses(
    embedded_server: Server, open_console: OpenConsole
) -> None:
    page = await open_console(embedded_server, "/settings/notifications", width=PHONE)
    await page.get_by_label("Address").fill("https://hooks.example/crush")
    form = page.locator("form.settings-form")
    await form.get_by_label("When a run ends").select_option("Of all prompts")
    await form.get_by_role("button", name="Add the channel").click()
    channel = page.get_by_role("group", name="What to notify about: Webhook hooks.example")
    await expect(channel.get_by_label("When a run ends")).to_have_value("all")
    await expect(channel.get_by_label("When something waits for me")).to_be_checked()
    await channel.get_by_label("When something waits for me").uncheck()
    await expect(page.get_by_text("Saved.").first).to_be_visible()
    await page.reload()
    await expect(channel.get_by_label("When something waits for me")).not_to_be_checked()
    await expect(channel.get_by_label("When a run ends")).to_have_value("all")
    assert await overflow(page) == 0
    found = await Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    # A channel for nothing is refused, and the choice stays what it was.
    await channel.get_by_label("When a run ends").select_option("Never")
    await expect(page.get_by_text("Choose what waits, what ends, or both").first).to_be_visible()
    await expect(channel.get_by_label("When a run ends")).to_have_value("all")
    await form.get_by_label("Kind").select_option("E-mail")
    await expect(form.get_by_label("Address")).to_have_count(0)
    await form.get_by_role("button", name="Add the channel").click()
    await expect(form.get_by_text("cannot send e-mail")).to_be_visible()
