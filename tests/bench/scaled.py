"""`python -m tests.bench.scaled`: two web processes and two workers, next to the embedded shape.

Measures both shapes in turns, so that they meet the same machine, and prints a table: completed
prompts a second, the time of an accept, of the first word and of words with 200 runs, the processor
time of a word over all processes (PostgreSQL and Redis included), statements of PostgreSQL for each
prompt, and the memory of each idle process. It asserts nothing.
"""

import argparse
import asyncio
import itertools
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import psycopg
import uvloop

from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.project import make_project
from tests.acceptance.harness.services import Services, missing_services
from tests.acceptance.harness.shapes import Server, Shape, make_server
from tests.bench import scenarios
from tests.bench.distribution import distribution
from tests.bench.subjects import Running
from tests.bench.usage import usage
from tests.bench.watch import Watch
from tests.bench.wires.crush_v1 import CrushV1

IDLE_SECONDS = 3.0
SHORT = "hi [[stamp]] [[n=5 d=0]]"
STATEMENTS = (
    "SELECT COALESCE(SUM(calls), 0), COALESCE(SUM(total_plan_time), 0),"
    " COALESCE(SUM(total_exec_time), 0) FROM pg_stat_statements"
)
# Limits of the scaled shape; None where there is none.
ROWS: dict[str, float | None] = {
    "prompts completed a second": 300,
    "  CPU of a prompt (ms)": None,
    "  statements of a prompt": None,
    "  PostgreSQL plans for a prompt (ms)": None,
    "  PostgreSQL executes for a prompt (ms)": None,
    "accept p50 (ms)": 2.5,
    "first word p50 (ms)": 9,
    "word, 200 runs, p99 (ms)": 40,
    "CPU of a word, 20 runs (µs)": 140,
    "CPU of a word, 200 runs (µs)": 140,
    "idle, largest process (MB)": 80,
}


@dataclass
class Subject:
    """A server of one of the shapes, freshly started."""

    server: Server
    folders: list[Path]
    services: Services | None
    rows: dict[str, float] = field(default_factory=dict)

    @property
    def pids(self) -> list[int]:
        return [*self.server.pids(), *(self.services.pids if self.services else [])]

    @property
    def running(self) -> Running:
        return Running(self.server.url, self.pids, self.folders[0])

    def statements(self) -> tuple[float, float, float]:
        """Of PostgreSQL so far: how many, and the milliseconds of planning and of executing."""
        if self.services is None:
            return 0.0, 0.0, 0.0
        with psycopg.connect(self.server.env["DATABASE_URL"]) as connection:
            row = connection.execute(STATEMENTS).fetchone()
            assert row is not None
            return float(row[0]), float(row[1]), float(row[2])


@contextmanager
def started(
    shape: Shape, folder: Path, services: Services | None, model_url: str, workspaces: int
) -> Iterator[Subject]:
    server = make_server(shape, folder, services=services, webs=2, workers=2)
    try:
        if services is not None:
            with psycopg.connect(server.env["DATABASE_URL"], autocommit=True) as connection:
                connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        server.start()
        projects = [make_project(folder / f"project-{n}", model_url) for n in range(workspaces)]
        yield Subject(server, projects, services)
    finally:
        server.close()


async def throughput(subject: Subject, prompts: int, at_once: int, workspaces: int) -> None:
    """Short prompts through all web processes; each client sends the next when one has ended."""
    watch = Watch()
    wires = []
    for number, url in enumerate(
        itertools.islice(itertools.cycle(subject.server.urls), workspaces)
    ):
        wires.append(CrushV1(url))
        await wires[-1].open(subject.folders[number])
        await wires[-1].subscribe(watch)
    numbers = iter(range(prompts))

    async def client(wire: CrushV1) -> None:
        session = await wire.session()
        for _ in numbers:
            watch.done.pop(session, None)
            await wire.prompt(session, SHORT)
            assert await watch.wait(lambda seen: session in seen.done, 60), "a run did not end"

    async def clients(count: int) -> None:
        await asyncio.gather(*(client(wires[n % len(wires)]) for n in range(count)))

    numbers = iter(range(2 * at_once))
    await clients(at_once)  # warms up
    numbers = iter(range(prompts))
    calls, planned, executed = subject.statements()
    cpu, began = usage(subject.pids).cpu_seconds, time.monotonic()
    await clients(at_once)
    took = time.monotonic() - began
    rows = subject.rows
    rows["prompts completed a second"] = prompts / took
    rows["  CPU of a prompt (ms)"] = (usage(subject.pids).cpu_seconds - cpu) / prompts * 1000
    after = subject.statements()
    rows["  statements of a prompt"] = (after[0] - calls) / prompts
    rows["  PostgreSQL plans for a prompt (ms)"] = (after[1] - planned) / prompts
    rows["  PostgreSQL executes for a prompt (ms)"] = (after[2] - executed) / prompts
    for wire in wires:
        wire.close()


