"""A channel layer between simulated machines that delays, drops, repeats and reorders messages."""

from __future__ import annotations

import asyncio
import contextvars
import copy
from collections import defaultdict
from dataclasses import dataclass
from random import Random
from typing import Any

from channels.layers import BaseChannelLayer

from tests.simulation.virtual_time import Machine, SimulatedLoop, here

SIMULATED_LAYER = {"default": {"BACKEND": "tests.simulation.network.SimulatedLayer"}}
CAPACITY = 1000  # messages of one channel that nobody has received yet


@dataclass(frozen=True)
class Weather:
    """What the layer does to messages, as shares of them and seconds."""

    drops: float = 0.1
    repeats: float = 0.05
    longest_delay: float = 0.3  # delays differ, so messages overtake each other


class SimulatedLayer(BaseChannelLayer):
    """All machines of one simulation share it. Each gets its own."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.weather = Weather()
        self.random = Random(0)
        self.down_until = 0.0
        self.sent = self.lost = 0
        self._queues: defaultdict[str, asyncio.Queue[dict[str, Any]]] = defaultdict(asyncio.Queue)
        self._groups: defaultdict[str, set[str]] = defaultdict(set)
        self._owners: dict[str, Machine | None] = {}
        self._made = 0

    async def new_channel(self, prefix: str = "specific") -> str:
        self._made += 1
        channel = f"{prefix}.{self._made:06}"
        self._owners[channel] = here.get()
        return channel

    async def receive(self, channel: str) -> dict[str, Any]:
        return await self._queues[channel].get()

    async def group_add(self, group: str, channel: str) -> None:
        self._groups[group].add(channel)

    async def group_discard(self, group: str, channel: str) -> None:
        self._groups[group].discard(channel)

    async def group_send(self, group: str, message: dict[str, Any]) -> None:
        for channel in sorted(self._groups[group]):
            await self.send(channel, message)

    async def send(self, channel: str, message: dict[str, Any]) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        owner = self._owners.get(channel)
        self.sent += 1
        is_lost = loop.time() < self.down_until or (owner is not None and owner.is_dead)
        if is_lost or self.random.random() < self.weather.drops:
            self.lost += 1
            return
        for _ in range(2 if self.random.random() < self.weather.repeats else 1):
            delay = self.random.random() ** 3 * self.weather.longest_delay
            network = contextvars.Context()  # what is on its way belongs to no machine
            loop.call_later(delay, self._arrive, channel, copy.deepcopy(message), context=network)

    def _arrive(self, channel: str, message: dict[str, Any]) -> None:
        if self._queues[channel].qsize() < CAPACITY:
            self._queues[channel].put_nowait(message)
