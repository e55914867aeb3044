"""Memory that large requests took comes back."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.acceptance.attaching import with_sight
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.shapes import Server
from tests.bench.memory import (
    LIMIT_MB,
    SETTLE_SECONDS,
    Ground,
    Sampler,
    a_picture_in_each_session,
    ignored_fields,
    pictures_in_one_session,
    refused_bodies,
    warm,
)


@pytest.mark.parametrize(
    ("load", "count"),
    [
        (refused_bodies, 2),
        (ignored_fields, 10),
        (pictures_in_one_session, 8),
        (a_picture_in_each_session, 16),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_memory_comes_back_after_large_requests(
    embedded_server: Server,
    connect: Callable[[Server], Client],
    project: Callable[..., Path],
    model: ScriptedModel,
    load: Callable[[Ground, int], Awaitable[None]],
    count: int,
) -> None:
    path = project(providers=with_sight(model.base_url, sees=True))
    ground = Ground(embedded_server, model, connect(embedded_server), path)
    await warm(ground)
    (pid,) = embedded_server.pids()
    memory = Sampler(pid)
    before = memory.now()
    await load(ground, count)
    until = time.monotonic() + 6 * SETTLE_SECONDS  # the machine may be busy
    while memory.now() > before + LIMIT_MB and time.monotonic() < until:
        await asyncio.sleep(0.1)
    assert memory.now() <= before + LIMIT_MB
