from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio

from agents.config.cache import configs
from tests.doubles.joined_layer import JOINED_LAYER
from tests.integration.forwarding.ground import Web
from tests.integration.runs.ground import write
from workspaces.actions.processes import add_root
from workspaces.log.reader import read, stop_reading
from workspaces.log.writer import writer


@pytest_asyncio.fixture
async def web(transactional_db: None, settings: Any, tmp_path: Path) -> AsyncIterator[Web]:
    settings.CHANNEL_LAYERS = JOINED_LAYER
    configs.cache_clear()
    writer.start(publish=None, loop=asyncio.get_running_loop())
    root = tmp_path / "code"
    root.mkdir()
    await read(write, lambda tx: add_root(tx, name="code", path=str(root), marker=""))
    web = Web(root)
    yield web
    await web.stop()
    await asyncio.to_thread(writer.stop)
    await asyncio.to_thread(stop_reading)
