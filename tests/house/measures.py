"""Counts what can be seen of the layout without running it: sizes, importers, names, comments.

Works on parsed sources alone, so it is quick and needs no settings. It cannot see a private
method of a library that a class here overrides, nor an import that is made from a text.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

# Django looks for classes of these names: each form, model and command has one.
REQUIRED_CLASS_NAMES = frozenset({"Command", "Media", "Meta"})
# Public in their library's documentation, although they begin with an underscore.
DOCUMENTED_NAMES = frozenset({"_default_manager", "_meta", "_asdict", "_fields", "_replace"})


@dataclass(frozen=True)
class Module:
    """``path`` is relative to the root of the tree."""

    path: PurePosixPath
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def name(self) -> str:
        parts = self.path.with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"


@dataclass(frozen=True)
class Spread:
    """Of sizes: half of them are at most the median, nine of ten at most p90."""

    median: int
    p90: int
    largest: int

    def __str__(self) -> str:
        return f"{self.median} / {self.p90} / {self.largest}"


@dataclass(frozen=True)
class PrivateName:
    path: PurePosixPath
    line: int
    name: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.name}"


def read_modules(root: Path, packages: Sequence[str]) -> list[Module]:
    """The modules of the packages, without migrations and empty files."""
    found = []
    for package in packages:
        for file in sorted((root / package).rglob("*.py")):
            path = PurePosixPath(file.relative_to(root).as_posix())
            text = file.read_text(encoding="utf-8")
            if text.strip() and "migrations" not in path.parts:
                found.append(Module(path, text))
    return found


def spread(sizes: Sequence[int]) -> Spread:
    ordered = sorted(sizes)
    if not ordered:
        return Spread(0, 0, 0)
    return Spread(ordered[(len(ordered) - 1) // 2], ordered[len(ordered) * 9 // 10], ordered[-1])


def module_lines(modules: Sequence[Module]) -> Spread:
    return spread([len(module.lines) for module in modules])


def function_lines(modules: Sequence[Module]) -> Spread:
    """From ``def`` to the last line, documentation included, decorators not."""
    return spread(
        [
            (node.end_lineno or node.lineno) - node.lineno + 1
            for module in modules
            for node in module.nodes
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
    )


def largest_folders(modules: Sequence[Module]) -> list[tuple[PurePosixPath, int]]:
    """Folders with the number of modules directly in them, the largest first."""
    return Counter(module.path.parent for module in modules).most_common()


def importers(modules: Sequence[Module]) -> dict[str, set[str]]:
    """The modules that import each module, imports for types included."""
    by_name = {module.name: module for module in modules}
    found: dict[str, set[str]] = defaultdict(set)
    for module in modules:
        for target in _imported(module, by_name):
            if target != module.name:
                found[target].add(module.name)
    return dict(found)


def single_importers(modules: Sequence[Module]) -> list[tuple[Module, Module]]:
    """Each module that a single module imports, with that one, where both share a folder."""
    by_name = {module.name: module for module in modules}
    pairs = []
    for name, users in sorted(importers(modules).items()):
        if len(users) == 1 and not by_name[name].is_package:
            user = by_name[next(iter(users))]
            if user.path.parent == by_name[name].path.parent:
                pairs.append((by_name[name], user))
    return pairs


def duplicate_classes(modules: Sequence[Module]) -> dict[str, list[PurePosixPath]]:
    """Names of several classes with the file of each, the most frequent first."""
    found: dict[str, list[PurePosixPath]] = defaultdict(list)
    for module in modules:
        for node in module.nodes:
            if isinstance(node, ast.ClassDef) and node.name not in REQUIRED_CLASS_NAMES:
                found[node.name].append(module.path)
    several = [item for item in found.items() if len(item[1]) > 1]
    return dict(sorted(several, key=lambda item: (-len(item[1]), item[0])))


def foreign_private_names(
    modules: Sequence[Module], *, own_packages: Sequence[str], allowed: Sequence[str] = ()
) -> list[PrivateName]:
    """Private names of third-party libraries, outside of the folders ``allowed``.

    An attribute counts when its module does not bind its name: for ``self`` and ``cls``, when no
    module does, because a base class of the tree may.
    """
    own = frozenset(own_packages)
    bound = {name for module in modules for name in _bound(module)}
    return [
        PrivateName(module.path, line, name)
        for module in modules
        if not any(module.path.is_relative_to(folder) for folder in allowed)
        for line, name in sorted(_private_names(module, own, bound))
    ]


def comment_share(modules: Sequence[Module]) -> float:
    """Lines that hold only a comment, of all lines."""
    lines = sum(len(module.lines) for module in modules)
    return sum(map(_comment_lines, modules)) / lines if lines else 0.0


def _imported(module: Module, by_name: dict[str, Module]) -> Iterator[str]:
    for node in module.nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in by_name)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in by_name:
                    yield inner
                elif node.module in by_name:
                    yield node.module


def _bound(module: Module) -> Iterator[str]:
    for node in module.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def _private_names(
    module: Module, own: frozenset[str], inherited: set[str]
) -> Iterator[tuple[int, str]]:
    here = set(_bound(module))
    standard = set(_names_of_standard_modules(module))
    for node in module.nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                start = f"{node.module or ''}." if isinstance(node, ast.ImportFrom) else ""
                if _is_foreign(start + alias.name, own):
                    yield node.lineno, start + alias.name
        elif isinstance(node, ast.expr) and (access := _attribute(node)):
            of, name = access
            of_name = of.id if isinstance(of, ast.Name) else ""
            own_names = here | inherited if of_name in {"self", "cls"} else here
            if _is_private(name) and name not in own_names and of_name not in standard:
                yield node.lineno, ast.unparse(node)


def _names_of_standard_modules(module: Module) -> Iterator[str]:
    for node in module.nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                if first in sys.stdlib_module_names:
                    yield alias.asname or first


def _attribute(node: ast.expr) -> tuple[ast.expr, str] | None:
    """The object and the name, also of ``getattr`` and the like with a constant name."""
    match node:
        case ast.Attribute(value=of, attr=name):
            return of, name
        case ast.Call(
            func=ast.Name(id="delattr" | "getattr" | "hasattr" | "setattr"),
            args=[of, ast.Constant(value=str(name)), *_],
        ):
            return of, name
    return None


def _is_foreign(dotted: str, own: frozenset[str]) -> bool:
    parts = dotted.split(".")
    return (
        parts[0] not in own
        and parts[0] not in sys.stdlib_module_names
        and any(map(_is_private, parts))
    )


def _is_private(name: str) -> bool:
    return (
        name.startswith("_")
        and not name.startswith("__")
        and name != "_"
        and name not in DOCUMENTED_NAMES
    )


def _comment_lines(module: Module) -> int:
    in_text = {
        line
        for node in module.nodes
        if isinstance(node, ast.Constant | ast.JoinedStr) and node.end_lineno is not None
        for line in range(node.lineno + 1, node.end_lineno + 1)
    }
    return sum(
        line.lstrip().startswith("#") and number not in in_text
        for number, line in enumerate(module.lines, 1)
    )
