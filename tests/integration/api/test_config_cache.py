"""Everybody who asks for a configuration at once gets one, and nobody holds the loop up."""

import asyncio

from tests.integration.api.conftest import Opened
from workspaces.config.cache import configs


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
