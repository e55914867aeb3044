"""The admin in Chromium: answers, axe, narrow windows, and no error or violation of its policy."""

import asyncio

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page, expect

from tests.acceptance.calling import bash, permission_request
from tests.acceptance.conftest import MakeProject
from tests.acceptance.conversation import take_seat
from tests.acceptance.harness.browser import chromium, overflow
from tests.acceptance.harness.commands import command
from tests.acceptance.harness.shapes import Server
from tests.acceptance.test_admin import PASSWORD, Connect

WIDTHS = (1440, 1280, 390)
HOSTILE = "<img src=x onerror=alert(1)>"


def watch(page: Page, wrong: list[str]) -> None:
    page.on("console", lambda m: wrong.append(m.text) if m.type in {"error", "warning"} else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))


async def sign_in(page: Page) -> None:
    await page.goto("/admin/login/?next=/admin/")
    await page.get_by_label("Username").fill("boss")
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Log in").click()
    await expect(page.get_by_role("heading", name="Dashboard")).to_be_visible()


async def test_a_request_is_answered_and_every_page_is_sound(
    embedded_server: Server, connect: Connect, project: MakeProject
) -> None:
    server = embedded_server
    env = {**server.env, "DJANGO_SUPERUSER_PASSWORD": PASSWORD}
    account = ["createsuperuser", "--noinput", "--username", "boss", "--email", "b@example.org"]
    made = await asyncio.to_thread(command, env, *account)
    assert made.code == 0, made.err
    path = project("shed")
    seat = await take_seat(connect(server), path)
    session = await seat.workspace.session(title=HOSTILE)
    await seat.workspace.prompt(session, bash("touch painted.txt"))
    await permission_request(seat, session)
    of_session = f"/admin/workspaces/session/{session}/change/"
    wrong: list[str] = []
    async with chromium() as browser:
        base = f"http://127.0.0.1:{server.port}"
        context = await browser.new_context(base_url=base, viewport={"width": 390, "height": 844})
        page = await context.new_page()
        watch(page, wrong)
        await sign_in(page)
        await page.goto(of_session)
        assert await overflow(page) <= 0
        await page.get_by_role("button", name="Allow").click()
        await expect(page.get_by_text("Allowed.")).to_be_visible()
        await seat.stream.run_complete(session)
        assert (path / "painted.txt").exists()
        await page.reload()
        await expect(page.get_by_role("article").last).to_be_visible()
        run = await page.locator("a[href*='/agents/run/'][href$='/change/']").first.get_attribute(
            "href"
        )
        assert run is not None
        state = await context.storage_state()
        pages = ("/admin/", "/admin/workspaces/session/", "/admin/agents/run/", of_session, run)
        for scheme in ("light", "dark"):
            for width in WIDTHS:
                shown = await browser.new_context(
                    base_url=base,
                    storage_state=state,
                    color_scheme="dark" if scheme == "dark" else "light",
                    viewport={"width": width, "height": 900},
                )
                page = await shown.new_page()
                watch(page, wrong)
                for address in pages:
                    await page.goto(address)
                    assert await overflow(page) <= 0, (address, width)
                assert wrong == []
                await shown.close()
            # Without the policy, because axe adds styles of its own to the page.
            checked = await browser.new_context(
                base_url=base,
                storage_state=state,
                bypass_csp=True,
                color_scheme="dark" if scheme == "dark" else "light",
            )
            page = await checked.new_page()
            for address in pages:
                await page.goto(address)
                found = await Axe().run(page)
                assert found.violations_count == 0, (address, scheme, found.generate_report())
            await checked.close()
