"""`python -m tests.bench.memory`: whether a server's memory comes back after large requests.

Each load gets a fresh server. Printed are the resident memory before the load, its peak while the
load lasts, and 10 s after its end, with the limit of 60 MB above where it was.
"""

import argparse
import asyncio
import io
import os
import shutil
import tempfile
import urllib.request
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import orjson
import psutil

from tests.acceptance.attaching import attached, with_sight
from tests.acceptance.conversation import Seat, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.project import make_project
from tests.acceptance.harness.shapes import Server, Shape, make_server

MEGABYTE = 1024 * 1024
SETTLE_SECONDS = 10
LIMIT_MB = 60
PICTURE_BYTES = 3_500_000


@dataclass
class Ground:
    """What a load has to work with."""

    server: Server
    model: ScriptedModel
    client: Client
    project: Path


async def refused_bodies(ground: Ground, count: int = 5) -> None:
    """Bodies of 31 MB that hold millions of empty lists, each refused."""
    body = b"[" + b"[]," * (31 * MEGABYTE // 3) + b"[]]"
    for _ in range(count):
        await _send("POST", ground.client, "/v1/workspaces", body, expect=400)


async def ignored_fields(ground: Ground, count: int = 60) -> None:
    """Renames of a session, each with a field of 20 MB that no endpoint reads."""
    seat = await take_seat(ground.client, ground.project)
    session = await seat.workspace.session()
    path = f"/v1/workspaces/{seat.workspace.id}/sessions/{session}"
    ignored = b"x" * (20 * MEGABYTE)
    for number in range(count):
        body = b'{"id":"%s","title":"t%d","ignored":"%s"}' % (session.encode(), number, ignored)
        await _send("PUT", ground.client, path, body, expect=200)


async def pictures_in_one_session(ground: Ground, count: int = 40) -> None:
    """Prompts of one session with a picture of 3.5 MB each."""
    seat = await take_seat(ground.client, ground.project)
    session = await seat.workspace.session()
    for number in range(count):
        await _send_picture(ground, seat, session, f"p{number}")


async def a_picture_in_each_session(ground: Ground, count: int = 25) -> None:
    """Sessions with one picture of 3.5 MB each."""
    seat = await take_seat(ground.client, ground.project)
    for number in range(count):
        await _send_picture(ground, seat, await seat.workspace.session(), f"s{number}")


LOADS: dict[str, Callable[..., Awaitable[None]]] = {
    load.__name__.replace("_", "-"): load
    for load in (
        refused_bodies,
        ignored_fields,
        pictures_in_one_session,
        a_picture_in_each_session,
    )
}


async def _send_picture(ground: Ground, seat: Seat, session: str, run_id: str) -> None:
    picture = attached("shot.png", "image/png", b"\x89PNG\r\n\x1a\n" + os.urandom(PICTURE_BYTES))
    prompt = {
        "session_id": session,
        "prompt": "look [[n=3]]",
        "run_id": run_id,
        "attachments": [picture],
    }
    path = f"/v1/workspaces/{seat.workspace.id}/agent"
    await _send("POST", ground.client, path, orjson.dumps(prompt), expect=202)
    await seat.stream.run_complete(session, run_id, timeout=120)
    seat.stream.events.clear()
    await asyncio.to_thread(_forget_requests, ground.model)


def _forget_requests(model: ScriptedModel) -> None:
    urllib.request.urlopen(urllib.request.Request(f"{model.url}/served", method="DELETE")).close()


async def _send(method: str, client: Client, path: str, body: bytes, *, expect: int) -> None:
    headers = {"Content-Type": "application/json"}
    async with client.http.session.request(
        method, client.http.url + path, data=io.BytesIO(body), headers=headers
    ) as answer:
        assert answer.status == expect, await answer.text()


class Sampler:
    """The greatest resident memory of a process while it is watched."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self.peak = self.now()

    def now(self) -> float:
        return float(self._process.memory_info().rss) / MEGABYTE

    async def watch(self) -> None:
        while True:
            self.peak = max(self.peak, self.now())
            await asyncio.sleep(0.02)


async def measure(name: str, model: ScriptedModel, folder: Path, sees: bool) -> None:
    server = make_server(Shape.EMBEDDED, folder / "server")
    providers = with_sight(model.base_url, sees)
    project = make_project(folder / "project", model.base_url, providers=providers)
    server.start()
    try:
        async with Client(server.url) as client:
            ground = Ground(server, model, client, project)
            await warm(ground)
            sampler = Sampler(server.pids()[0])
            before = sampler.now()
            watching = asyncio.create_task(sampler.watch())
            await LOADS[name](ground)
            watching.cancel()
            ended = sampler.now()
            await asyncio.sleep(SETTLE_SECONDS)
            after = sampler.now()
            mark = "!" if after - before > LIMIT_MB else " "
            print(
                f"{name:28} before {before:6.0f}  peak {sampler.peak:6.0f}  at the end {ended:6.0f}"
                f"  {SETTLE_SECONDS} s later {after:6.0f} MB  (+{after - before:.0f}, at most"
                f" {LIMIT_MB}){mark}",
                flush=True,
            )
    finally:
        server.close()


async def warm(ground: Ground) -> None:
    seat = await take_seat(ground.client, ground.project)
    session = await seat.workspace.session()
    for number in range(5):
        await seat.workspace.prompt(session, "warm [[n=3]]", f"warm{number}")
        await seat.stream.run_complete(session, f"warm{number}")
    await seat.stream.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.memory", description=__doc__)
    parser.add_argument("--load", nargs="+", choices=[*LOADS], default=[*LOADS], metavar="NAME")
    parser.add_argument("--blind", action="store_true", help="a model that takes no pictures")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="crush-memory-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        model = ScriptedModel(folder / "model.log")
        model.start()
        stack.callback(model.stop)
        for name in options.load:
            asyncio.run(measure(name, model, folder / name, not options.blind))


if __name__ == "__main__":
    main()
