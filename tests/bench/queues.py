"""`python -m tests.bench.queues`: what long queues cost, in one process without a server.

Cancels and clears the 4,000 queued prompts of a session, while another workspace is written to every
5 ms: both take at most 2 s, and such a write about 0.1 s. Looks up the place of one of 4,000 prompts
that wait for a worker (at most 50 ms). Then a user's 300 prompts wait for 20 places, with a model that
replies after 1.5 to 3 s, while another user sends one prompt every few seconds, which begins at most
1 s later. `--database postgresql` starts one.
"""

import argparse
import asyncio
import random
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.database import prepare_database

PROMPTS, AT_ONCE, PLACES = 4_000, 200, 20


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.queues", description=__doc__)
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--prompts", type=int, default=PROMPTS)
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = prepare_database(stack, options.database, name="queues")
        _measure_ends(options.prompts)
        _measure_places(options.prompts)
        if options.database == "postgresql":
            _measure_claims(options.prompts)
        asyncio.run(_measure_turns(folder))


def _measure_ends(count: int) -> None:
    from agents.runs.cancel import cancel, clear_queue
    from tests.integration.runs.answering import ANN
    from tests.integration.runs.ground import Ground, open_ground

    other = open_ground("/other")
    ends: dict[str, Callable[[Ground], Awaitable[None]]] = {
        "cancel": lambda ground: cancel(ground.workspace_id, ground.session_id, actor=ANN),
        "clear the queue": lambda g: clear_queue(g.workspace_id, g.session_id, actor=ANN),
    }
    for name, end in ends.items():
        ground = open_ground(f"/{name}")
        _accept(ground, count)
        seconds, longest = asyncio.run(_time(lambda end=end, ground=ground: end(ground), other))  # type: ignore[misc]
        print(f"{name}, {count} prompts: {seconds:.2f} s")
        print(f"  the longest write of another workspace meanwhile: {longest * 1000:.0f} ms")


def _accept(ground: "Ground", count: int) -> None:  # noqa: F821  imported after Django's setup
    from agents.models import RunKind
    from agents.runs.accept import Prompt, accept_prompt
    from tests.integration.runs.ground import write
    from workspaces.log.transaction import Transaction

    def accept(tx: Transaction, numbers: range) -> None:
        for number in numbers:
            text = f"Rename the function number {number} in src/module_{number}.py, and its tests."
            prompt = Prompt(ground.session_id, text, run_id=str(uuid.uuid4()))
            accept_prompt(tx, ground.workspace_id, prompt, kind=RunKind.PROMPT)

    for start in range(0, count, AT_ONCE):
        numbers = range(start, min(count, start + AT_ONCE))
        write(lambda tx, numbers=numbers: accept(tx, numbers))  # type: ignore[misc]


async def _time(end: Callable[[], Awaitable[None]], other: "Ground") -> tuple[float, float]:  # noqa: F821
    """Returns how long it took, and the longest write of the other workspace."""
    from workspaces.log.writer import writer

    writes: list[float] = []

    async def write_often() -> None:
        while True:
            began = time.perf_counter()
            await writer.write(
                other.workspace_id, lambda tx: tx.append(other.workspace_id, "test.write", {})
            )
            writes.append(time.perf_counter() - began)
            await asyncio.sleep(0.005)

    writer.start(loop=asyncio.get_running_loop())
    writing = asyncio.create_task(write_often())
    try:
        await asyncio.sleep(0.1)
        began = time.perf_counter()
        await end()
        seconds = time.perf_counter() - began
        await asyncio.sleep(0.1)
    finally:
        writing.cancel()
        await asyncio.to_thread(writer.stop)
    return seconds, max(writes)


