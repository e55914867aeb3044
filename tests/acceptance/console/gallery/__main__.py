"""`python -m tests.acceptance.console.gallery docs/pictures`: makes the README's pictures again."""

import argparse
import asyncio
import base64
import tempfile
from pathlib import Path

from playwright.async_api import Browser, Page, expect

from tests.acceptance.console.gallery.pages import (
    Shown,
    card_shown,
    charted,
    commented,
    said,
)
from tests.acceptance.console.gallery.world import World, furnished
from tests.acceptance.harness.browser import chromium
from tests.acceptance.harness.commands import command
from tests.acceptance.harness.shapes import Server, Shape, make_server

DESKTOP, TALL, PHONE = (1280, 800), (1280, 1000), (390, 844)
QUALITY = 82


async def edited(page: Page) -> None:
    """The conversation with the change of the file open."""
    await expect(page.get_by_text("as on receipts")).to_be_visible()
    call = page.locator("details.tool").filter(has_text="cart.py").filter(has_text="+4")
    await call.locator("summary").click()
    await expect(call.locator(".diff-line").first).to_be_visible()
    await page.locator(".transcript").evaluate("it => it.scrollTo(0, it.scrollHeight)")


def pictures(world: World) -> list[tuple[Shown, tuple[int, int]]]:
    return [
        (Shown("session", world.session("rounded"), edited), TALL),
        (Shown("board", "/", said("Publish the header")), DESKTOP),
        (Shown("permission", world.session("waiting"), card_shown), PHONE),
        (Shown("changes", f"{world.session('rounded')}/changes", commented), DESKTOP),
        (Shown("usage", "/usage", charted), DESKTOP),
    ]


async def take(browser: Browser, server: Server, shown: Shown, size: tuple[int, int]) -> bytes:
    page = await browser.new_page(
        base_url=f"http://localhost:{server.port}",
        viewport={"width": size[0], "height": size[1]},
        device_scale_factor=1.5,
        has_touch=size == PHONE,
        reduced_motion="reduce",
    )
    link = await asyncio.to_thread(command, server.env, "login-link")
    await page.goto(link.out.strip())
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("navigation", name="Main")).to_be_visible()
    await page.goto(shown.address)
    await shown.prepare(page)
    devtools = await page.context.new_cdp_session(page)
    made = await devtools.send(
        "Page.captureScreenshot", {"format": "webp", "quality": QUALITY, "optimizeForSpeed": False}
    )
    await page.context.close()
    return base64.b64decode(made["data"])


async def main(folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="work-") as scratch:
        server = make_server(Shape.EMBEDDED, Path(scratch) / "server")
        try:
            await asyncio.to_thread(server.start)
            async with furnished(server, Path(scratch)) as world, chromium() as browser:
                for shown, size in pictures(world):
                    picture = await take(browser, server, shown, size)
                    (folder / f"{shown.name}.webp").write_bytes(picture)
                    print(f"{shown.name}.webp: {len(picture) // 1000} kB")
        finally:
            await asyncio.to_thread(server.close)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("folder", type=Path)
asyncio.run(main(parser.parse_args().folder))
