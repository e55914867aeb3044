"""`python -m tests.bench.web`: the console in Chromium, against the real server and a scripted model.

Every visit has an empty cache. All times are the browser's own; a word's lag ends after the frame
that shows it.
"""

import argparse
import asyncio
import io
import json
import os
import statistics
import sys
import tempfile
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, CDPSession, Page

from tests.acceptance.conversation import Seat, take_seat
from tests.acceptance.harness.browser import chromium
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.commands import command
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.project import make_project
from tests.acceptance.harness.shapes import Shape, make_server
from tests.bench.distribution import distribution
from tests.bench.first_answer import first_answer

SHEETS = ("console/styles/console.css", "console/vendor/uplot.css")  # others are parts of the first
RUNS, LONG = 5, 10_000
STREAMS, WORDS, GAP_MS = 4, 200, 20
HEAP_WORDS, HEAP_REPLIES = 1_000, 90  # 50 words a second for 30 minutes

# Notes the first frame in which a prompt can be sent, and defines what waits for a frame.
INIT = """
(() => {
  const note = () => {
    const button = document.querySelector("c-composer button.primary");
    if (button && !button.disabled) window.usableAt = performance.now();
    else requestAnimationFrame(note);
  };
  requestAnimationFrame(note);
  window.afterFrame = () => new Promise((resolve) => requestAnimationFrame(() => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => resolve(performance.now());
    channel.port2.postMessage(null);
  }));
})()
"""
PAINTED = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
# Follows a link to a session, and returns when a frame has shown its newest message.
OPENED = """
async ([address, text]) => {
  const link = document.createElement("a");
  link.href = address;
  document.body.append(link);
  const began = performance.now();
  link.click();
  link.remove();
  for (;;) {
    const at = await window.afterFrame();
    if (document.querySelector(".transcript")?.textContent.includes(text)) return at - began;
    if (performance.now() - began > 20000) return -1;
  }
}
"""
# Each change of the page is made before a frame; the message comes after that frame.
WATCH_WORDS = """
() => {
  window.lags = [];
  let newest = Date.now() * 1000;  // words of earlier replies do not count
  const channel = new MessageChannel();
  channel.port1.onmessage = () => {
    const now = (performance.timeOrigin + performance.now()) * 1000;
    const texts = document.querySelectorAll("article.assistant c-markdown");
    for (const [, stamp] of (texts[texts.length - 1]?.textContent ?? "").matchAll(/@([0-9]{16})/g)) {
      if (Number(stamp) <= newest) continue;
      newest = Number(stamp);
      window.lags.push((now - newest) / 1000);
    }
  };
  window.watcher = new MutationObserver(() => channel.port2.postMessage(null));
  window.watcher.observe(document.querySelector(".messages"), { childList: true, subtree: true, characterData: true });
}
"""
LAGS = "() => { window.watcher.disconnect(); return window.lags; }"


@dataclass
class Load:
    """What a visit loaded, by address."""

    sizes: dict[str, int] = field(default_factory=dict)
    _addresses: dict[str, str] = field(default_factory=dict)

    def watch(self, cdp: CDPSession) -> None:
        cdp.on("Network.requestWillBeSent", self._sent)
        cdp.on("Network.loadingFinished", self._finished)

    def _sent(self, event: dict[str, Any]) -> None:
        self._addresses[event["requestId"]] = event["request"]["url"].split("?")[0]

    def _finished(self, event: dict[str, Any]) -> None:
        address = self._addresses.get(event["requestId"], "?")
        # What comes from the browser's memory has no size.
        self.sizes[address] = self.sizes.get(address, 0) + int(event["encodedDataLength"])

    def total(self, fits: Callable[[str], bool] = lambda _: True) -> float:
        return sum(size for address, size in self.sizes.items() if fits(address)) / 1000


@dataclass
class Bench:
    browser: Browser
    url: str
    seat: Seat
    cookies: Any = None

    def address(self, session: str) -> str:
        return f"/w/{self.seat.workspace.id}/s/{session}"

    async def sign_in(self, link: str) -> None:
        context = await self.browser.new_context(base_url=self.url)
        page = await context.new_page()
        await page.goto(link)
        await page.get_by_role("button", name="Sign in").click()
        await page.get_by_role("navigation", name="Main").wait_for()
        self.cookies = await context.storage_state()
        await context.close()

    async def visit(self, path: str, load: Load | None = None) -> tuple[Page, CDPSession]:
        """A page of a browser with an empty cache."""
        context = await self.browser.new_context(
            base_url=self.url,
            storage_state=self.cookies,
            viewport={"width": 1440, "height": 900},
            service_workers="block",
        )
        page = await context.new_page()
        cdp = await context.new_cdp_session(page)
        await cdp.send("Network.enable")
        await cdp.send("Performance.enable")
        if load is not None:
            load.watch(cdp)
        await page.add_init_script(INIT)
        await page.goto(path, wait_until="networkidle")
        return page, cdp

    async def prompt(self, session: str, text: str) -> None:
        run_id = str(uuid.uuid4())
        await self.seat.workspace.prompt(session, text, run_id)
        await self.seat.stream.run_complete(session, run_id, timeout=300)


