"""Typed readers for a tool's arguments, which a model wrote and may have got wrong.

Each reader raises ``BadArguments`` with a message that names the field. ``null`` counts
as absent, because models send it for fields that they do not want to set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agents.tools.contract import BadArguments

Arguments = Mapping[str, Any]


def text(
    arguments: Arguments,
    name: str,
    *,
    default: str | None = None,
    max_bytes: int,
    blank: bool = True,
    within: str = "",
) -> str:
    """Returns a string; required without a default. ``within`` is the label of its object."""
    label = f"{within}{name}"
    value = arguments.get(name)
    if value is None:
        if default is None:
            raise BadArguments(f"{label} is missing: a string is required.")
        return default
    if not isinstance(value, str):
        raise BadArguments(f"{label} must be a string, not {_kind(value)}.")
    if not blank and not value.strip():
        raise BadArguments(f"{label} must not be empty.")
    if "\0" in value:
        raise BadArguments(f"{label} must not contain a NUL character.")
    try:
        size = len(value) if value.isascii() else len(value.encode())
    except UnicodeEncodeError:
        raise BadArguments(f"{label} contains a lone surrogate, which is not valid text.") from None
    if size > max_bytes:
        raise BadArguments(f"{label} is too long: {size:,} bytes; {max_bytes:,} are allowed.")
    return value


def flag(arguments: Arguments, name: str, *, within: str = "") -> bool:
    value = arguments.get(name)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise BadArguments(f"{within}{name} must be true or false, not {_kind(value)}.")
    return value


def count(arguments: Arguments, name: str, *, default: int, most: int) -> int:
    """Returns a whole number from 0; a larger number than ``most`` becomes ``most``."""
    value = arguments.get(name)
    if value is None:
        return default
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadArguments(f"{name} must be a whole number, not {_kind(value)}.")
    if value < 0:
        raise BadArguments(f"{name} must not be negative.")
    return min(value, most)


def texts(arguments: Arguments, name: str, *, max_items: int, max_bytes: int) -> tuple[str, ...]:
    """Returns a list of strings; empty when absent."""
    value = arguments.get(name)
    if value is None:
        return ()
    items = _list(value, name, max_items)
    return tuple(
        text({f"{name}[{index}]": item}, f"{name}[{index}]", max_bytes=max_bytes)
        for index, item in enumerate(items)
    )


def objects(
    arguments: Arguments, name: str, *, max_items: int
) -> tuple[tuple[str, Arguments], ...]:
    """Returns a required list of objects, each with the label that prefixes its fields."""
    value = arguments.get(name)
    if value is None:
        raise BadArguments(f"{name} is missing: a list is required.")
    found: list[tuple[str, Arguments]] = []
    for index, item in enumerate(_list(value, name, max_items)):
        if not isinstance(item, Mapping):
            raise BadArguments(f"{name}[{index}] must be an object, not {_kind(item)}.")
        found.append((f"{name}[{index}].", item))
    return tuple(found)


def _list(value: Any, name: str, max_items: int) -> Sequence[Any]:
    if not isinstance(value, list):
        raise BadArguments(f"{name} must be a list, not {_kind(value)}.")
    if len(value) > max_items:
        raise BadArguments(f"{name} has {len(value):,} items; {max_items:,} are allowed.")
    return value


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a string"
    return "a list" if isinstance(value, list) else "an object"
