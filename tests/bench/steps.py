"""`python -m tests.bench.steps`: how quick a turn's steps are, in one process with an instant model.

The real pool, runner, writer and database (SQLite in a temporary folder); only the model is a
stand-in that answers at once: each reply views a file, the last one says three words.
"""

import argparse
import asyncio
import itertools
import os
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

SESSION = "bench"
WINDOW = 50  # steps around the one that is looked at


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.steps", description=__doc__)
    parser.add_argument("--steps", type=int, default=100, help="tool calls of the quick turn")
    parser.add_argument("--long", type=int, default=2000, help="tool calls of the long turn")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="crush-steps-") as folder:
        os.environ |= {
            "CRUSH_DATA_DIR": f"{folder}/data",
            "DJANGO_SETTINGS_MODULE": "crushsite.settings",
        }
        import django

        django.setup()
        from django.core.management import call_command

        Path(f"{folder}/data").mkdir(mode=0o700)
        call_command("migrate", verbosity=0)
        asyncio.run(_measure(Path(folder), options.steps, options.long))


async def _measure(folder: Path, steps: int, long: int) -> None:
    from crushsite.process import ServerProcess
    from crushsite.registration import ProcessShape

    project = folder / "project"
    project.mkdir()
    (project / "a.txt").write_text("".join(f"line {n}\n" for n in range(5000)))
    server = ServerProcess(ProcessShape(works=False, serves=False, is_alone=True))
    await server.start()
    try:
        await _turn(server, project, 30)  # warm
        times = await _turn(server, project, steps)
        (wall, cpu), (wall_end, cpu_end) = times[0], times[-1]
        print(
            f"{steps} steps: {steps / (wall_end - wall):.0f} steps/s (at least 300),"
            f" {(cpu_end - cpu) / steps * 1e3:.2f} ms of CPU a step"
        )
        await _compare(server, project, long)
        print(f"listing 10,000 messages: {await _listing(project):.0f} ms (at most 150)")
    finally:
        await server.stop()


async def _listing(project: Path, count: int = 10_000, times: int = 5) -> float:
    """The median time of the whole answer, from the rows to its bytes."""
    from workspaces.actions.messages import create_message
    from workspaces.actions.sessions import create_session
    from workspaces.api.answers import json_answer
    from workspaces.log.parts import Finish, FinishReason, Role, Text
    from workspaces.log.reader import read
    from workspaces.log.transaction import Transaction
    from workspaces.log.writer import writer
    from workspaces.queries.messages import list_messages

    _, workspace_id = await _session(project)  # opens the workspace again
    session = await writer.write(
        workspace_id, lambda tx: create_session(tx, workspace_id, title="long")
    )

    def fill(tx: Transaction) -> None:
        parts = (Text("a message of some words, as they are " * 10), Finish(FinishReason.END_TURN))
        for number in range(count):
            role = Role.ASSISTANT if number % 2 else Role.USER
            create_message(tx, workspace_id, session["id"], role=role, parts=parts)

    await writer.write(workspace_id, fill)
    took: list[float] = []
    for _ in range(times):
        begun = time.perf_counter()
        json_answer(await read(list_messages, workspace_id, session["id"]))
        took.append((time.perf_counter() - begun) * 1e3)
    return sorted(took)[times // 2]


async def _compare(server: Any, project: Path, long: int, rounds: int = 7) -> None:
    """Early steps of new sessions beside late ones of a long one, in turns: on a shared machine
    the same work takes twice as long from one second to the next."""
    session = await _session(project)
    await _turn(server, project, long, session)
    took: dict[str, list[float]] = {"early": [], "late": []}
    for _ in range(rounds):
        took["early"].append(_typical(await _turn(server, project, WINDOW + 10)))
        took["late"].append(_typical(await _turn(server, project, WINDOW + 10, session)))
    early, late = (sorted(times)[rounds // 2] for times in took.values())
    print(
        f"step 10: {early * 1e3:.2f} ms of CPU, step {long}: {late * 1e3:.2f} ms,"
        f" ratio {late / early:.2f} (at most 1.3)"
    )


def _typical(times: list[tuple[float, float]]) -> float:
    """The median processor time of a turn's last steps."""
    used = [cpu for _, cpu in times[-WINDOW:]]
    took = sorted(b - a for a, b in itertools.pairwise(used))
    return took[len(took) // 2]


async def _session(project: Path) -> tuple[str, str]:
    """A new session, and its workspace."""
    from workspaces.actions.sessions import create_session
    from workspaces.actions.workspaces import Opening, open_workspace
    from workspaces.log.writer import writer

    workspace = await writer.write("", lambda tx: open_workspace(tx, Opening(str(project), "")))
    session = await writer.write(
        workspace.pk, lambda tx: create_session(tx, workspace.pk, title="t")
    )
    return session["id"], workspace.pk


async def _turn(
    server: Any, project: Path, steps: int, session: tuple[str, str] | None = None
) -> list[tuple[float, float]]:
    """When the model was asked, and how much processor time was used until then."""
    from agents.config.settings import ModelChoice, ModelInfo, Settings
    from agents.llm.contract import (
        ModelRequest,
        Stopped,
        TextDelta,
        ToolCallFinished,
        ToolCallStarted,
        ToolInputDelta,
        Usage,
    )
    from agents.runs.accept import Prompt, accept
    from agents.runs.pool import PoolSettings, RunPool
    from agents.runs.rows import Claimed
    from agents.runs.setup import Model, RunSetup
    from agents.tools.registry import available
    from workspaces.log.parts import FinishReason

    requested_at: list[tuple[float, float]] = []

    class Instant:
        async def stream(self, request: ModelRequest) -> AsyncIterator[list[Any]]:
            requested_at.append((time.perf_counter(), time.process_time()))
            number = len(requested_at)
            if number > steps:
                usage = Usage(input=100, output=3)
                yield [TextDelta("that is all"), Stopped(FinishReason.END_TURN, usage)]
                return
            call = f"call_{number}"
            words = f'{{"file_path": "a.txt", "offset": {number % 4000}, "limit": 20}}'
            yield [
                ToolCallStarted(call, "view"),
                ToolInputDelta(call, words),
                ToolCallFinished(call),
                Stopped(FinishReason.TOOL_USE, Usage(input=100, output=20)),
            ]

    settings = Settings({}, ModelChoice("instant", "one"), ModelChoice("instant", "one"))
    model = Model(settings.large, ModelInfo("one", "One", context_window=0), Instant())

    async def setup_of(claimed: Claimed) -> RunSetup:
        return RunSetup(
            model, "You are quick.", available(frozenset()), settings, {}, str(project), ""
        )

    if session is None:
        session = await _session(project)
    else:
        await _session(project)  # opens the workspace again
    pool = RunPool(server.instance_id, hub=server.hub, settings=PoolSettings(), setup_of=setup_of)
    pool.start()
    try:
        await accept(session[1], Prompt(session[0], "go"))
        pool.receive_nudge({"type": "run.accepted"})
        while len(requested_at) <= steps:
            await asyncio.sleep(0.05)
    finally:
        await pool.drain(seconds=5)
        await pool.stop()
    return requested_at[: steps + 1]


if __name__ == "__main__":
    main()
