"""Chooses the worker that performs the requests of a workspace. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Collection

from workspaces.placement.roots import Root, WorkerOffer, root_of


def chosen_worker(
    path: str, needed: Collection[str], *, roots: Collection[Root], workers: Collection[WorkerOffer]
) -> WorkerOffer | None:
    """Returns a worker that serves the folder: the same one as long as it lives."""
    root = root_of(path, roots)
    there = [
        worker
        for worker in workers
        if root is not None and root.name in worker.roots and set(needed) <= set(worker.labels)
    ]
    # Each worker has a rank for each folder: if another one joins or leaves, most folders stay.
    return max(there, key=lambda worker: _rank(path, worker.id), default=None)


def _rank(path: str, worker: str) -> bytes:
    return hashlib.blake2b(f"{worker} {path}".encode(), digest_size=8).digest()
