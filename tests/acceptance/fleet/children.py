"""Sub-agents that the server did not start: their processes, and what a test sees of those it did."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from tests.acceptance.harness.commands import command
from tests.acceptance.harness.environment import ROOT
from tests.acceptance.harness.shapes import Server

FOREIGN = ("-m", "tests.doubles.foreign_child")
OWN = ("manage.py", "runchild", "--forever")
_SECONDS = 60.0


@contextmanager
def served_child(
    fabric: Path, *, role: str = "", command: tuple[str, ...] = FOREIGN
) -> Iterator[str]:
    """A scripted sub-agent of somebody else's, with its record in the fabric folder: its endpoint."""
    fabric.mkdir(parents=True, exist_ok=True)
    spec = {
        "version": 1,
        "identity": {"child_id": "theirs", "role": role, "depth": 1},
        "executor": {"kind": "script"},
        "fabric_dir": str(fabric),
        "reusable": True,
    }
    with subprocess.Popen([sys.executable, *command], stdin=subprocess.PIPE, cwd=ROOT) as process:
        try:
            assert process.stdin is not None
            process.stdin.write(json.dumps(spec).encode())
            process.stdin.close()
            yield _endpoint(fabric / "theirs.json", process)
        finally:
            process.kill()


def _endpoint(record: Path, process: subprocess.Popen[bytes]) -> str:
    while not record.exists():
        try:
            code = process.wait(0.02)
        except subprocess.TimeoutExpired:
            continue
        raise RuntimeError(f"the sub-agent ended with {code}")
    return str(json.loads(record.read_text())["endpoint"])


def listed(server: Server, *options: str) -> list[dict[str, Any]]:
    """The sub-agents as an operator sees them."""
    done = command(server.env, "fleet", "--json", *options)
    assert done.code == 0, done.err
    return list(json.loads(done.out))


def processes_below(server: Server) -> list[psutil.Process]:
    """Of the server's sub-agents at every depth, by their command and the processes above them."""
    server_pids = set(server.pids())
    found = []
    for process in psutil.process_iter(["cmdline"]):
        try:
            if "runchild" in (process.info["cmdline"] or ()) and any(
                parent.pid in server_pids for parent in process.parents()
            ):
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


def lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def all_end(processes: list[psutil.Process]) -> None:
    async with asyncio.timeout(_SECONDS):
        while any(lives(process) for process in processes):
            await asyncio.sleep(0.02)
