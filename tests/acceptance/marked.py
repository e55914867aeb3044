"""Workspaces whose processes can be found by a mark in their environment, and commands for them."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conversation import Seat, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.processes import marked

GO = "until [ -e go ]; do sleep 0.02; done"  # until the test says so
STAY = "setsid sleep 987 & (setsid nohup sleep 987 >/dev/null 2>&1 &) ; sleep 987"

linux_only = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")


async def marked_seat(client: Client, path: Path, **options: Any) -> Seat:
    env = [mark_in(path), f"PATH={os.environ['PATH']}"]
    return await take_seat(client, path, env=env, **options)


def mark_in(path: Path) -> str:
    return f"TEST_MARK={path.name}"


def processes(seat: Seat) -> list[int]:
    return marked(mark_in(seat.workspace.path))
