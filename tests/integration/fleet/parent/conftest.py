"""Real children, started by our parent's end and surely ended."""

import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from agents.fleet.parent.child import RunningChild
from agents.fleet.parent.spawn import Launch, spawn_child
from agents.fleet.provisioning.spec import ChildIdentity, Limits, ProvisionSpec, SpecExecutor

ROOT = Path(__file__).parents[4]
FOREIGN = (sys.executable, "-m", "tests.doubles.foreign_child")
OWN = (sys.executable, str(ROOT / "manage.py"), "runchild")

Start = Callable[..., Awaitable[RunningChild]]


def make_spec(tmp_path: Path, *, kind="script", reusable=False, role="tester", **more):
    return ProvisionSpec(
        identity=ChildIdentity(f"c-{uuid.uuid4()}", parent_id="p", role=role, depth=1),
        executor=SpecExecutor(kind),
        fabric_dir=str(tmp_path / "fabric"),
        storage_dir=str(tmp_path / "storage"),
        limits=Limits(idle_timeout_secs=30),
        reusable=reusable,
        **more,
    )


def launch(command=FOREIGN, **changes) -> Launch:
    return Launch(command=command, environment={"PYTHONPATH": str(ROOT)}, **changes)


@pytest.fixture
async def start(tmp_path) -> AsyncIterator[Start]:
    started = []

    async def start_child(command=FOREIGN, *, ping_seconds=15.0, **spec) -> RunningChild:
        how = launch(command, ping_seconds=ping_seconds)
        child = await spawn_child(make_spec(tmp_path, **spec), how)
        started.append(child)
        return child

    yield start_child
    for child in started:
        if child.process is not None:
            child.process.kill()
        await child.end()
