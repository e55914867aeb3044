"""Words of sub-agents on their way to the clients of their parents' workspace."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.acceptance.calling import agents
from tests.bench.pacemaker import Pacemaker
from tests.bench.scenarios import INTERVAL_MS, WORDS, Outcome, begin, done, seen
from tests.bench.subjects import Running
from tests.bench.usage import usage
from tests.bench.watch import Watch
from tests.bench.wires.contract import Wire

ROLE = "bench"


async def streaming(wire: Wire, running: Running, count: int, *, words: int = WORDS) -> Outcome:
    """`count` sub-agents at a time, each sent for by a session of its own."""
    with fleet_child() as endpoint:
        _configure(running.folder, endpoint)
        watch = Watch()
        await begin(wire, running, [watch])
        sessions = [await wire.session() for _ in range(count)]
        await wire.warm(count)
        before = usage(running.pids)
        prompt = agents(f"{words} {INTERVAL_MS}")
        async with Pacemaker() as pacemaker:
            accepted = await asyncio.gather(*(wire.prompt(s, prompt) for s in sessions))
            await done(watch, sessions)
        after = usage(running.pids, memory=True)
    out = seen([watch], before, after)
    out.accept_ms = [seconds * 1000 for seconds in accepted]
    out.words = count * words
    out.words_lost = max(0, out.words - watch.word_count)  # only the sub-agents' are stamped
    out.own_lateness = pacemaker.lateness
    return out


@contextmanager
def fleet_child() -> Iterator[str]:
    """Its endpoint."""
    command = [sys.executable, "-m", "tests.bench.fleet_child"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            match = re.fullmatch(r"listening (\S+)\n", process.stdout.readline())
            if match is None:
                raise RuntimeError("the bench's sub-agents did not start")
            yield match[1]
        finally:
            process.kill()


def _configure(project: Path, endpoint: str) -> None:
    path = project / "crush.json"
    configuration = json.loads(path.read_text())
    configuration["fleet"] = {ROLE: {"endpoint": endpoint}}
    configuration["tools"] = {"agent": {"role": ROLE}}
    path.write_text(json.dumps(configuration))
