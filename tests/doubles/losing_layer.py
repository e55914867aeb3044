"""A channel layer between processes that loses every message."""

from __future__ import annotations

import asyncio
from typing import Any

from channels.layers import BaseChannelLayer

LOSING_LAYER = {"default": {"BACKEND": "tests.doubles.losing_layer.LosingLayer"}}


class LosingLayer(BaseChannelLayer):
    async def new_channel(self, prefix: str = "specific") -> str:
        return f"{prefix}.channel"

    async def send(self, channel: str, message: dict[str, Any]) -> None:
        """Lost."""

    async def receive(self, channel: str) -> dict[str, Any]:
        return await asyncio.get_running_loop().create_future()

    async def group_add(self, group: str, channel: str) -> None:
        """Nothing ever comes."""

    async def group_discard(self, group: str, channel: str) -> None:
        """Nothing ever came."""

    async def group_send(self, group: str, message: dict[str, Any]) -> None:
        """Lost."""
