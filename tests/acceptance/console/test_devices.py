"""The console on several devices: paired by a QR code, installed as an app, in tabs, in local time."""

import re
from collections.abc import Callable

import pytest
import segno
from playwright.async_api import expect

from tests.acceptance.conftest import MakeServer
from tests.acceptance.console.conftest import PHONE, OpenConsole
from tests.acceptance.console.transcripts import Transcript, load
from tests.acceptance.conversation import Seat
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.shapes import Server, Shape
from tests.doubles.tcp_proxy import TcpProxy

Address = Callable[[str], str]

# What a camera sees: the colour in the middle of each module of the code, which has a margin of 4.
SEEN = """
async (image) => {
  await image.decode();
  const { width, height } = image.getBoundingClientRect();
  const count = image.naturalWidth / 4;
  const canvas = Object.assign(document.createElement("canvas"), { width: count * 4, height: count * 4 });
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0, count * 4, count * 4);
  const { data } = context.getImageData(0, 0, count * 4, count * 4);
  const isDark = (x, y) => data[4 * ((4 * y + 2) * count * 4 + 4 * x + 2)] < 128;
  const rows = [];
  for (let y = 4; y < count - 4; y++) {
    const row = [];
    for (let x = 4; x < count - 4; x++) row.push(isDark(x, y) ? 1 : 0);
    rows.push(row);
  }
  return { rows, width, height };
}
"""
MOVING = """
() => document.getAnimations().filter((each) => each.playState === "running" && each.effect.getComputedTiming().duration > 1).length
"""


@pytest.mark.timeout(120)
async def test_a_phone_pairs_by_a_qr_code(
    make_a_server: MakeServer, open_console: OpenConsole
) -> None:
    proxy = TcpProxy("127.0.0.1", 0)
    public = f"http://localhost:{proxy.port}"
    server = make_a_server(Shape.EMBEDDED, env={"CRUSH_PUBLIC_URL": public})
    server.start()
    proxy.lead_to(server.port)
    page = await open_console(server, "/settings/phone")
    async with page.expect_response(re.compile("/api/login-links")) as response:
        await page.get_by_role("button", name="Show a QR code").click()
    link = (await (await response.value).json())["url"]
    assert link.startswith(public)
    seen = await page.locator("img.pairing-code").evaluate(SEEN)
    assert seen["rows"] == [list(row) for row in segno.make(link, error="l", micro=False).matrix]
    assert seen["width"] == seen["height"] >= 160

    assert page.context.browser is not None
    phone = await page.context.browser.new_page(viewport={"width": PHONE, "height": 844})
    await phone.goto(link)
    await phone.get_by_role("button", name="Sign in").click()
    await expect(phone.get_by_role("heading", name="Board")).to_be_visible()
    await phone.context.close()
    proxy.close()


async def test_the_console_can_be_installed(
    embedded_server: Server, open_console: OpenConsole
) -> None:
    page = await open_console(embedded_server)
    devtools = await page.context.new_cdp_session(page)
    manifest = await devtools.send("Page.getAppManifest")
    assert manifest["errors"] == []
    found = await devtools.send("Page.getInstallabilityErrors")
    # Windows of tests are private ones.
    assert [each["errorId"] for each in found["installabilityErrors"]] in ([], ["in-incognito"])


@pytest.mark.timeout(120)
async def test_tabs_have_the_same_draft_theme_and_title(
    embedded_server: Server, seat: Seat, open_console: OpenConsole, address: Address
) -> None:
    session = await seat.workspace.session("tabs")
    one = await open_console(embedded_server, address(session))
    await expect(one.get_by_label("Your prompt")).to_be_visible()
    other = await one.context.new_page()
    await other.goto(address(session))
    await expect(other.get_by_role("heading", name="tabs")).to_be_visible()
    await one.get_by_label("Your prompt").fill("Half a thought")
    await expect(other.get_by_label("Your prompt")).to_have_value("Half a thought")
    settings = await one.context.new_page()
    await settings.goto("/settings/appearance")
    await settings.get_by_role("radio", name="Dark").check()
    for page in (one, other, settings):
        await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    await seat.workspace.rename(session, "still the same")
    for page in (one, other):
        await expect(page.get_by_role("heading", name="still the same")).to_be_visible()


@pytest.mark.timeout(120)
async def test_nothing_moves_for_people_who_want_less_motion(
    embedded_server: Server, model: ScriptedModel, seat: Seat, open_console: OpenConsole
) -> None:
    session, gate = await seat.workspace.session("long"), model.new_gate()
    await seat.workspace.prompt(session, f"[[gate={gate}]]")
    await model.wait_at_gate(gate)
    for motion, moves in (("no-preference", True), ("reduce", False)):
        page = await open_console(embedded_server, reduced_motion=motion)
        await expect(page.get_by_role("link", name="Working")).to_be_visible()
        assert bool(await page.evaluate(MOVING)) is moves
    model.open_gate(gate)


async def test_times_are_those_of_the_persons_clock(
    embedded_server: Server, seat: Seat, open_console: OpenConsole
) -> None:
    made = Transcript("times")
    made.say("x")  # in 2023, on 14 November at 22:13:20 UTC
    for zone, shown in (("UTC", "14 Nov 2023, 22:13:20"), ("Asia/Tokyo", "15 Nov 2023, 07:13:20")):
        page = await open_console(embedded_server, timezone_id=zone, locale="en-GB")
        await load(page, seat.workspace.id, made)
        time = page.locator("article.assistant time")
        await expect(time).to_have_attribute("title", shown)
        await expect(time).to_have_attribute("datetime", "2023-11-14T22:13:20.000Z")
