"""`python -m tests.bench.servers`: the same application behind our own server layer, Uvicorn and Daphne.

Each run starts each of them anew with the same load, one after the other, so that all meet the same
machine. Prints the medians of the runs as a table for `docs/where-we-leave-django.md`.
"""

import argparse
import asyncio
import itertools
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import uvloop

from tests.acceptance.harness.environment import ROOT, server_environment
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.ports import free_port
from tests.acceptance.harness.processes import Process
from tests.acceptance.harness.project import make_project
from tests.bench.distribution import distribution
from tests.bench.http_client import HttpClient
from tests.bench.pacemaker import Pacemaker
from tests.bench.scenarios import words
from tests.bench.subjects import Running, answers
from tests.bench.usage import usage
from tests.bench.wires.crush_native import CrushNative
from tests.bench.wires.crush_v1 import CrushV1

APPLICATION = "crushsite.asgi:application"
COMMANDS = {
    "own layer": ["manage.py", "serve", "--host", "tcp://127.0.0.1:{port}"],
    "own layer, asyncio's loop": [
        "-c",
        "import sys; sys.modules['uvloop'] = None; sys.argv[0] = 'manage.py';"
        " from crushsite.__main__ import main; main()",
        *("serve", "--host", "tcp://127.0.0.1:{port}"),
    ],
    "uvicorn": [
        *("-m", "uvicorn", "--port", "{port}", "--log-level", "warning"),
        *("--timeout-graceful-shutdown", "2", APPLICATION),
    ],
    "daphne": ["-m", "daphne", "-v", "0", "-p", "{port}", APPLICATION],
}
GET = "/v1/health"
WARM_GETS = 500


@dataclass
class Taken:
    """The figures of one server in one run, by their row in the table."""

    rows: dict[str, float] = field(default_factory=dict)
    own_lateness_ms: float = 0.0


@contextmanager
def running(name: str, folder: Path, model_url: str) -> Iterator[Running]:
    port = free_port()
    process = Process(
        name,
        [sys.executable, *(part.format(port=port) for part in COMMANDS[name])],
        env=server_environment(folder / "home", folder / "data", {"CRUSH_TRUST": "all"}),
        cwd=ROOT,
        log=folder / "server.log",
    )
    project = make_project(folder / "project", model_url)
    process.start()
    try:
        url = f"http://127.0.0.1:{port}"
        answers(f"{url}{GET}")
        yield Running(url, [process.pid], project)
    finally:
        process.stop(30)


async def measure(server: Running, options: argparse.Namespace) -> Taken:
    taken = Taken()
    await _gets(server, taken, options.gets, options.connections)
    for title, wire in (("/v1", CrushV1(server.url)), ("WebSocket", CrushNative(server.url))):
        got = await words(wire, server, options.streams, options.readers)
        wire.close()
        lag = distribution(got.lag_ms)
        if lag is None or got.words_lost:
            raise RuntimeError(f"{title}: {got.words_lost} words never came")
        taken.rows[f"word to reader on {title}, p50 (ms)"] = lag.p50
        taken.rows[f"word to reader on {title}, p99 (ms)"] = lag.p99
        taken.rows[f"CPU per word on {title} (µs)"] = got.cpu_seconds / got.words * 1e6
        if got.own_lateness is not None:
            taken.own_lateness_ms = max(taken.own_lateness_ms, got.own_lateness.p99)
    return taken


async def _gets(server: Running, taken: Taken, count: int, connections: int) -> None:
    """Each connection sends its next request when it has the answer to the one before."""
    http = HttpClient(server.url)
    await http.warm(connections)
    for _ in range(WARM_GETS):
        await http.call("GET", GET)
    seconds: list[float] = []

    async def client() -> None:
        for _ in range(count // connections):
            _, taken_seconds = await http.call("GET", GET)
            seconds.append(taken_seconds)

    before = usage(server.pids)
    began = asyncio.get_running_loop().time()
    async with Pacemaker() as pacemaker:
        await asyncio.gather(*(client() for _ in range(connections)))
    wall = asyncio.get_running_loop().time() - began
    cpu = usage(server.pids).cpu_seconds - before.cpu_seconds
    http.close()
    lag = distribution(second * 1e3 for second in seconds)
    assert lag is not None
    taken.rows["small GETs a second"] = len(seconds) / wall
    taken.rows["small GET, p50 (ms)"] = lag.p50
    taken.rows["small GET, p99 (ms)"] = lag.p99
    taken.rows["CPU per small GET (µs)"] = cpu / len(seconds) * 1e6
    if pacemaker.lateness is not None:
        taken.own_lateness_ms = pacemaker.lateness.p99


def table(found: dict[str, list[Taken]]) -> str:
    lines = [f"| | {' | '.join(found)} |", "|---|" + "---:|" * len(found)]
    for row in next(iter(found.values()))[0].rows:
        cells = []
        for runs in found.values():
            values = [taken.rows[row] for taken in runs]
            spread = f" ({_shown(min(values))} to {_shown(max(values))})" if len(values) > 1 else ""
            cells.append(f"{_shown(median(values))}{spread}")
        lines.append(f"| {row} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.servers", description=__doc__)
    parser.add_argument("--server", nargs="+", choices=COMMANDS, default=list(COMMANDS))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--gets", type=int, default=5_000)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--streams", type=int, default=20, help="models that write at once")
    parser.add_argument("--readers", type=int, default=5, help="subscribers of all their words")
    options = parser.parse_args()
    found: dict[str, list[Taken]] = {name: [] for name in options.server}
    with tempfile.TemporaryDirectory(prefix="crush-servers-") as folder:
        model = ScriptedModel(Path(folder) / "model.log")
        model.start()
        try:
            numbers = itertools.count(1)
            for _ in range(options.runs):
                for name, runs in found.items():
                    place = Path(folder) / str(next(numbers))
                    place.mkdir()
                    with (
                        running(name, place, model.base_url) as server,
                        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
                    ):
                        runs.append(runner.run(measure(server, options)))
        finally:
            model.stop()
    print(table(found))
    late = max(taken.own_lateness_ms for runs in found.values() for taken in runs)
    load = os.getloadavg()[0]
    print(
        f"\nThe measuring process was up to {late:.1f} ms late (p99). Load of the machine: {load:.1f}."
    )


if __name__ == "__main__":
    main()