async def metrics(cdp: CDPSession) -> dict[str, float]:
    answer = await cdp.send("Performance.getMetrics")
    return {each["name"]: each["value"] for each in answer["metrics"]}


async def processor_seconds(browser: CDPSession) -> float:
    """What the main threads of all pages have used: a crowded machine does not change it (Linux)."""
    info = await browser.send("SystemInfo.getProcessInfo")
    used = 0
    for process in info["processInfo"]:
        path = Path(f"/proc/{process['id']}/task/{process['id']}/schedstat")
        if process["type"] == "renderer" and path.exists():
            used += int(path.read_text().split()[0])
    return used / 1e9


async def heap(cdp: CDPSession) -> float:
    """Megabytes in use after a garbage collection."""
    for _ in range(3):
        await cdp.send("HeapProfiler.collectGarbage")
    return (await metrics(cdp))["JSHeapUsedSize"] / 1e6


def imported(count: int) -> io.BytesIO:
    """A session of so many messages, as an export has it."""
    lines: list[Any] = [{"type": "session", "version": 1, "session": {"id": "s", "title": "long"}}]
    for number in range(1, count + 1):
        text = f"message {number} " + "of *many* plain words " * (10 + number * 7 % 30)
        parts: list[Any] = [{"type": "text", "data": {"text": text}}]
        if number % 2 == 0:
            parts.append({"type": "finish", "data": {"reason": "end_turn", "time": number}})
        role = ("assistant", "user")[number % 2]
        message = {"id": f"m{number}", "session_id": "s", "role": role, "parts": parts}
        lines.append({"type": "message", "message": message})
    lines.append({"type": "end", "sessions": 1, "messages": count})
    return io.BytesIO("\n".join(map(json.dumps, lines)).encode())


def row(title: str, value: float, limit: float | None, unit: str) -> None:
    mark = "!" if limit is not None and value > limit else " "
    bound = "" if limit is None else f"{limit:g}"
    print(f"{title:<52}{value:>9.1f}{mark} {unit:<4}{bound:>6}", flush=True)


async def login_link(env: Mapping[str, str]) -> str:
    return str((await asyncio.to_thread(command, env, "login-link")).out.strip())


async def first_visits(bench: Bench, env: Mapping[str, str], folder: Path) -> None:
    took = [await first_answer(bench.browser, await login_link(env), folder) for _ in range(RUNS)]
    row("from the printed link to the first answer", statistics.median(took), 10, "s")


async def first_loads(bench: Bench, session: str) -> None:
    painted, usable, loads, work = [], [], [], []
    browser = await bench.browser.new_browser_cdp_session()
    for _ in range(RUNS):
        load = Load()
        before = await processor_seconds(browser)
        page, _ = await bench.visit(bench.address(session), load)
        await page.wait_for_function("() => window.usableAt > 0")
        painted.append(float(await page.evaluate(PAINTED)))
        usable.append(float(await page.evaluate("() => window.usableAt")))
        work.append(1000 * (await processor_seconds(browser) - before))
        loads.append(load)
        await page.context.close()
    load = loads[-1]
    row("first paint", statistics.median(painted), 300, "ms")
    row("interactive: a prompt can be sent", statistics.median(usable), 600, "ms")
    row("  processor time of the main thread", statistics.median(work), None, "ms")
    row("first load of a session", load.total(), 90, "kB")
    row("  of it programs", load.total(lambda name: name.endswith(".js")), None, "kB")
    row("  of it styles", load.total(lambda name: name.endswith(".css")), None, "kB")
    row("  requests", len(load.sizes), None, "")
    for address, size in sorted(load.sizes.items(), key=lambda each: -each[1])[:8]:
        row(f"    {address.rsplit('/', 1)[-1][:44]}", size / 1000, None, "kB")


async def everything(bench: Bench, data_dir: Path) -> None:
    """Every file that a browser may load, in one visit."""
    load = Load()
    page, _ = await bench.visit("/", load)
    row("first load of the board", load.total(), 90, "kB")
    manifest = json.loads((data_dir / "static" / "staticfiles.json").read_text())
    addresses = [
        f"/static/{hashed}"
        for name, hashed in manifest["paths"].items()
        if name.startswith("console/")
        and name.endswith((".js", ".css", ".svg"))
        and (not name.endswith(".css") or name in SHEETS)
    ]
    script = "(all) => Promise.all(all.map(async (each) => (await fetch(each)).arrayBuffer()))"
    await page.evaluate(script, addresses)
    await page.wait_for_load_state("networkidle")
    row("every file of the console", load.total(lambda name: "/static/console/" in name), 180, "kB")
    row("  files", len(addresses), None, "")
    await page.context.close()


