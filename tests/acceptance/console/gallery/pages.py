"""Every page of the gallery: its address, and what a person opens on it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from playwright.async_api import Page, expect

from tests.acceptance.console.gallery import stories
from tests.acceptance.console.gallery.world import World

Prepare = Callable[[Page], Awaitable[None]]
SERVER_SECTIONS = [
    "appearance",
    "notifications",
    "phone",
    "tokens",
    "grants",
    "trust",
    "users",
    "groups",
    "audit",
]
WORKSPACE_SECTIONS = [
    "models",
    "mcp",
    "lsp",
    "skills",
    "configuration",
    "approvals",
    "grants",
    "trust",
    "members",
    "audit",
]


@dataclass(frozen=True)
class Shown:
    """A page by its name, which is the name of its picture."""

    name: str
    address: str
    prepare: Prepare


async def settled(page: Page) -> None:
    """Until the console shows a page that waits for nothing."""
    await expect(page.locator("#content").get_by_role("heading").first).to_be_visible()
    await expect(page.get_by_text("Loading…")).to_have_count(0)


async def opened(page: Page) -> None:
    """A session with all its calls, thoughts and notes open."""
    await expect(page.locator("c-message").last).to_be_visible()
    await page.evaluate(
        "() => document.querySelectorAll('main details').forEach(it => it.open = true)"
    )
    for diff in await page.locator("c-file-change").all():
        await expect(diff.locator(".diff-line").first).to_be_attached()


def said(text: str) -> Prepare:
    async def wait(page: Page) -> None:
        await expect(page.get_by_text(text).last).to_be_visible()

    return wait


async def card_shown(page: Page) -> None:
    await expect(page.locator(".request-card").get_by_role("button").last).to_be_enabled()


async def both_cards(page: Page) -> None:
    await expect(page.locator(".request-card")).to_have_count(2)


async def charted(page: Page) -> None:
    await expect(page.locator("canvas")).to_be_visible()


async def commented(page: Page) -> None:
    lines = page.get_by_role("button", name="Comment on line")
    await lines.first.wait_for()
    if await page.get_by_text(COMMENT).count():
        return
    await page.get_by_role("button", name="Comment on line 17").first.click()
    await page.get_by_label("Your comment on this line").fill(COMMENT)
    await page.get_by_role("button", name="Add comment").click()
    await expect(page.get_by_text(COMMENT)).to_be_visible()


async def with_folder_form(page: Page) -> None:
    await page.get_by_role("button", name="Open a folder").click()
    await expect(page.get_by_label("Folder", exact=True)).to_be_visible()


async def with_palette(page: Page) -> None:
    await settled(page)
    await page.keyboard.press("Control+k")
    await expect(page.get_by_role("option").first).to_be_visible()


async def with_keys(page: Page) -> None:
    await settled(page)
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()


async def found(page: Page) -> None:
    await expect(page.get_by_role("link", name="Prompt").first).to_be_visible()


async def plain(page: Page) -> None:
    """A page of the server, which is complete when it has loaded."""
    await page.wait_for_load_state("load")


async def with_documentation(page: Page) -> None:
    await expect(page.get_by_role("heading", name="Crush server").first).to_be_visible()


COMMENT = "Name the rounding in the docstring, too."


def console_pages(world: World) -> list[Shown]:
    of_shop = world.workspace("shop-api")
    return [
        Shown("board", "/", said(stories.STORIES[stories.ROUND].title)),
        Shown("board-open-folder", "/", with_folder_form),
        Shown("workspace", of_shop, said(stories.STORIES[stories.ROUND].title)),
        Shown("session", world.session("rounded"), said("as on receipts")),
        Shown("session-open", world.session("rounded"), opened),
        Shown("session-tools", world.session("tools"), opened),
        Shown("session-working", world.session("working"), said("each of them")),
        Shown("session-failed", world.session("failed"), said("longer than the model accepts")),
        Shown("session-permission", world.session("waiting"), card_shown),
        Shown("session-questions", world.session("asking"), card_shown),
        Shown("session-new", world.session("empty"), said("Send the first prompt.")),
        Shown("changes", f"{world.session('rounded')}/changes", commented),
        Shown("changes-none", f"{world.session('explained')}/changes", settled),
        Shown("inbox", "/inbox", both_cards),
        Shown("search", "/search?q=cart+total", found),
        Shown("search-nothing", "/search?q=submarine", said("Nothing has all of these words.")),
        Shown("search-empty", "/search", settled),
        Shown("usage", "/usage", charted),
        *(Shown(f"settings-{it}", f"/settings/{it}", settled) for it in SERVER_SECTIONS),
        *(
            Shown(f"workspace-settings-{it}", f"{of_shop}/settings/{it}", settled)
            for it in WORKSPACE_SECTIONS
        ),
        Shown("palette", "/", with_palette),
        Shown("keys", "/", with_keys),
        Shown("unknown-page", "/w/a/b/c", settled),
        Shown("unknown-workspace", "/w/nowhere", settled),
        Shown("unknown-session", f"{of_shop}/s/nowhere", settled),
    ]


def server_pages() -> list[Shown]:
    """What Django shows: accounts, the admin, the documentation of the interface."""
    return [
        Shown("account", "/account/", plain),
        Shown("password", "/account/password/", plain),
        Shown("admin", "/admin/", plain),
        Shown("admin-sessions", "/admin/workspaces/session/", plain),
        Shown("admin-runs", "/admin/agents/run/", plain),
        Shown("admin-users", "/admin/auth/user/", plain),
        Shown("api-docs", "/api/docs", with_documentation),
    ]


def signed_out_pages() -> list[Shown]:
    return [
        Shown("sign-in", "/sign-in/?next=/", plain),
        Shown("sign-in-link", "/sign-in/link/", plain),
        Shown("admin-sign-in", "/admin/login/", plain),
    ]
