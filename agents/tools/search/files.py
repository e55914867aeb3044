"""Lists a folder's files as a search sees them, with ripgrep or without."""

from __future__ import annotations

import asyncio
import os
import threading
from dataclasses import dataclass
from pathlib import Path

from agents.tools.contract import ToolContext
from agents.tools.limits import SEARCH_SECONDS
from agents.tools.search import ripgrep, walk
from agents.tools.search.searcher import search

_MAX_LIST_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Listing:
    paths: list[str]  # relative to the root
    complete: bool


async def list_files(
    root: Path, *, hidden: bool, context: ToolContext, binary: str | None
) -> Listing:
    if binary is None:
        return await _walked(root, hidden=hidden)
    argv = [binary, *ripgrep.options(root, hidden=hidden), "--files", "./"]
    searched = await search(argv, root=root, context=context, limit_bytes=_MAX_LIST_BYTES)
    names = searched.output.split(b"\0")[:-1]  # the last is empty, or cut
    return Listing([os.fsdecode(n.removeprefix(b"./")) for n in names], searched.complete)


async def _walked(root: Path, *, hidden: bool) -> Listing:
    stop = threading.Event()

    def collect() -> Listing:
        paths: list[str] = []
        size = 0
        for path in walk.files(root, hidden=hidden, seconds=SEARCH_SECONDS):
            size += len(path)
            if stop.is_set() or size > _MAX_LIST_BYTES:
                return Listing(paths, complete=False)
            paths.append(path)
        return Listing(paths, complete=True)

    try:
        return await asyncio.to_thread(collect)
    finally:
        stop.set()  # a cancelled thread would walk on
