"""What a value may be told to hold, and a tree without what does not. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, assert_never

from agents.config.parse import Tree

NAME_LIMIT = 200


@dataclass(frozen=True, slots=True)
class Leaf:
    what: str
    accepts: Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Fields:
    known: Mapping[str, Spec]
    others: Spec | None = None  # None: whatever they hold


@dataclass(frozen=True, slots=True)
class Each:
    """An object whose keys are names."""

    spec: Spec


@dataclass(frozen=True, slots=True)
class Items:
    spec: Spec


Spec: TypeAlias = Leaf | Fields | Each | Items


@dataclass(frozen=True, slots=True)
class Misfit:
    key: str  # dotted
    message: str


class _Dropped:
    """Stands for a value that did not fit."""


_DROPPED = _Dropped()


def _fitting(value: Any, spec: Spec, key: str, misfits: list[Misfit]) -> Any:
    match spec:
        case Leaf():
            if type(value) is float and value.is_integer() and not spec.accepts(value):
                value = int(value)  # 2e5 is a whole number to whoever writes it
            if isinstance(value, str) and "\0" in value:  # no database, path or command takes it
                misfits.append(Misfit(key, "must not hold a NUL character"))
                return _DROPPED
            if spec.accepts(value):
                return value
            misfits.append(Misfit(key, f"must be {spec.what}"))
            return _DROPPED
        case Items():
            return _fitting_items(value, spec, key, misfits)
        case Fields() | Each():
            if isinstance(value, dict):
                return fitting_object(value, spec, key, misfits)
            misfits.append(Misfit(key, "must be an object"))
            return _DROPPED
    assert_never(spec)


def _fitting_items(value: Any, spec: Items, key: str, misfits: list[Misfit]) -> Any:
    if not isinstance(value, list):
        misfits.append(Misfit(key, "must be a list"))
        return _DROPPED
    kept = [
        _fitting(item, spec.spec, f"{key}[{index}]", misfits) for index, item in enumerate(value)
    ]
    return [item for item in kept if item is not _DROPPED]


def fitting_object(value: Tree, spec: Fields | Each, key: str, misfits: list[Misfit]) -> Tree:
    kept: Tree = {}
    for name, item in value.items():
        here = f"{key}.{name}" if key else name
        if isinstance(spec, Each) and not _is_name(name):
            misfits.append(
                Misfit(f"{key}.…", f"a name must have 1 to {NAME_LIMIT} plain characters")
            )
            continue
        below = spec.spec if isinstance(spec, Each) else spec.known.get(name, spec.others)
        fitting = item if item is None or below is None else _fitting(item, below, here, misfits)
        if fitting is not _DROPPED:
            kept[name] = fitting
    return kept


def _is_name(name: str) -> bool:
    return 0 < len(name) <= NAME_LIMIT and name.isprintable()
