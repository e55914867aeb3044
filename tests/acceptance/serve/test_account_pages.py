"""A person signs in with a browser, makes a token, revokes it, and ends another browser's session."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, expect

from tests.acceptance.harness.browser import WIDTHS, chromium, overflow
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.commands import command
from tests.acceptance.harness.http import UnexpectedStatus
from tests.acceptance.harness.shapes import Server

PASSWORD = "a long phrase 7"
Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]


async def manage(server: Server, *arguments: str, stdin: str = "") -> str:
    done = await asyncio.to_thread(command, server.env, *arguments, stdin=stdin)
    assert done.code == 0, done
    return done.out.strip()


@pytest_asyncio.fixture
async def name(shared_server: Server, request: pytest.FixtureRequest) -> str:
    """A user of this test's own."""
    name = f"ann-{os.urandom(4).hex()}"
    await manage(shared_server, "user", "add", name, "--password-stdin", stdin=f"{PASSWORD}\n")
    return name


@pytest_asyncio.fixture
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as browser:
        yield browser


async def without_scripts(browser: Browser, server: Server) -> BrowserContext:
    return await browser.new_context(
        java_script_enabled=False, base_url=f"http://localhost:{server.port}"
    )


async def sign_in(page: Page, name: str, password: str = PASSWORD) -> None:
    await page.get_by_label("Username").fill(name)
    await page.get_by_label("Password").fill(password)
    await page.get_by_role("button", name="Sign in").click()


async def open_account(page: Page) -> None:
    """Follows the console's link."""
    await page.get_by_role("link", name="account").click()
    await expect(page).to_have_title("My account – Crush server")


async def test_tokens_are_made_and_revoked_in_a_browser_without_javascript(
    shared_server: Server, browser: Browser, name: str, connect: Connect, project: MakeProject
) -> None:
    seat = await connect(shared_server).workspace(project("shown"))
    await manage(shared_server, "user", "role", name, seat.id, "viewer")
    context = await without_scripts(browser, shared_server)
    page = await context.new_page()
    await page.goto("/account/")
    await sign_in(page, name, "wrong")
    await expect(page.get_by_role("alert")).to_contain_text("correct username and password")
    await sign_in(page, name)
    await expect(page).to_have_title("My account – Crush server")
    await expect(page.get_by_text(str(seat.path)).first).to_be_visible()
    await page.get_by_label("Name").fill("laptop")
    await page.get_by_text("Limit what it may do").click()
    await page.get_by_label("read", exact=True).check()
    await page.get_by_role("button", name="Create").click()
    token = await page.get_by_role("status").locator("code").inner_text()
    assert token.startswith("crush_")
    async with Client(shared_server.url, token=token) as client:
        assert [w["id"] for w in await client.workspaces()] == [seat.id]
        with pytest.raises(UnexpectedStatus) as refused:
            await client.http.call("POST", f"/v1/workspaces/{seat.id}/sessions", {"title": "x"})
        assert refused.value.status == 403
        await page.goto("/account/")
        await expect(page.get_by_text(token)).to_have_count(0)  # shown once
        await expect(page.get_by_text("only read")).to_be_visible()
        await page.get_by_role("button", name="Revoke laptop").click()
        await expect(page.get_by_text("No tokens.")).to_be_visible()

        async def status() -> int:
            try:
                await client.workspaces()
            except UnexpectedStatus as error:
                return error.status
            return 200

        async with asyncio.timeout(60):
            while await status() != 401:
                await asyncio.sleep(0.1)
    await page.get_by_role("button", name="Sign out").first.click()
    await expect(page).to_have_title("Sign in – Crush server")
    await page.goto("/account/")
    await expect(page).to_have_title("Sign in – Crush server")


async def test_a_browsers_session_is_ended_from_another_browser(
    shared_server: Server, browser: Browser, name: str
) -> None:
    first, second = [
        await (await without_scripts(browser, shared_server)).new_page() for _ in range(2)
    ]
    for page in (first, second):
        await page.goto("/sign-in/")
        await sign_in(page, name)
        await open_account(page)
    await first.reload()
    await expect(first.get_by_text("this browser,")).to_have_count(1)
    await first.get_by_role("button", name="End").click()
    await expect(first.get_by_role("button", name="End")).to_have_count(0)
    await second.reload()
    await expect(second).to_have_title("Sign in – Crush server")


