"""A host over configuration in memory, and servers that are real processes."""

import asyncio
import importlib
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from agents.config.settings import McpSettings
from agents.tools.mcp.host import McpHost
from agents.tools.mcp.limits import McpTimeouts
from tests.doubles.mcp_backing import MemoryBacking

MakeHost = Callable[..., McpHost]

DOUBLE = str(Path(__file__).parents[2] / "doubles/mcp_server.py")
QUICK = McpTimeouts(
    first_wait_seconds=60,  # a busy machine may take seconds to start Python
    call_seconds=3,
    listing_seconds=0.1,
    exit_seconds=0.3,
    relisten_seconds=0.1,
    first_pause_seconds=0.05,
    most_failures=3,
    retry_seconds=0.2,
    probe_seconds=2,
)


def double(name: str = "s", *args: str, **more: Any) -> McpSettings:
    return McpSettings(name, "stdio", command=sys.executable, args=(DOUBLE, *args), **more)


def script(source: str, name: str = "s", **more: Any) -> McpSettings:
    """A server that is only these lines of Python."""
    return McpSettings(name, "stdio", command=sys.executable, args=("-c", source), **more)


@pytest.fixture(scope="session", autouse=True)
def loaded() -> None:
    """Imports what takes a second, which is not to be taken from the first test's limits."""
    importlib.import_module("agents.tools.mcp.protocol.session")


@pytest.fixture
def backing(tmp_path: Path) -> MemoryBacking:
    return MemoryBacking(str(tmp_path), {"PATH": os.environ["PATH"], "HOME": str(tmp_path)})


@pytest_asyncio.fixture
async def make_host(backing: MemoryBacking) -> AsyncIterator[MakeHost]:
    """Whatever a test does, nothing of a host outlives it."""
    made: list[McpHost] = []

    def make(*servers: McpSettings, timeouts: McpTimeouts = QUICK) -> McpHost:
        for settings in servers:
            backing.add(settings)
        made.append(McpHost(backing, timeouts))
        return made[-1]

    yield make
    for host in made:
        await host.stop()
    left = [task for task in asyncio.all_tasks() if task.get_name().startswith("mcp ")]
    assert left == []
