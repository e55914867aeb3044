"""A channel layer that joins processes in one test: groups, and a queue for each channel."""

from __future__ import annotations

import asyncio
import copy
from collections import defaultdict
from typing import Any

from channels.layers import BaseChannelLayer

JOINED_LAYER = {"default": {"BACKEND": "tests.doubles.joined_layer.JoinedLayer"}}


class JoinedLayer(BaseChannelLayer):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._queues: defaultdict[str, asyncio.Queue[dict[str, Any]]] = defaultdict(asyncio.Queue)
        self._groups: defaultdict[str, set[str]] = defaultdict(set)
        self._made = 0

    async def new_channel(self, prefix: str = "specific") -> str:
        self._made += 1
        return f"{prefix}.{self._made}"

    async def send(self, channel: str, message: dict[str, Any]) -> None:
        self._queues[channel].put_nowait(copy.deepcopy(message))

    async def receive(self, channel: str) -> dict[str, Any]:
        return await self._queues[channel].get()

    async def group_add(self, group: str, channel: str) -> None:
        self._groups[group].add(channel)

    async def group_discard(self, group: str, channel: str) -> None:
        self._groups[group].discard(channel)

    async def group_send(self, group: str, message: dict[str, Any]) -> None:
        for channel in self._groups[group]:
            await self.send(channel, message)