async def test_a_password_is_changed_without_javascript(
    shared_server: Server, browser: Browser, name: str
) -> None:
    first, second = [
        await (await without_scripts(browser, shared_server)).new_page() for _ in range(2)
    ]
    for page in (first, second):
        await page.goto("/sign-in/")
        await sign_in(page, name)
        await open_account(page)
    await first.get_by_role("link", name="Change password").click()
    await first.get_by_label("Old password").fill(PASSWORD)
    await first.get_by_label("New password", exact=True).fill("another phrase 8")
    await first.get_by_label("New password confirmation").fill("another phrase 8")
    await first.get_by_role("button", name="Save").click()
    await expect(first.get_by_role("status")).to_contain_text("Your password is changed")
    await second.reload()
    await expect(second).to_have_title("Sign in – Crush server")
    await sign_in(second, name, "another phrase 8")
    await expect(second).to_have_title("My account – Crush server")


async def test_a_login_link_is_pasted(shared_server: Server, browser: Browser, name: str) -> None:
    link = await manage(shared_server, "login-link", "--user", name)
    page = await (await without_scripts(browser, shared_server)).new_page()
    await page.goto("/sign-in/")
    await page.get_by_role("link", name="login link").click()
    await page.get_by_label("The link").fill(link)
    await page.get_by_role("button", name="Open").click()
    await page.get_by_role("button", name="Sign in").click()
    await open_account(page)
    await expect(page.get_by_role("heading", name=name)).to_be_visible()
    assert "key=" not in page.url


@pytest.mark.parametrize("device", WIDTHS)
async def test_the_pages_fit_their_window(
    shared_server: Server, browser: Browser, name: str, device: str
) -> None:
    context = await browser.new_context(
        base_url=f"http://localhost:{shared_server.port}",
        viewport={"width": WIDTHS[device], "height": 800},
    )
    page = await context.new_page()
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    folder = os.environ.get("SCREENSHOTS")

    async def look(what: str) -> None:
        assert await overflow(page) == 0, what
        if folder:
            await page.screenshot(path=f"{folder}/{what}-{device}.png", full_page=True)

    await page.goto("/sign-in/link/")
    await look("paste-link")
    await page.goto("/sign-in/")
    await look("sign-in")
    await sign_in(page, name)
    await open_account(page)
    await page.get_by_label("Name").fill("a-very-long-name-" * 5)
    await page.get_by_text("Limit what it may do").click()
    await page.get_by_label("read", exact=True).check()
    await page.get_by_role("button", name="Create").click()
    await expect(page.get_by_role("status")).to_be_visible()
    await page.get_by_text("Limit what it may do").click()
    await look("account")
    await page.get_by_role("link", name="Change password").click()
    await page.get_by_label("Old password").fill("wrong")
    await page.get_by_label("New password", exact=True).fill("short")
    await page.get_by_label("New password confirmation").fill("short")
    await look("password")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("alert").first).to_be_visible()
    await look("password-refused")
    assert [problem for problem in problems if "400 (Bad Request)" in problem] == problems[:1]
    problems.clear()
    await manage(shared_server, "user", "add", f"{name}-2", "--no-password")
    link = await manage(shared_server, "login-link", "--user", f"{name}-2")
    await context.clear_cookies()
    await page.goto(f"/sign-in/link/?key={link.rpartition('key=')[2]}")
    await page.get_by_role("button", name="Sign in").click()
    await open_account(page)
    await page.get_by_role("link", name="Set a password").click()
    await look("set-password")
    assert problems == []  # the content policy allows all that the pages need


async def test_a_page_of_this_server_loads_its_own_files_only(
    shared_server: Server, browser: Browser
) -> None:
    page = await (await without_scripts(browser, shared_server)).new_page()
    for path in ("/sign-in/", "/sign-in/link/"):
        answer = await page.goto(path)
        assert answer is not None
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "no-store" in answer.headers["cache-control"]