def _measure_places(count: int, times: int = 9) -> None:
    from agents.models import Run
    from agents.runs.claims.claim_order import queue_places
    from tests.integration.runs.answering import ANN
    from tests.integration.runs.ground import open_ground

    for number in range(count // AT_ONCE):
        ground = open_ground(f"/places/{number}")
        for _ in range(AT_ONCE):
            ground.accept(session_id=ground.new_session(), actor=ANN)
    key = Run.objects.latest("pk").pk
    took, cpu = [], []
    for _ in range(times):
        began, used = time.perf_counter(), time.process_time()
        place = queue_places({key})[key]
        took.append(time.perf_counter() - began)
        cpu.append(time.process_time() - used)
    print(
        f"the place of prompt {place}: {median(took) * 1000:.0f} ms,"
        f" {median(cpu) * 1000:.0f} ms of CPU here"
    )
    Run.objects.filter(state="accepted").update(state="finished", outcome="cancelled")


def _measure_claims(count: int, times: int = 60) -> None:
    """Measures claims of a worker that shares the workspaces with another, and of one alone."""
    from agents.models import Run
    from agents.runs.claims.claim_order import ClaimedHomes
    from tests.integration.runs.answering import ANN
    from tests.integration.runs.ground import open_ground, register_worker, write
    from workspaces.actions.processes import take_homes
    from workspaces.models import NEVER_EXPIRES, RegisteredProcess

    grounds = [open_ground(f"/claims/{number}") for number in range(max(2, count // AT_ONCE))]
    ids = [ground.workspace_id for ground in grounds]
    for worker, homes in (("one", ids[::2]), ("two", ids[1::2])):
        register_worker(worker)
        write(lambda tx, worker=worker, homes=homes: take_homes(tx, worker, homes))  # type: ignore[misc]
    held = frozenset(ids[::2])
    for waiting in (1, count):
        for number in range(waiting):
            ground = grounds[number % len(grounds)]
            ground.accept(session_id=ground.new_session(), actor=ANN)
        RegisteredProcess.objects.update(expires_at=NEVER_EXPIRES)
        ways = {
            "alone": None,
            "with homes": ClaimedHomes("one", held, ("two",), is_ahead=False),
            "with more homes than another": ClaimedHomes("one", held, ("two",)),
        }
        took: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(times):
            for way, homes in ways.items():
                took[way].append(_time_claim(homes))
        shown = ", ".join(f"{way} {median(each) * 1000:.2f} ms" for way, each in took.items())
        print(f"a claim of up to 20 of {waiting} prompts: {shown}")
        Run.objects.filter(state="accepted").update(state="finished", outcome="cancelled")


def _time_claim(homes: Any) -> float:
    """Returns how long a claim took, which is undone."""
    from django.db import connection, transaction

    from agents.runs.transitions import claim_runs
    from workspaces.log.statements import statements
    from workspaces.log.transaction import Counters, Transaction

    with transaction.atomic(), statements() as cursor:
        tx = Transaction(cursor, Counters(connection.vendor))
        began = time.perf_counter()
        claimed = claim_runs(tx, worker="one", limit=PLACES, homes=homes)
        took = time.perf_counter() - began
        assert claimed
        transaction.set_rollback(True)
    return took


class _Slow:
    """A model that replies after some seconds."""

    def __init__(self) -> None:
        self._chance = random.Random(1)

    async def stream(self, request: Any) -> AsyncIterator[list[Any]]:
        from agents.llm.contract import Stopped, TextDelta, Usage
        from workspaces.log.parts import FinishReason

        await asyncio.sleep(self._chance.uniform(1.5, 3))
        yield [TextDelta("done"), Stopped(FinishReason.END_TURN, Usage(input=100, output=3))]


async def _measure_turns(folder: Path) -> None:
    from agents.config.settings import ModelChoice, ModelInfo, Settings
    from agents.runs.accept import Prompt, accept
    from agents.runs.pool import PoolSettings, RunPool
    from agents.runs.rows import Claimed
    from agents.runs.setup import Model, RunSetup
    from agents.tools.registry import available
    from crushsite.process import ServerProcess
    from crushsite.registration import ProcessShape
    from tests.integration.runs.answering import ANN, BOB
    from workspaces.access import Actor
    from workspaces.actions.sessions import create_session
    from workspaces.actions.workspaces import Opening, open_workspace
    from workspaces.log.reader import read
    from workspaces.log.writer import writer
    from workspaces.models import Message

    project = folder / "project"
    project.mkdir()
    slow = ModelChoice("slow", "one")
    settings = Settings({}, slow, slow)
    model = Model(slow, ModelInfo("one", "One", context_window=0), _Slow())

    async def setup_of(_: Claimed) -> RunSetup:
        tools = available(frozenset())
        return RunSetup(model, "You are slow.", tools, settings, {}, str(project), "")

    server = ServerProcess(ProcessShape(works=False, serves=False, is_alone=True))
    await server.start()
    pool = RunPool(
        server.instance_id,
        hub=server.hub,
        settings=PoolSettings(max_runs=PLACES),
        setup_of=setup_of,
    )
    pool.start()
    try:
        opening = Opening(str(project), "")
        workspace = await writer.write("", lambda tx: open_workspace(tx, opening))

        async def send(actor: Actor) -> tuple[int, str]:
            session = await writer.write(
                workspace.pk, lambda tx: create_session(tx, workspace.pk, title="t")
            )
            accepted = await accept(workspace.pk, Prompt(session["id"], "go"), actor=actor)
            return accepted.key, session["id"]

        for _ in range(300):
            await send(ANN)
        waits = []
        for _ in range(8):
            await asyncio.sleep(3)
            began = time.perf_counter()
            key, _ = await send(BOB)
            while not await read(lambda key=key: Message.objects.filter(run_key=key).exists()):  # type: ignore[misc]
                await asyncio.sleep(0.01)
            waits.append(time.perf_counter() - began)
        print(
            f"one prompt behind the 300 of another user: {median(waits):.2f} s"
            f" (the longest {max(waits):.2f} s)"
        )
    finally:
        await pool.drain(seconds=5)
        await pool.stop()
        await server.stop()


if __name__ == "__main__":
    main()
