"""Files that are pasted, dropped and refused in the composer."""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page, expect

from tests.acceptance.console.conftest import LAPTOP, PHONE, OpenConsole
from tests.acceptance.conversation import Seat
from tests.acceptance.harness.browser import overflow
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.shapes import Server

Address = Callable[[str], str]

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
GIVE = """([selector, kind, files]) => {
    const transfer = new DataTransfer();
    for (const {name, type, base64 = "", size = 0} of files) {
        const bytes = size ? new Uint8Array(size).fill(65) : Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
        transfer.items.add(new File([bytes], name, {type}));
    }
    const options = {bubbles: true, cancelable: true};
    const event = kind === "paste"
        ? new ClipboardEvent("paste", {...options, clipboardData: transfer})
        : new DragEvent(kind, {...options, dataTransfer: transfer});
    document.querySelector(selector).dispatchEvent(event);
    return event.defaultPrevented;
}"""


async def give(page: Page, kind: str, *files: Any, to: str = "c-composer textarea") -> bool:
    """Pastes, drags or drops files as a browser does; returns whether the page took the event."""
    return bool(await page.evaluate(GIVE, [to, kind, files]))


def file(name: str, content: bytes, kind: str = "") -> dict[str, str]:
    return {"name": name, "type": kind, "base64": base64.b64encode(content).decode()}


PICTURE = {"name": "dot.png", "type": "image/png", "base64": PNG}


@pytest.mark.timeout(180)
async def test_pasted_and_dropped_files_go_with_the_prompt(
    embedded_server: Server,
    seat: Seat,
    open_console: OpenConsole,
    address: Address,
    model: ScriptedModel,
) -> None:
    session = await seat.workspace.session("files")
    page = await open_console(embedded_server, address(session), width=PHONE)
    field = page.get_by_label("Your prompt")
    attached = page.get_by_role("list", name="Attached files")
    await expect(field).to_be_visible()
    assert await give(page, "paste", PICTURE)
    await expect(attached.locator("img")).to_have_js_property("naturalWidth", 1)
    # A drag shows where it may end, and a file that is dropped elsewhere does not replace the page.
    source = file("Makefile", b"all: \xc3\xa4\n", "video/mp2t")
    assert await give(page, "dragover", source, to=".transcript")
    await expect(page.locator(".composer")).to_have_class("composer dropping")
    assert await give(page, "drop", source, to=".transcript")
    await expect(page.locator(".composer")).not_to_have_class("composer dropping")
    assert await give(page, "drop", file("gone.txt", b"x"))
    await expect(attached.get_by_role("listitem")).to_contain_text(["dot.png", "Makefile", "gone"])
    await attached.get_by_role("button", name="Remove gone.txt").click()
    await expect(field).to_be_focused()
    assert await overflow(page) == 0
    # Text that is pasted stays text.
    assert not await give(page, "paste")

    await field.press("Enter")
    problem = page.locator(".toast.wrong").filter(has_text="Write what should be done")
    await expect(problem).to_have_count(0)  # a text file is a prompt by itself
    await expect(page.locator("article.assistant")).to_have_attribute("aria-busy", "false")
    await expect(attached).to_have_count(0)
    prompt = page.locator("article.user")
    await expect(prompt.locator("c-picture img")).to_have_js_property("naturalWidth", 1)
    await expect(prompt.get_by_text("Makefile")).to_be_visible()
    parts = (await seat.workspace.messages(session))[0]["parts"]
    files = [part["data"] for part in parts if part["type"] == "binary"]
    assert [(each["Path"], each["MIMEType"]) for each in files] == [
        ("dot.png", "image/png"),
        ("Makefile", "text/plain"),
    ]
    assert files[0]["Data"] == PNG
    sent = json.dumps([model.request(entry["number"]) for entry in model.served("all: ")])
    assert PNG in sent or "cannot see images" in sent


@pytest.mark.timeout(180)
async def test_files_that_cannot_go_are_refused_with_a_sentence(
    embedded_server: Server, seat: Seat, open_console: OpenConsole, address: Address
) -> None:
    session = await seat.workspace.session("refused")
    page = await open_console(embedded_server, address(session))
    attached = page.get_by_role("list", name="Attached files")
    await expect(page.get_by_label("Your prompt")).to_be_visible()
    mebibyte = 1024 * 1024
    large = {"name": "big.log", "type": "text/plain", "size": 16 * mebibyte}
    halves = [{"name": f"{n}.txt", "type": "text/plain", "size": 12 * mebibyte} for n in range(2)]
    refused: list[tuple[str, list[Any], str]] = [
        ("paste", [large], "big.log is larger than 15.7 MB."),
        ("drop", halves, "The files of a prompt may have 23.1 MB together."),
        (
            "drop",
            [file(f"{n}.txt", b"x") for n in range(51)],
            "A prompt may have at most 50 files.",
        ),
        ("drop", [PICTURE, file("app.zip", b"PK\x03\x04\xff\x00")], "app.zip is neither text"),
        ("paste", [file("photo.heic", b"\x00\x00", "image/heic")], "photo.heic is neither text"),
        ("drop", [file("latin.txt", b"caf\xe9", "text/plain")], "latin.txt is neither text"),
    ]
    for kind, files, sentence in refused:
        assert await give(page, kind, *files)
        toast = page.locator(".toast.wrong").filter(has_text=sentence)
        await expect(toast).to_be_visible()
        await toast.get_by_role("button", name="Dismiss").click()
        await expect(attached).to_have_count(0)
    # A picture alone needs a sentence about it.
    assert await give(page, "paste", PICTURE)
    await expect(attached).to_contain_text("dot.png")
    await page.get_by_role("button", name="Send").click()
    await expect(page.locator(".toast.wrong")).to_contain_text("Write what should be done")
    await expect(attached).to_contain_text("dot.png")
    # The message is in a landmark; a live region, which is not shown, has it once for screen readers.
    shown = page.get_by_role("region", name="Messages")
    await expect(shown.get_by_role("listitem")).to_have_count(1)
    await expect(page.locator("[aria-live]").filter(has_text="Write what")).to_have_count(1)
    assert await shown.locator("[aria-live], [role=alert], [role=status]").count() == 0
    found = await Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("width", [PHONE, LAPTOP])
async def test_an_error_does_not_cover_the_button_that_sends(
    embedded_server: Server, seat: Seat, open_console: OpenConsole, address: Address, width: int
) -> None:
    session = await seat.workspace.session("covered")
    page = await open_console(embedded_server, address(session), width=width)
    await expect(page.get_by_label("Your prompt")).to_be_visible()
    for number in range(3):
        assert await give(page, "drop", file(f"{number}.zip", b"PK\x00"))
        await expect(page.locator(".toast.wrong")).to_have_count(number + 1)
    await page.get_by_label("Your prompt").fill("go on [[n=3]]")
    await page.get_by_role("button", name="Send").click(timeout=5000)
    await expect(page.locator("article.assistant")).to_have_attribute("aria-busy", "false")
