"""`python -m tests.bench.queues`: what long queues cost, in one process without a server.

Cancels and clears the 4,000 queued prompts of a session, while another workspace is written to every
5 ms: both take at most 2 s, and such a write at most 0.1 s. `--database postgresql` starts one.
"""

import argparse
import asyncio
import os
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path

PROMPTS, AT_ONCE = 4_000, 200


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.queues", description=__doc__)
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--prompts", type=int, default=PROMPTS)
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="crush-queues-")))
        os.environ |= {
            "CRUSH_DATA_DIR": str(folder),
            "DJANGO_SETTINGS_MODULE": "crushsite.settings",
        }
        if options.database == "postgresql":
            from tests.acceptance.harness.services import Services

            services = Services(folder)
            stack.callback(services.stop)
            services.start()
            addresses = services.allocate(lambda _: None)
            stack.callback(services.release, addresses)
            os.environ["DATABASE_URL"] = addresses.database_url
        import django

        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        _measure_ends(options.prompts)


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


if __name__ == "__main__":
    main()
