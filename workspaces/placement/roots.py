"""Named roots, and which workspaces a worker may serve because of its roots and labels. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from workspaces.placement.remote_place import remote_place

NAME = re.compile(r"^[a-z0-9][a-z0-9._-]{0,62}\Z")
SEPARATOR = ","


def labels_in(stored: str) -> list[str]:
    """Returns the labels that a workspace's row has in one text."""
    return [label for label in stored.split(SEPARATOR) if label]


class Root(NamedTuple):
    """A folder that has the same path wherever it is served. Workspaces lie below it."""

    name: str
    path: str


class BadPlacement(ValueError):
    """A root or a label is written wrongly. The message is a clause about it."""


def parse_root(written: str) -> Root:
    """Parses ``NAME=/path``. Raises ``BadPlacement``."""
    name, equals, path = written.partition("=")
    if not equals or not NAME.match(name):
        raise BadPlacement(
            f"{written!r:.200} is not NAME=/path, with a name of lower-case letters, digits, '.', '_' and '-'"
        )
    if not path.startswith("/") or posixpath.normpath(path) != path or path.startswith("//"):
        raise BadPlacement(f"the path of {name} must be absolute, without '..' and a last '/'")
    return Root(name, path)


def parse_roots(written: Sequence[str]) -> tuple[Root, ...]:
    """Parses roots, which have different names and do not lie in each other."""
    roots: list[Root] = []
    for each in written:
        root = parse_root(each)
        if any(root.name == other.name for other in roots):
            raise BadPlacement(f"two roots have the name {root.name}")
        if other := overlapping(root, roots):
            raise BadPlacement(f"the folders of {other.name} and {root.name} lie in each other")
        roots.append(root)
    return tuple(roots)


def parse_labels(written: Collection[str]) -> tuple[str, ...]:
    """Returns the labels in order, each once. Raises ``BadPlacement``."""
    for label in written:
        if not NAME.match(label):
            raise BadPlacement(
                f"{label!r:.100} is no label of lower-case letters, digits, '.', '_' and '-'"
            )
    return tuple(sorted(set(written)))


def overlapping(root: Root, others: Collection[Root]) -> Root | None:
    """Returns another root inside this one, or around it."""
    for other in others:
        if is_below(other.path, root.path) or is_below(root.path, other.path):
            return other
    return None


def is_below(path: str, folder: str) -> bool:
    """Whether the path is the folder or lies in it. Both are absolute and normal."""
    return f"{path}/".startswith(_prefix(folder))


def root_of(path: str, roots: Collection[Root]) -> Root | None:
    return next((root for root in roots if is_below(path, root.path)), None)


def _prefix(folder: str) -> str:
    return f"{folder.rstrip('/')}/"


@dataclass(frozen=True, slots=True)
class WorkerScope:
    """Which workspaces a worker may serve.

    With roots of its own: those below roots that it has verified. Without: those below no root.
    In both cases those whose labels it has.
    """

    has_roots: bool
    served: tuple[Root, ...]  # verified
    known: tuple[Root, ...]  # all of the database
    labels: frozenset[str]
    # The combinations of labels that workspaces need, as they are stored, as far as it has them.
    satisfied: tuple[str, ...] = ()

    def serves(self, path: str, needed: Collection[str] = ()) -> bool:
        if remote_place(path) is not None:  # below no root: its worker's connection decides
            return True
        if not self.labels.issuperset(needed):
            return False
        if self.has_roots:
            return root_of(path, self.served) is not None
        return root_of(path, self.known) is None

    def condition(self, alias: str) -> tuple[str, list[object]]:
        """Returns SQL that is true for a row of workspaces that the worker serves."""
        satisfied = ["", *self.satisfied]
        clauses = [f"{alias}.labels IN ({', '.join('%s' for _ in satisfied)})"]
        values: list[object] = [*satisfied]
        roots = self.served if self.has_roots else self.known
        below = " OR ".join(f"SUBSTR({alias}.path || '/', 1, %s) = %s" for _ in roots) or "1 = 0"
        clauses.append(f"({below})" if self.has_roots else f"NOT ({below})")
        for root in roots:
            prefix = _prefix(root.path)
            values += [len(prefix), prefix]
        return " AND ".join(clauses), values


class WorkerOffer(NamedTuple):
    """What a live worker has registered."""

    host: str
    roots: Collection[str]  # names of verified ones
    missing_roots: Collection[str]  # names of those that it is to serve and does not find
    labels: Collection[str]
    id: str = ""


def why_unserved(
    path: str, needed: Collection[str], *, roots: Collection[Root], workers: Collection[WorkerOffer]
) -> str:
    """Returns why none of the workers may serve a workspace; empty if one may, or if none lives."""
    if not workers:
        return ""
    root = root_of(path, roots)
    if root is not None:
        there = [worker for worker in workers if root.name in worker.roots]
    else:
        there = [each for each in workers if not each.roots and not each.missing_roots]
    if not there:
        if root is None:
            return "no live worker serves its folder, which lies below no root"
        hosts = sorted({each.host for each in workers if root.name in each.missing_roots})
        found = f": it is not found on {', '.join(hosts)}" if hosts else ""
        return f"no live worker serves the root {root.name} of its folder{found}"
    if any(set(needed) <= set(worker.labels) for worker in there):
        return ""
    return f"no live worker that serves its folder has the labels {', '.join(sorted(needed))}"
