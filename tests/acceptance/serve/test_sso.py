"""The extra `sso`: OpenID Connect, a code of an app as a second factor, and passkeys, in Chromium."""

import asyncio
import base64
import hmac
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from tests.acceptance.conftest import MakeServer
from tests.acceptance.harness.browser import chromium
from tests.acceptance.harness.commands import command
from tests.acceptance.harness.shapes import Server, Shape
from tests.doubles.oidc_provider import CLIENT_ID, SECRET, OidcProvider, oidc_provider

PASSWORD = "a long phrase 7"


@pytest_asyncio.fixture
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as browser:
        yield browser


@pytest_asyncio.fixture
async def provider() -> AsyncIterator[OidcProvider]:
    async with oidc_provider() as provider:
        yield provider


async def started(make_a_server: MakeServer, **env: str) -> Server:
    server = make_a_server(Shape.EMBEDDED, env={"CRUSH_SSO": "1", **env})
    await asyncio.to_thread(server.start)
    return server


def oidc_env(provider: OidcProvider, folder: Path) -> dict[str, str]:
    file = folder / "secret"
    file.write_text(f"{SECRET}\n")
    return {
        "CRUSH_OIDC_URL": provider.url,
        "CRUSH_OIDC_CLIENT_ID": CLIENT_ID,
        "CRUSH_OIDC_SECRET_FILE": str(file),
        "CRUSH_OIDC_NAME": "Example Inc.",
    }


async def manage(server: Server, *arguments: str, stdin: str = "") -> str:
    done = await asyncio.to_thread(command, server.env, *arguments, stdin=stdin)
    assert done.code == 0, done
    return done.out.strip()


async def add_user(server: Server, name: str, *more: str) -> None:
    await manage(server, "user", "add", name, *more, "--password-stdin", stdin=f"{PASSWORD}\n")


async def page_of(browser: Browser, server: Server, problems: list[str]) -> Page:
    context = await browser.new_context(base_url=f"http://localhost:{server.port}")
    page = await context.new_page()
    page.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    return page


async def sign_in(page: Page, name: str) -> None:
    await page.goto("/sign-in/")
    await page.get_by_label("Username").fill(name)
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Sign in", exact=True).click()


async def open_account(page: Page, name: str) -> None:
    """Follows the console's link."""
    await page.get_by_role("link", name="Account").click()
    await expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()


async def sign_out(page: Page) -> None:
    await page.goto("/account/")
    await page.get_by_role("button", name="Sign out").first.click()
    await expect(page).to_have_title("Sign in – Crush server")


async def by_provider(page: Page) -> None:
    await page.goto("/sign-in/")
    await page.get_by_role("button", name="Sign in with Example Inc.").click()
    await expect(page).to_have_title("Provider")
    await page.get_by_role("link", name="Allow").click()


async def shot(page: Page, name: str) -> None:
    if folder := os.environ.get("SCREENSHOTS"):
        await page.screenshot(path=f"{folder}/{name}.png", full_page=True)


async def test_a_provider_signs_in_its_users_and_nobody_else(
    make_a_server: MakeServer, browser: Browser, provider: OidcProvider, tmp_path: Path
) -> None:
    server = await started(make_a_server, **oidc_env(provider, tmp_path))
    await add_user(server, "ann", "--email", "ann@example.com")
    problems: list[str] = []
    page = await page_of(browser, server, problems)
    await page.goto("/sign-in/")
    await shot(page, "sso-sign-in")
    await by_provider(page)
    await open_account(page, "ann")
    await sign_out(page)
    provider.person = {"sub": "2", "email": "eve@example.com", "email_verified": True}
    await by_provider(page)
    await expect(page.get_by_text("closed").first).to_be_visible()
    # An address that the provider has not verified is nobody's.
    provider.person = {"sub": "3", "email": "ann@example.com", "email_verified": False}
    await by_provider(page)
    await expect(page.get_by_text("closed").first).to_be_visible()
    await page.goto("/account/")
    await expect(page).to_have_title("Sign in – Crush server")
    assert provider.problems == []
    assert problems == []
    assert "sign in" in await manage(server, "audit")


async def test_new_people_get_an_account_without_rights_where_that_is_set(
    make_a_server: MakeServer, browser: Browser, provider: OidcProvider, tmp_path: Path
) -> None:
    env = oidc_env(provider, tmp_path) | {"CRUSH_OIDC_SIGN_UP": "1"}
    server = await started(make_a_server, **env)
    provider.person |= {"sub": "2", "preferred_username": "eve", "email": "eve@example.com"}
    page = await page_of(browser, server, [])
    await by_provider(page)
    await open_account(page, "eve")
    await expect(page.get_by_text("You have no role yet.")).to_be_visible()


