"""Processes of the release before this one keep working while the database is migrated under them.

Its code comes from the history of this checkout. Then processes of both releases work side by side.
"""

import asyncio
import os
import re
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.acceptance.calling import bash, permission_request, results, write
from tests.acceptance.conversation import Seat, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.environment import ROOT, server_environment
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.ports import free_port
from tests.acceptance.harness.processes import Process, kill_marked
from tests.acceptance.harness.services import Services

pytestmark = pytest.mark.timeout(600)

RELEASE = "b9b4a215ddf2df9d95dcddbae9ee59a50ed2685a"
START_SECONDS = 90
# A worker that does not renew its leases loses its runs to others after less.
LOST_AFTER_SECONDS = 5
PROMPTS = 6
DRAIN = {"CRUSH_DRAIN": "1"}
# What workers log about runs that change hands. A stop hands runs over, and nothing else may.
LOST = ("held by another worker", "whose worker stopped")


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The code of the release before this one."""
    git = ["git", "-C", str(ROOT)]
    found = subprocess.run([*git, "cat-file", "-e", f"{RELEASE}^{{commit}}"], capture_output=True)
    if found.returncode:
        pytest.skip(f"this checkout has no history with the commit {RELEASE[:12]}")
    packed = subprocess.run([*git, "archive", RELEASE], capture_output=True, check=True).stdout
    folder = tmp_path_factory.mktemp("release")
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder


@dataclass
class Deployment:
    """Processes of several releases on one database."""

    folder: Path
    env: dict[str, str]
    processes: dict[str, Process] = field(default_factory=dict)

    def start(self, name: str, *arguments: str, code: Path) -> Process:
        log = self.folder / f"{name}.log"
        command = [sys.executable, "manage.py", *arguments]
        self.processes[name] = Process(name, command, env=self.env, cwd=code, log=log)
        self.processes[name].start()
        return self.processes[name]

    def migrate(self, name: str, code: Path) -> None:
        migrating = self.start(name, "migrate", "--no-input", code=code)
        if migrating.wait(120) != 0:
            raise migrating.failure("failed")

    def start_pair(self, name: str, code: Path) -> str:
        """Starts a web process and a worker, and returns the address."""
        port = free_port()
        web = self.start(f"{name}-web", "web", "--host", f"tcp://127.0.0.1:{port}", code=code)
        worker = self.start(f"{name}-worker", "runworker", code=code)
        web.wait_for_line("Serving", START_SECONDS)
        worker.wait_for_line("Working", START_SECONDS)
        return f"http://127.0.0.1:{port}"

    def stop_pair(self, name: str) -> None:
        pair = [self.processes[f"{name}-{kind}"] for kind in ("worker", "web")]
        assert [process.stop() for process in pair] == [0, 0]

    def finished(self, name: str) -> list[str]:
        """The ids of the runs that the worker of a pair has ended."""
        log = self.processes[f"{name}-worker"].log_text()
        return re.findall(r"run finished: completed .* run_id=(\S+)", log)

    def complaints(self, *more: str) -> list[str]:
        """Lines about errors, and those with one of the further texts."""
        bad = (" error ", " critical ", "Traceback", *more)
        lines = [line for each in self.processes.values() for line in each.log_text().splitlines()]
        return [line for line in lines if any(word in line for word in bad)]

    def close(self) -> None:
        for process in self.processes.values():
            process.send(signal.SIGKILL)
        for process in self.processes.values():
            process.kill9()
        kill_marked(f"CRUSH_DATA_DIR={self.env['CRUSH_DATA_DIR']}")


@pytest.fixture
def deployment(tmp_path: Path, services: Services) -> Iterator[Deployment]:
    name = services.postgres.create_database()
    env = server_environment(
        tmp_path / "home",
        tmp_path / "data",
        {
            **DRAIN,
            "DATABASE_URL": services.postgres.url(name),
            "REDIS_URL": services.redis.new_url(),
            "CRUSH_REDIS_PREFIX": f"crush-{uuid4().hex[:8]}",
        },
    )
    made = Deployment(tmp_path, env)
    yield made
    made.close()
    services.postgres.drop_database(name)


async def converse(seat: Seat, mark: str) -> None:
    """Several sessions, each with a tool call, and a prompt behind it."""
    sessions = [await seat.workspace.session() for _ in range(PROMPTS)]
    for number, session in enumerate(sessions):
        await seat.workspace.prompt(session, bash(f"echo {mark}-{number}"), f"{mark}-{number}")
        await seat.workspace.prompt(session, "[[n=3]]", f"{mark}-{number}-behind")
    for number, session in enumerate(sessions):
        for run_id in (f"{mark}-{number}", f"{mark}-{number}-behind"):
            assert "error" not in await seat.stream.run_complete(session, run_id)
        (result,) = results(await seat.workspace.messages(session))
        assert result["content"].split()[0] == f"{mark}-{number}"


async def test_the_last_release_runs_on_while_this_one_takes_over(
    deployment: Deployment,
    release: Path,
    project: Callable[..., Path],
    model: ScriptedModel,
) -> None:
    clients: list[Client] = []

    async def sit_down(url: str, path: Path, **options: Any) -> Seat:
        clients.append(Client(url))
        return await take_seat(clients[-1], path, **options)

    try:
        await asyncio.to_thread(deployment.migrate, "old-migrate", release)
        old_url = await asyncio.to_thread(deployment.start_pair, "old", release)
        free, strict = project("free"), project("strict")
        env = [f"PATH={os.environ['PATH']}"]
        old = await sit_down(old_url, free, yolo=True, env=env)
        asked = await sit_down(old_url, strict, env=env)
        await converse(old, "before")
        held, waiting = await old.workspace.session(), await asked.workspace.session()
        gate = model.new_gate()
        await old.workspace.prompt(held, f"[[n=10 hold=5 gate={gate}]]", "held")
        await old.stream.words(held, 3)
        await asked.workspace.prompt(waiting, write("made.txt"), "waits")
        request = await permission_request(asked, waiting)

        # The migration, under the processes of the old release.
        await asyncio.to_thread(deployment.migrate, "new-migrate", ROOT)
        await converse(old, "migrated")

        # Both releases, side by side.
        new_url = await asyncio.to_thread(deployment.start_pair, "new", ROOT)
        new = await sit_down(new_url, free, yolo=True, env=env)
        await asyncio.gather(converse(old, "old"), converse(new, "new"))
        # The new worker leaves the run of the old one alone, also after the time that lost ones have.
        await asyncio.sleep(LOST_AFTER_SECONDS)
        model.open_gate(gate)
        assert "error" not in await old.stream.run_complete(held, "held")
        answering = await sit_down(new_url, strict, env=env)
        assert await answering.workspace.grant(request) is True
        await asked.stream.run_complete(waiting, "waits")
        assert (strict / "made.txt").exists()
        assert "held" in deployment.finished("old")
        assert deployment.finished("new")
        assert deployment.complaints(*LOST) == []

        # The old release hands its work over and leaves.
        gate = model.new_gate()
        later = [await new.workspace.session() for _ in range(PROMPTS)]
        for number, session in enumerate(later):
            await new.workspace.prompt(session, f"[[n=10 hold=5 gate={gate}]]", f"later-{number}")
        await model.wait_at_gate(gate, PROMPTS)
        await asyncio.to_thread(deployment.stop_pair, "old")
        model.open_gate(gate)
        for number, session in enumerate(later):
            assert "error" not in await new.stream.run_complete(session, f"later-{number}")
        await converse(new, "after")
        await asyncio.to_thread(deployment.stop_pair, "new")
    finally:
        for client in clients:
            await client.close()
    assert deployment.complaints() == []


async def test_the_last_release_does_not_start_on_the_migrated_database(
    deployment: Deployment, release: Path
) -> None:
    await asyncio.to_thread(deployment.migrate, "old-migrate", release)
    early = await asyncio.to_thread(deployment.start, "early", "runworker", code=ROOT)
    assert await asyncio.to_thread(early.wait) == 1
    assert "run `manage.py migrate` once" in early.log_text()
    await asyncio.to_thread(deployment.migrate, "new-migrate", ROOT)
    late = await asyncio.to_thread(deployment.start, "late", "runworker", code=release)
    assert await asyncio.to_thread(late.wait) == 1
    assert "A newer version of this program has migrated the database" in late.log_text()
