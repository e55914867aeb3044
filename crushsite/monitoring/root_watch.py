"""Verifies the roots that this process serves, each second, and what it may claim because of them.

A root whose marker is missing is not served: its disk is not mounted, or the host is wrong.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from workspaces.log.reader import read
from workspaces.models import WorkRoot
from workspaces.placement.markers import MarkerProblem, verify_root
from workspaces.placement.roots import SEPARATOR, Root, WorkerScope
from workspaces.queries.processes import needed_labels, stored_roots

logger = logging.getLogger(__name__)

CHECK_SECONDS = 1.0
ANSWER_SECONDS = 2.0  # a file system of another machine may hang
UNKNOWN = "the database has no such root: create it with `crush-server root init`"


class RootWatch:
    def __init__(self, roots: Sequence[Root], labels: Sequence[str], *, is_needed: bool) -> None:
        """``is_needed``: other processes share the data, or roots are configured."""
        self._roots = tuple(roots)
        self._labels = frozenset(labels)
        self._is_needed = is_needed
        self._problems: dict[str, str] = {}  # by the name of a root
        self._checks: dict[str, asyncio.Task[str]] = {}
        self._task: asyncio.Task[None] | None = None
        self.scope: WorkerScope | None = None  # None: everything may be claimed

    @property
    def served_names(self) -> tuple[str, ...]:
        return tuple(root.name for root in self._roots if self._problems.get(root.name) == "")

    @property
    def missing_names(self) -> tuple[str, ...]:
        return tuple(root.name for root in self._roots if self._problems.get(root.name))

    async def start(self) -> None:
        """Verifies once, and goes on in the background."""
        if not self._is_needed:
            return
        await self.check()
        self._task = asyncio.create_task(self._check_forever(), name="roots")

    async def stop(self) -> None:
        tasks: list[asyncio.Task[Any]] = [*self._checks.values()]
        if self._task is not None:
            tasks.append(self._task)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def check(self) -> None:
        """Verifies all roots, and reads which labels workspaces need."""
        stored, needed = await read(_stored)
        problems = await asyncio.gather(*(self._problem_of(root, stored) for root in self._roots))
        for root, problem in zip(self._roots, problems, strict=True):
            self._note(root, problem)
        self.scope = WorkerScope(
            has_roots=bool(self._roots),
            served=tuple(Root(name, stored[name].path) for name in self.served_names),
            known=tuple(Root(root.name, root.path) for root in stored.values()),
            labels=self._labels,
            satisfied=tuple(
                each for each in needed if self._labels.issuperset(each.split(SEPARATOR))
            ),
        )

    async def _check_forever(self) -> None:
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            try:
                await self.check()
            except Exception:
                logger.exception("the roots could not be verified; the next round tries again")

    async def _problem_of(self, root: Root, stored: dict[str, WorkRoot]) -> str:
        row = stored.get(root.name)
        if row is None:
            return UNKNOWN
        task = self._checks.get(root.name)
        if task is None:
            task = asyncio.create_task(asyncio.to_thread(_verify, root, row.path, row.marker))
            self._checks[root.name] = task
        await asyncio.wait({task}, timeout=ANSWER_SECONDS)
        if not task.done():
            return f"{root.path} does not answer"
        del self._checks[root.name]
        return task.result()

    def _note(self, root: Root, problem: str) -> None:
        """Stores a result, and logs it if it is new."""
        before = self._problems.get(root.name)
        self._problems[root.name] = problem
        if problem == before:
            return
        if problem:
            logger.warning("the root %s is not served: %s", root.name, problem)
        else:
            logger.info("the root %s is served: %s", root.name, root.path)


def _stored() -> tuple[dict[str, WorkRoot], Sequence[str]]:
    """Returns the roots by name and the labels that workspaces need, by one visit of a thread."""
    return {root.name: root for root in stored_roots()}, needed_labels()


def _verify(root: Root, path: str, marker: str) -> str:
    try:
        verify_root(root, path=path, marker=marker)
    except MarkerProblem as problem:
        return str(problem)
    except OSError as error:
        return f"{root.path} cannot be read: {error.strerror}"
    return ""
