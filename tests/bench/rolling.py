"""`python -m tests.bench.rolling`: restarts every process in turn while runs stream and call tools.

Prints how many runs were interrupted, how often a command ran, and the longest pause between two
words of a run, or until its reply began again, as clients see it that follow all restarts. In the
scaled shape there are two web processes and two workers, and a client of each web process, whose
balancer takes the other one while the first is away. With `--kill` a worker is killed instead, and
the pause until each of its runs goes on is printed.
"""

import argparse
import asyncio
import json
import shutil
import tempfile
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from crushclient import Client, LogEvent, MessageState, NewText, RetryPolicy, StreamItem
from tests.acceptance.conversation import take_seat
from tests.acceptance.harness.client import Client as Harness
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.processes import Process
from tests.acceptance.harness.project import make_project
from tests.acceptance.harness.services import Services
from tests.acceptance.harness.shapes import Server, Shape, make_server
from tests.doubles.tcp_proxy import TcpProxy

WORDS, GAP_MS, STEPS = 1_500, 20, 20
LIMIT_SECONDS = 5.0
START_SECONDS = 90
END_SECONDS = 400
PATIENT = {"CRUSH_SERVER_CREATE_GRACE": "600", "CRUSH_SERVER_DETACH_GRACE": "600"}
HASTY = RetryPolicy(attempts=400, first_seconds=0.02, limit_seconds=0.5)


@dataclass
class Pauses:
    """When each session's words came."""

    talking: frozenset[str]
    last: dict[str, float] = field(default_factory=dict)
    longest: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    outcomes: list[str] = field(default_factory=list)
    sessions: dict[str, str] = field(default_factory=dict)  # by message

    def take(self, item: StreamItem) -> None:
        match item:
            case NewText():
                self._moved(item.session_id)
            case MessageState():
                self._moved(item.message["session_id"])
            case LogEvent() if item.type == "run.finished":
                run = item.data["run"]
                self.outcomes.append(run["outcome"])
                self.last.pop(run["session_id"], None)

    def _moved(self, session: str) -> None:
        if session not in self.talking:
            return
        now = time.monotonic()
        if (before := self.last.get(session)) is not None:
            self.longest[session] = max(self.longest[session], now - before)
        self.last[session] = now


async def measure(server: Server, project: Path, *, runs: int, kills: bool) -> None:
    async with Harness(server.url) as harness:
        seat = await take_seat(harness, project, yolo=True)
        workspace = seat.workspace
        talking = [await workspace.session() for _ in range(runs)]
        calling = [] if kills else [await workspace.session() for _ in range(runs)]
        clients = [Pauses(frozenset(talking)) for _ in server.urls]
        async with balanced(server.urls) as addresses:
            reading = [
                asyncio.create_task(follow(address, workspace.id, project, pauses))
                for address, pauses in zip(addresses, clients, strict=True)
            ]
            for session in talking:
                await workspace.prompt(session, f"[[n={WORDS} d={GAP_MS}]]")
            for number, session in enumerate(calling):
                calls = " ;; ".join(marking(f"{number}.{step}") for step in range(STEPS))
                await workspace.prompt(session, f"[[calls={calls}]] [[n=3]]")
            await until(lambda: all(len(pauses.last) == runs for pauses in clients))
            began = time.monotonic()
            if kills:
                await asyncio.to_thread(server.processes("worker")[0].kill9)
            else:
                for process in server.processes():
                    await asyncio.to_thread(restart, process)
            took = time.monotonic() - began
            ends = len(talking) + len(calling)
            await until(lambda: all(len(pauses.outcomes) == ends for pauses in clients))
            for task in reading:
                task.cancel()
            await asyncio.gather(*reading, return_exceptions=True)
    for number, pauses in enumerate(clients, 1):
        report(f"client {number}", pauses)
    report_commands(project / "marks", expected=len(calling) * STEPS)
    print(f"restarts took        {took:.1f} s", flush=True)


@asynccontextmanager
async def balanced(urls: list[str]) -> AsyncIterator[list[str]]:
    """An address for each web process, which leads to another one while that is away."""
    ports = [int(url.rpartition(":")[2]) for url in urls]
    proxies = [TcpProxy("127.0.0.1", *ports[n:], *ports[:n]) for n in range(len(ports))]
    try:
        yield [f"http://127.0.0.1:{proxy.port}" for proxy in proxies]
    finally:
        for proxy in proxies:
            proxy.close()


async def follow(url: str, workspace_id: str, path: Path, pauses: Pauses) -> None:
    client_id = str(uuid.uuid4())
    async with (
        Client(url, retry=HASTY) as client,
        client.stream(workspace_id, client_id=client_id, path=str(path)) as stream,
    ):
        async for item in stream:
            pauses.take(item)


def marking(mark: str) -> str:
    command = {"command": f"echo {mark} >> marks; sleep 1", "description": "mark"}
    return f"bash {json.dumps(command)}"


def restart(process: Process) -> None:
    code = process.stop(timeout=120)
    if code != 0:
        raise process.failure(f"ended with {code}")
    process.start()
    process.wait_for_line("Serving|Working", START_SECONDS)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(END_SECONDS):
        while not holds():
            await asyncio.sleep(0.05)


def report(client: str, pauses: Pauses) -> None:
    longest = sorted(pauses.longest.values())
    flag = "!" if longest[-1] > LIMIT_SECONDS else " "
    print(f"{client:<20} {dict(Counter(pauses.outcomes))}")
    print(
        f"  longest pause      {longest[-1]:.2f} s (median {longest[len(longest) // 2]:.2f})"
        f"  at most {LIMIT_SECONDS:g}{flag}"
    )


def report_commands(marks: Path, *, expected: int) -> None:
    counted = Counter(marks.read_text().split() if marks.exists() else [])
    twice = sum(count > 1 for count in counted.values())
    print(f"commands             {len(counted)} of {expected} ran, {twice} of them twice")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.rolling", description=__doc__)
    parser.add_argument("--shape", choices=[*Shape], default=Shape.SCALED, type=Shape)
    parser.add_argument("--runs", type=int, default=50, help="of each kind (default: 50)")
    parser.add_argument("--drain", default="60", help="seconds (default: 60)")
    parser.add_argument("--kill", action="store_true", help="kill a worker instead")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="crush-rolling-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        model = ScriptedModel(folder / "model.log")
        model.start()
        stack.callback(model.stop)
        services = Services(folder) if options.shape is Shape.SCALED else None
        if services is not None:
            services.start()
            stack.callback(services.stop)
        server = make_server(
            options.shape,
            folder / "server",
            env={**PATIENT, "CRUSH_DRAIN": options.drain},
            services=services,
            webs=2,
            workers=2,
        )
        stack.callback(server.close)
        server.start()
        project = make_project(folder / "project", model.base_url)
        asyncio.run(measure(server, project, runs=options.runs, kills=options.kill))


if __name__ == "__main__":
    main()
