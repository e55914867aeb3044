"""A child whose parent provides the scripted model, and that parent."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.harness.environment import server_environment
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.runchild.turns import KEY, TOKEN, Spawn
from tests.integration.fleet.children import ChildProcess, Parent, dialled


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def spawn(tmp_path: Path, work: Path, model: ScriptedModel) -> Iterator[Spawn]:
    """`spawn(capabilities={...})`: a child whose parent provides the scripted model."""
    children: list[ChildProcess] = []

    def make(kind: str = "crush", *, arguments: tuple[str, ...] = (), **more: Any) -> ChildProcess:
        fabric = tmp_path / "fabric"
        fabric.mkdir(exist_ok=True)
        env = server_environment(tmp_path / "home", tmp_path / "servers-data", {})
        # What it inherits of a server must lead it nowhere.
        env |= {"DATABASE_URL": "postgres://nobody@127.0.0.1:1/none", "CRUSH_FLEET_TOKEN": TOKEN}
        child = ChildProcess(fabric, arguments=arguments, env=env)
        children.append(child)
        credential = {
            "provider": "theirs",
            "api_key": KEY,
            "base_url": model.base_url,
            "provider_type": "openai-compat",
        }
        child.start(
            {
                "version": 1,
                "identity": {"child_id": "c1", "parent_id": "p1", "role": "worker"},
                "executor": {"kind": kind},
                "fabric_dir": str(fabric),
                "workspace": str(work),
                "model": {"provider": "theirs", "model": "one"},
                "secrets": {"provider_credentials": [credential]},
                "capabilities": {"enforce_permissions": True},
                **more,
            }
        )
        return child

    yield make
    for child in children:
        child.close()


@pytest.fixture
async def parent(spawn: Spawn) -> AsyncIterator[Parent]:
    async with dialled(await spawn(reusable=True).endpoint()) as parent:
        yield parent
