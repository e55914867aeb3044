"""Validates the values of a configuration, and finds unknown keys. Pure.

A value that does not fit is dropped and reported. An unknown key has no effect, so it is reported
with a similar known key: otherwise a misspelled key would silently change nothing.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, assert_never

from agents.config.parse import Tree

NAME_LIMIT = 200


@dataclass(frozen=True, slots=True)
class Leaf:
    what: str
    accepts: Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class ObjectSpec:
    known: Mapping[str, Spec]
    others: Spec | None = None  # None: other keys may have any value


@dataclass(frozen=True, slots=True)
class Each:
    """An object whose keys are names."""

    spec: Spec


@dataclass(frozen=True, slots=True)
class Items:
    spec: Spec


Spec: TypeAlias = Leaf | ObjectSpec | Each | Items


@dataclass(frozen=True, slots=True)
class Misfit:
    key: str  # dotted
    message: str


class _Dropped:
    """The type of the placeholder for a value that did not fit."""


_DROPPED = _Dropped()


def _valid_value(value: Any, spec: Spec, key: str, misfits: list[Misfit]) -> Any:
    match spec:
        case Leaf():
            if type(value) is float and value.is_integer() and not spec.accepts(value):
                value = int(value)  # a person who writes 2e5 means a whole number
            if isinstance(value, str) and "\0" in value:  # no database, path or command takes it
                misfits.append(Misfit(key, "must not hold a NUL character"))
                return _DROPPED
            if spec.accepts(value):
                return value
            misfits.append(Misfit(key, f"must be {spec.what}"))
            return _DROPPED
        case Items():
            return _valid_items(value, spec, key, misfits)
        case ObjectSpec() | Each():
            if isinstance(value, dict):
                return valid_object(value, spec, key, misfits)
            misfits.append(Misfit(key, "must be an object"))
            return _DROPPED
    assert_never(spec)


def _valid_items(value: Any, spec: Items, key: str, misfits: list[Misfit]) -> Any:
    if not isinstance(value, list):
        misfits.append(Misfit(key, "must be a list"))
        return _DROPPED
    kept = [
        _valid_value(item, spec.spec, f"{key}[{index}]", misfits)
        for index, item in enumerate(value)
    ]
    return [item for item in kept if item is not _DROPPED]


def valid_object(value: Tree, spec: ObjectSpec | Each, key: str, misfits: list[Misfit]) -> Tree:
    kept: Tree = {}
    for name, item in value.items():
        here = f"{key}.{name}" if key else name
        if isinstance(spec, Each) and not _is_name(name):
            misfits.append(
                Misfit(f"{key}.…", f"a name must have 1 to {NAME_LIMIT} plain characters")
            )
            continue
        below = spec.spec if isinstance(spec, Each) else spec.known.get(name, spec.others)
        valid = item if item is None or below is None else _valid_value(item, below, here, misfits)
        if valid is not _DROPPED:
            kept[name] = valid
    return kept


def _is_name(name: str) -> bool:
    return 0 < len(name) <= NAME_LIMIT and name.isprintable()


KEYS_LIMIT = 50
_SHOWN_NAME_LIMIT = 60
# The names that other programs use for our sections and keys.
_ELSEWHERE = {
    "mcpservers": "mcp",
    "languageservers": "lsp",
    "baseurl": "base_url",
    "endpoint": "base_url",
    "key": "api_key",
    "token": "api_key",
    "headers": "extra_headers",
    "body": "extra_body",
    "contextlength": "context_window",
    "environment": "env",
    "cmd": "command",
    "allow": "allowed_tools",
    "instructions": "context_paths",
}


def unknown_keys(tree: dict[str, Any], spec: ObjectSpec) -> list[Misfit]:
    found = _unknown(tree, spec, "")
    return [misfit for misfit, _ in zip(found, range(KEYS_LIMIT), strict=False)]


def _unknown(value: Any, spec: Spec, key: str) -> Iterator[Misfit]:
    match spec:
        case ObjectSpec() if isinstance(value, dict):
            for name, item in value.items():
                below = spec.known.get(name, spec.others)
                here = f"{key}.{name}" if key else name
                if below is not None:
                    yield from _unknown(item, below, here)
                elif not _is_note(name):
                    yield _unknown_key(name, key, spec.known)
        case Each() if isinstance(value, dict):
            for name, item in value.items():
                yield from _unknown(item, spec.spec, f"{key}.{name}")
        case Items() if isinstance(value, list):
            for index, item in enumerate(value):
                yield from _unknown(item, spec.spec, f"{key}[{index}]")
        case Leaf() | ObjectSpec() | Each() | Items():
            return


def _unknown_key(name: str, key: str, known: Iterable[str]) -> Misfit:
    is_plain = len(name) <= _SHOWN_NAME_LIMIT and name.isprintable()
    here = f"{key}.{name if is_plain else '…'}".lstrip(".")
    meant = _meant(name, list(known)) if is_plain else ""
    hint = f"; did you mean {meant}?" if meant else ""
    return Misfit(here, f"is not known and has no effect{hint}")


def _meant(name: str, known: list[str]) -> str:
    by_form = {_form(one): one for one in known}
    elsewhere = _ELSEWHERE.get(_form(name), "")
    if elsewhere in known:
        return elsewhere
    close = difflib.get_close_matches(_form(name), by_form, n=1, cutoff=0.75)
    return by_form[close[0]] if close else ""


def _form(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _is_note(name: str) -> bool:
    """Whether a key is a comment, for which JSON has no syntax."""
    return name.startswith(("_", "$", "#", "//")) or name in {"", "comment"}
