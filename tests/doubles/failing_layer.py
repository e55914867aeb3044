"""A channel layer between processes that fails for a while."""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from tests.doubles.joined_layer import JoinedLayer

FAILING_LAYER = {"default": {"BACKEND": "tests.doubles.failing_layer.FailingLayer"}}


class FailingLayer(JoinedLayer):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.error: Exception | None = None  # set while it fails
        self.failures = 0

    def _fail(self) -> None:
        if self.error is not None:
            self.failures += 1
            raise self.error

    @override
    async def receive(self, channel: str) -> dict[str, Any]:
        message = await super().receive(channel)
        self._fail()
        return message

    @override
    async def group_add(self, group: str, channel: str) -> None:
        self._fail()
        await super().group_add(group, channel)

    @override
    async def group_discard(self, group: str, channel: str) -> None:
        self._fail()
        await super().group_discard(group, channel)

    @override
    async def group_send(self, group: str, message: dict[str, Any]) -> None:
        self._fail()
        await super().group_send(group, message)

    def members(self, group: str) -> set[str]:
        return self._groups[group]