async def latency(subject: Subject) -> None:
    wire = CrushV1(subject.server.url)
    out = await scenarios.turns(wire, subject.running, 100)
    subject.rows["accept p50 (ms)"] = median(out.accept_ms)
    subject.rows["first word p50 (ms)"] = median(out.first_word_ms)
    wire.close()


async def words(subject: Subject, runs: int) -> scenarios.Outcome:
    wire = CrushV1(subject.server.url)
    try:
        return await scenarios.words(wire, subject.running, runs)
    finally:
        wire.close()


async def measure(subject: Subject, options: argparse.Namespace) -> None:
    await asyncio.sleep(IDLE_SECONDS)
    idle = [usage([pid], memory=True).pss_mb or 0.0 for pid in subject.server.pids()]
    subject.rows["idle, largest process (MB)"] = max(idle)
    await latency(subject)
    few = await words(subject, 20)
    subject.rows["CPU of a word, 20 runs (µs)"] = few.cpu_seconds * 1e6 / few.words
    many = await words(subject, 200)
    lag = distribution(many.lag_ms)
    subject.rows["word, 200 runs, p99 (ms)"] = lag.p99 if lag is not None else 0.0
    subject.rows["CPU of a word, 200 runs (µs)"] = many.cpu_seconds * 1e6 / many.words
    await throughput(subject, options.prompts, options.clients, options.workspaces)


def table(found: dict[Shape, list[dict[str, float]]]) -> str:
    lines = [f"{'':<40}" + "".join(f"{shape!s:>14}" for shape in found) + f"{'limit':>10}"]
    for row, limit in ROWS.items():
        cells = ""
        for rounds in found.values():
            values = [rows[row] for rows in rounds if row in rows]
            cells += f"{_shown(values):>14}"
        lines.append(f"{row:<40}{cells}{'' if limit is None else f'{limit:g}':>10}")
    return "\n".join(lines)


def _shown(values: Sequence[float]) -> str:
    return f"{median(values):,.1f}" if values and any(values) else "–"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.scaled", description=__doc__)
    parser.add_argument("--shape", nargs="+", choices=[*Shape], default=[*Shape], type=Shape)
    parser.add_argument("--rounds", type=int, default=1, help="medians over so many (default: 1)")
    parser.add_argument("--prompts", type=int, default=1_000, help="of the throughput")
    parser.add_argument("--clients", type=int, default=32, help="that prompt at once")
    parser.add_argument("--workspaces", type=int, default=4, help="that the clients share")
    parser.add_argument("--model", help="base_url of another scripted model, already running")
    options = parser.parse_args()
    reason = missing_services()
    if reason is not None:
        raise SystemExit(reason)
    found: dict[Shape, list[dict[str, float]]] = {shape: [] for shape in options.shape}
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="crush-scaled-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        model_url = options.model
        if model_url is None:
            model = ScriptedModel(folder / "model.log")
            model.start()
            stack.callback(model.stop)
            model_url = model.base_url
        services = Services(
            folder,
            {
                "shared_preload_libraries": "pg_stat_statements",
                "pg_stat_statements.track_planning": "on",
                "pg_stat_statements.max": "2000",
            },
        )
        services.start()
        stack.callback(services.stop)
        numbers = itertools.count(1)
        for _ in range(options.rounds):
            for shape, rounds in found.items():
                own = services if shape is Shape.SCALED else None
                place = folder / str(next(numbers))
                with started(shape, place, own, model_url, options.workspaces) as subject:
                    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                        runner.run(measure(subject, options))
                    rounds.append(subject.rows)
    print(table(found))


if __name__ == "__main__":
    main()