async def opening(bench: Bench, long: str, other: str) -> None:
    first, later = [], []
    for _ in range(RUNS):
        page, _ = await bench.visit("/")
        target = [bench.address(long), f"message {LONG} "]
        first.append(float(await page.evaluate(OPENED, target)))
        await page.evaluate(OPENED, [bench.address(other), "word1"])
        later.append(float(await page.evaluate(OPENED, target)))
        await page.context.close()
    row(f"{LONG:,} messages, from the click: first session", statistics.median(first), 150, "ms")
    row(f"{LONG:,} messages, from the click: a later one", statistics.median(later), 150, "ms")


async def streaming(bench: Bench, long: str) -> None:
    sessions = [long] + [await bench.seat.workspace.session(f"s{n}") for n in range(STREAMS - 1)]
    text = f"[[n={WORDS} d={GAP_MS} stamp]]"

    async def all_at_once() -> None:
        async with asyncio.TaskGroup() as tasks:
            for session in sessions:
                tasks.create_task(bench.prompt(session, text))

    middle, high, busy, work = [], [], [], []
    browser = await bench.browser.new_browser_cdp_session()
    page, cdp = await bench.visit(bench.address(long))
    await all_at_once()  # warms the page and the server
    for _ in range(RUNS):
        await page.evaluate(WATCH_WORDS)
        await all_at_once()
        found = distribution(await page.evaluate(LAGS))
        if found is None or found.count < WORDS * 0.9:
            raise SystemExit(f"of {WORDS} words only these were seen: {found}")
        middle.append(found.p50)
        high.append(found.p99)
        # The watcher reads the page's text, so the processor time is measured without it.
        before, used = await metrics(cdp), await processor_seconds(browser)
        await all_at_once()
        after, used = await metrics(cdp), await processor_seconds(browser) - used
        seconds = after["Timestamp"] - before["Timestamp"]
        busy.append(100 * (after["TaskDuration"] - before["TaskDuration"]) / seconds)
        work.append(100 * used / seconds)
    name = f"{STREAMS} streams at {1000 // GAP_MS} words/s"
    row(f"{name}: word to pixel, p50", statistics.median(middle), 35, "ms")
    row(f"{name}: word to pixel, p99", statistics.median(high), 80, "ms")
    row(f"{name}: main thread busy", statistics.median(busy), 15, "%")
    row("  of it processor time", statistics.median(work), None, "%")
    await page.context.close()


async def heap_growth(bench: Bench, long: str) -> None:
    page, cdp = await bench.visit(bench.address(long))
    text = f"[[n={HEAP_WORDS} id=heap]]"
    for _ in range(5):
        await bench.prompt(long, text)
    before = await heap(cdp)
    for _ in range(HEAP_REPLIES):
        await bench.prompt(long, text)
    await page.evaluate("() => window.afterFrame()")
    after = await heap(cdp)
    row(f"heap growth over {HEAP_REPLIES * HEAP_WORDS:,} words", after - before, 5, "MB")
    row("  heap at the end", after, None, "MB")
    await page.context.close()


async def measure(folder: Path, figures: list[str]) -> None:
    with ExitStack() as stack:
        model = ScriptedModel(folder / "model.log")
        model.start()
        stack.callback(model.stop)
        server = make_server(Shape.EMBEDDED, folder / "server")
        stack.callback(server.close)
        server.start()
        async with Client(server.url) as client, chromium() as browser:
            project = make_project(folder / "project", model.base_url)
            seat = await take_seat(client, project)
            bench = Bench(browser, f"http://localhost:{server.port}", seat)
            await bench.sign_in(await login_link(server.env))
            short = await seat.workspace.session("short")
            await bench.prompt(short, "Say a few words [[n=30]]")
            made = await client.http.call(
                "POST",
                f"/api/workspaces/{seat.workspace.id}/sessions/import",
                imported(LONG),
                expect=201,
                headers={"Content-Type": "application/x-ndjson"},
            )
            long = str(made["id"])
            print(f"{'figure':<52}{'median':>9}       limit\n{'-' * 74}")
            if "first_answer" in figures:
                await first_visits(bench, server.env, project)
            if "load" in figures:
                await first_loads(bench, short)
                await everything(bench, server.data_dir)
            if "open" in figures:
                await opening(bench, long, short)
            if "stream" in figures:
                await streaming(bench, long)
            if "heap" in figures:
                await heap_growth(bench, long)
    print(f"\nLoad of the machine: {os.getloadavg()[0]:.1f}.")


def main() -> int:
    names = ["first_answer", "load", "open", "stream", "heap"]
    parser = argparse.ArgumentParser(prog="python -m tests.bench.web", description=__doc__)
    parser.add_argument("--figure", nargs="+", choices=names, default=names)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="crush-web-") as folder:
        asyncio.run(measure(Path(folder), options.figure))
    return 0


if __name__ == "__main__":
    sys.exit(main())
