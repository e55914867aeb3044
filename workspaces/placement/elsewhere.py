"""Folders that a process without them reads through others. Every other process has all of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from workspaces.placement.roots import Root

FOLDERS = "crush.folders"  # the key of an ASGI scope
MOST_IDS = 1_000  # of workspaces in one request to a worker


class FoldersElsewhere(Protocol):
    """What the workers read that have the folders. Its caller checks the rights."""

    @property
    def roots(self) -> tuple[Root, ...]:
        """The named roots whose folders are elsewhere."""

    def has(self, path: str) -> bool:
        """Whether the folder is elsewhere."""

    async def read(self, what: str, ids: Collection[str]) -> Mapping[str, Any]:
        """Returns what the workers of these workspaces answer within a time limit.

        A workspace whose worker does not answer is absent.
        """

    async def newest(
        self, what: str, ids: Collection[str], *, at_most_seconds: float
    ) -> Mapping[str, Any]:
        """Returns what the workers have answered lately, and requests it again in the background.

        Waits for workspaces that were never requested, together at most so long.
        """


class _AllHere:
    roots = ()

    def has(self, _path: str) -> bool:
        return False

    async def read(self, _what: str, _ids: Collection[str]) -> Mapping[str, Any]:
        return {}

    async def newest(self, _what: str, _ids: Collection[str], **_limit: float) -> Mapping[str, Any]:
        return {}


_ALL_HERE = _AllHere()


def folders_elsewhere(scope: Mapping[str, Any]) -> FoldersElsewhere:
    """Returns what the edge has put in, or that all folders are here."""
    found: FoldersElsewhere = scope.get(FOLDERS, _ALL_HERE)
    return found
