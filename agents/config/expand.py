"""Expands variables in a configuration's text, and decides which variables it may read. Pure.

Supports ``$VAR``, ``${VAR}``, ``${VAR:-default}`` and ``$$`` for a dollar. Runs nothing:
``$(command)`` stays as it is written and is reported. Results name variables, never their
values. The server's own secrets are hidden from every configuration, because any project's
file can put any variable into any address.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Lookup: TypeAlias = Callable[[str], str | None]

LENGTH_LIMIT = 1 << 14  # of a result: keys, addresses and headers are far shorter
_DEFAULTS_DEPTH = 8
_BRACES = re.compile(r"\$\$|\$\{|\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REFERENCED = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)")


@dataclass(frozen=True, slots=True)
class Expanded:
    text: str = field(repr=False)
    unset: tuple[str, ...] = ()  # variables without a value
    unread: tuple[str, ...] = ()  # why something was left unexpanded

    @property
    def whole(self) -> bool:
        return not self.unset and not self.unread

    @property
    def why(self) -> str:
        """Why the text is incomplete. Names variables, never their values."""
        unset = ", ".join(f"${name}" for name in self.unset[:3])
        reasons = [f"{unset} is not set"] if unset else []
        return "; ".join(reasons + list(self.unread[:2]))


@dataclass(slots=True)
class _Work:
    lookup: Lookup
    unset: dict[str, None] = field(default_factory=dict)
    unread: dict[str, None] = field(default_factory=dict)
    room: int = LENGTH_LIMIT


def expand(text: str, lookup: Lookup) -> Expanded:
    if "$" not in text:
        return Expanded(text)
    work = _Work(lookup)
    result = _expand(text, work, _DEFAULTS_DEPTH)
    return Expanded(result, tuple(work.unset), tuple(work.unread))


def variables_in(text: str) -> list[str]:
    """The variables that ``expand`` would look up in a text, defaults included."""
    return [name for name in _REFERENCED.findall(text.replace("$$", "")) if name]


def _expand(text: str, work: _Work, depth: int) -> str:
    closings = _closings(text)
    pieces: list[str] = []
    at = 0
    while True:
        dollar = text.find("$", at)
        if dollar < 0:
            pieces.append(text[at:])
            return "".join(pieces)
        pieces.append(text[at:dollar])
        piece, at = _reference(text, dollar, closings, work, depth)
        work.room -= len(piece)
        if work.room < 0:  # a few bytes of file could name a long variable many times
            work.unread[f"it is longer than {LENGTH_LIMIT} characters once expanded"] = None
            return "".join(pieces)
        pieces.append(piece)


def _reference(
    text: str, dollar: int, closings: dict[int, int], work: _Work, depth: int
) -> tuple[str, int]:
    """Returns the replacement of the reference at ``dollar``, and the index after it."""
    after = text[dollar + 1 : dollar + 2]
    if after == "$":
        return "$", dollar + 2
    if after == "(":
        work.unread["$(…) is not run"] = None
        return "$(", dollar + 2
    if after == "{":
        return _braced(text, dollar, closings.get(dollar, -1), work, depth)
    name = _NAME.match(text, dollar + 1)
    if name is None:
        return "$", dollar + 1  # part of a price or a regular expression, not a variable
    return _value(name.group(), work), name.end()


def _braced(text: str, dollar: int, end: int, work: _Work, depth: int) -> tuple[str, int]:
    name = _NAME.match(text, dollar + 2)
    if end < 0 or name is None or depth == 0:
        work.unread["${ needs a name and a closing }"] = None
        return "${", dollar + 2
    rest = text[name.end() : end]
    if not rest:
        return _value(name.group(), work), end + 1
    if not rest.startswith(":-"):
        work.unread["only ${NAME} and ${NAME:-default} are supported"] = None
        return text[dollar : end + 1], end + 1
    value = work.lookup(name.group())
    return value or _expand(rest[2:], work, depth - 1), end + 1


def _closings(text: str) -> dict[int, int]:
    """The ``}`` of each ``${``, found in one pass: a scan for each would be quadratic."""
    found: dict[int, int] = {}
    if "${" not in text:
        return found
    opened: list[int] = []
    for match in _BRACES.finditer(text):
        if match.group() == "${":
            opened.append(match.start())
        elif match.group() == "}" and opened:
            found[opened.pop()] = match.start()
    return found


def _value(name: str, work: _Work) -> str:
    value = work.lookup(name)
    if value is None:
        work.unset[name] = None
        return ""
    return value


_PRIVATE_NAMES = frozenset({"DATABASE_URL", "REDIS_URL", "SECRET_KEY"})
_PRIVATE_PREFIXES = ("CRUSH_", "DJANGO_")


def variables(given: Mapping[str, str], server: Mapping[str, str]) -> Lookup:
    """Returns a lookup in the client's variables and then the server's.

    An empty variable of the client hides the server's.
    """

    def lookup(name: str) -> str | None:
        if name in given:
            return given[name]
        if name in _PRIVATE_NAMES or name.startswith(_PRIVATE_PREFIXES):
            return None
        return server.get(name)

    return lookup