def code_for(secret: str, *, periods: int = 0) -> str:
    """The code of RFC 6238 for now, or for some periods of 30 s later."""
    counter = int(time.time()) // 30 + periods
    key = base64.b32decode(secret + "=" * (-len(secret) % 8))
    digest = hmac.digest(key, counter.to_bytes(8, "big"), "sha1")
    offset = digest[-1] & 15
    number = int.from_bytes(digest[offset : offset + 4], "big") & 0x7FFF_FFFF
    return f"{number % 1_000_000:06}"


async def test_a_code_is_a_second_factor_also_for_the_administration(
    make_a_server: MakeServer, browser: Browser
) -> None:
    server = await started(make_a_server)
    await add_user(server, "boss", "--staff")
    problems: list[str] = []
    page = await page_of(browser, server, problems)
    await sign_in(page, "boss")
    await open_account(page, "boss")
    await page.get_by_role("link", name="Passkeys and second factors").click()
    await shot(page, "sso-factors")
    await page.goto("/accounts/2fa/totp/activate/")
    await page.get_by_label("Password").fill(PASSWORD)  # once more, before such a change
    await page.get_by_role("button", name="Confirm").click()
    secret = await page.locator("input[disabled]").input_value()
    await shot(page, "sso-totp")
    await page.locator("[name=code]").fill(code_for(secret))
    await page.get_by_role("button", name="Activate").click()
    await expect(page.get_by_text("recovery code").first).to_be_visible()
    await sign_out(page)
    await page.goto("/admin/")  # no way around it
    await expect(page).to_have_title("Sign in – Crush server")
    await sign_in(page, "boss")
    await expect(page.locator("[name=code]")).to_be_visible()
    await shot(page, "sso-code")
    for address in ("/account/", "/admin/"):  # the password alone is not enough
        await page.goto(address)
        await expect(page.locator("[name=code]")).to_be_visible()
    await page.locator("[name=code]").fill("000000")
    await page.get_by_role("button", name="Sign In").click()
    await expect(page.get_by_text("Incorrect code")).to_be_visible()
    await page.locator("[name=code]").fill(code_for(secret, periods=1))
    await page.get_by_role("button", name="Sign In").click()
    await open_account(page, "boss")
    assert problems == []
    await page.goto("/admin/")
    await expect(page.get_by_role("heading", name="Dashboard")).to_be_visible()
    assert "second factor" in await manage(server, "audit")


async def test_a_passkey_signs_in_without_a_password(
    make_a_server: MakeServer, browser: Browser
) -> None:
    server = await started(make_a_server)
    problems: list[str] = []
    page = await page_of(browser, server, problems)
    devtools = await page.context.new_cdp_session(page)
    await devtools.send("WebAuthn.enable")
    options = {
        "protocol": "ctap2",
        "transport": "internal",
        "hasResidentKey": True,
        "hasUserVerification": True,
        "isUserVerified": True,
        "automaticPresenceSimulation": True,
    }
    await devtools.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    await page.goto(await manage(server, "login-link"))  # the owner has no password
    await page.get_by_role("button", name="Sign in").click()
    await open_account(page, "owner")
    await page.goto("/accounts/2fa/webauthn/add/")
    await page.locator("[name=name]").fill("laptop")
    await page.locator("[name=passwordless]").check()
    await shot(page, "sso-passkey")
    await page.get_by_role("button", name="Add").click()
    await expect(page.get_by_text("recovery code").first).to_be_visible()
    await sign_out(page)
    await page.get_by_role("button", name="Sign in with a passkey").click()
    await open_account(page, "owner")
    assert problems == []


async def test_passwords_are_throttled_here_too(
    make_a_server: MakeServer, browser: Browser
) -> None:
    server = await started(make_a_server)
    await add_user(server, "ann")
    page = await page_of(browser, server, [])
    for _ in range(6):
        await page.goto("/sign-in/")
        await page.get_by_label("Username").fill("ann")
        await page.get_by_label("Password").fill("wrong")
        await page.get_by_role("button", name="Sign in", exact=True).click()
        await expect(page.get_by_role("alert")).to_be_visible()
    await expect(page.get_by_role("alert")).to_contain_text("Too many failed")
