"""Everybody who asks for a configuration at once gets one, and nobody holds the loop up."""

import asyncio
import os
import time
import uuid
from pathlib import Path

from agents.config.cache import configs
from tests.integration.api.conftest import Opened


async def test_many_who_begin_a_turn_at_once_all_get_the_newest_configuration(
    workspace: Opened,
) -> None:
    """At every moment of a look that ends, also in the turn of the loop in which it ends."""
    looks = 0

    async def ask(turns: int) -> None:
        nonlocal looks
        for _ in range(turns):
            await asyncio.sleep(0)
        await configs().newest_config_of(workspace.id)
        looks += 1

    for start in range(0, 300, 100):
        await asyncio.gather(*(ask(start + turns) for turns in range(100)))
    assert looks == 300


async def test_writes_within_one_tick_of_the_clock_are_all_seen(workspace: Opened) -> None:
    """Of the same length, in place: nothing but their text tells them apart."""
    file = workspace.path / "crush.json"
    for number in range(100, 120):
        file.write_text(f'{{"options": {{"initialize_as": "{number}.md"}}}}')
        tick = time.time_ns() // 10_000_000 * 10_000_000
        os.utime(file, ns=(tick, tick))
        config = await configs().newest_config_of(workspace.id)
        assert config.settings.initialize_as == f"{number}.md"


async def test_what_a_file_last_said_outlives_the_cache_and_holds_for_other_workspaces(
    workspace: Opened, folder: Path
) -> None:
    (folder / ".git").mkdir()
    file = folder / "crush.json"
    file.write_text('{"options": {"initialize_as": "X.md"}}')
    await configs().newest_config_of(workspace.id)
    file.write_text('{"options": {"initialize_as": "Y.md"}')
    configs().forget(workspace.id)
    assert (await configs().config_of(workspace.id)).settings.initialize_as == "X.md"
    below = folder / "below"
    below.mkdir()
    body = {"path": str(below), "client_id": str(uuid.uuid4())}
    answer = await workspace.api.post("/v1/workspaces", body)
    assert answer["config"]["options"]["initialize_as"] == "X.md"
    assert f"{file}:1:38" in answer["config"]["problems"][0]
