"""`python -m tests.bench.fleet`: the wire between parent and child, with real processes.

Prints how many token events a second one connection carries, and how long it takes from wanting a
child to its first event: cold (a new process) and warm (one that waits).
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
import uuid
from pathlib import Path

from agents.fleet.parent.child import RunningChild
from agents.fleet.parent.child_pool import ChildPool
from agents.fleet.parent.outcome import Ending, Listener, Order
from agents.fleet.parent.spawn import Launch, own_command, spawn_child
from agents.fleet.provisioning.spec import ChildIdentity, Limits, ProvisionSpec, SpecExecutor

ROOT = Path(__file__).parents[2]
CHILDREN = {
    "own": own_command(),
    "foreign": (sys.executable, "-m", "tests.doubles.foreign_child"),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.fleet", description=__doc__)
    parser.add_argument("--child", choices=CHILDREN, default="own")
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="crush-bench-fleet-") as folder:
        asyncio.run(_measure(options, Path(folder)))
    return 0


async def _measure(options: argparse.Namespace, folder: Path) -> None:
    how = Launch(CHILDREN[options.child], {"PYTHONPATH": str(ROOT)})
    pool = ChildPool(lambda spec: spawn_child(spec, how))
    try:
        cold = [await _first_event(pool, folder, again=False) for _ in range(options.runs)]
        warm = [await _first_event(pool, folder, again=True) for _ in range(10 * options.runs)]
        rates = [await _rate(pool, folder, options.events) for _ in range(options.runs)]
    finally:
        await pool.stop()
    print(f"| {options.child} child | p50 | worst | limit |")
    print("|---|---|---|---|")
    _row("cold start → first event, ms", [took * 1000 for took in cold], 1200)
    _row("warm → first event, ms", [took * 1000 for took in warm], 50)
    print(f"| token events/s | {statistics.median(rates):,.0f} | {min(rates):,.0f} | ≥ 5,000 |")


async def _first_event(pool: ChildPool, folder: Path, *, again: bool) -> float:
    first: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    async def receive(event: object) -> None:
        if not first.done():
            first.set_result(time.perf_counter())

    begun = time.perf_counter()
    # Another role is another kind: nothing that waits fits.
    child = await pool.take("w", _spec(folder, "warm" if again else uuid.uuid4().hex))
    await _run(child, "word", receive)
    pool.give_back(child, is_usable=again)
    return await first - begun


async def _rate(pool: ChildPool, folder: Path, events: int) -> float:
    received_at: list[float] = []

    async def receive(event: object) -> None:
        received_at.append(time.perf_counter())

    child = await pool.take("w", _spec(folder, "warm"))
    await _run(child, f"__stream:{events}:0", receive)
    pool.give_back(child, is_usable=True)
    if len(received_at) != events + 1:
        raise RuntimeError(f"{len(received_at)} events of {events + 1} came")
    return len(received_at) / (received_at[-1] - received_at[0])


async def _run(child: RunningChild, text: str, receive) -> None:
    async def refuse(request_id: str, body: object) -> bool:
        return False

    assignment = child.assignment(Order(text), listener=Listener(receive, refuse))
    outcome = await child.run(assignment)
    if outcome.ending is not Ending.COMPLETED:
        raise RuntimeError(outcome.error)


def _spec(folder: Path, role: str) -> ProvisionSpec:
    return ProvisionSpec(
        identity=ChildIdentity(f"c-{uuid.uuid4()}", role=role, depth=1),
        executor=SpecExecutor("script"),
        fabric_dir=str(folder / "fabric"),
        storage_dir=str(folder / "storage"),
        limits=Limits(idle_timeout_secs=60),
        reusable=True,
    )


def _row(what: str, taken: list[float], limit: float) -> None:
    mark = " !" if statistics.median(taken) > limit else ""
    print(f"| {what} | {statistics.median(taken):.1f}{mark} | {max(taken):.1f} | ≤ {limit:,} |")


if __name__ == "__main__":
    sys.exit(main())
