"""Chooses the worker that performs the requests of a workspace. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from types import MappingProxyType

from workspaces.placement.roots import Root, WorkerOffer, root_of


def chosen_worker(
    path: str,
    needed: Collection[str],
    *,
    roots: Collection[Root],
    workers: Collection[WorkerOffer],
    home: str = "",
    homes: Mapping[str, int] = MappingProxyType({}),
) -> WorkerOffer | None:
    """Returns the worker that is the workspace's home, or else one that serves the folder.

    That is the one with the fewest ``homes``, and among those always the same one.
    """
    root = root_of(path, roots)
    there = [
        worker
        for worker in workers
        if root is not None and root.name in worker.roots and set(needed) <= set(worker.labels)
    ]
    # Each worker has a rank for each folder: if another one joins or leaves, most folders stay.
    return max(
        there,
        key=lambda each: (each.id == home, -homes.get(each.id, 0), _rank(path, each.id)),
        default=None,
    )


def _rank(path: str, worker: str) -> bytes:
    return hashlib.blake2b(f"{worker} {path}".encode(), digest_size=8).digest()
