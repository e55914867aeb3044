"""Parses a configuration file into a tree of plain values, and locates what is broken in it.

Never raises: a file that cannot be used gives an empty tree and a problem. A hint describes the
usual error at that place. It is a fixed text without a piece of the file, which may contain a key.
``agents.config.schema`` checks the types of the known keys.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from agents.config.problem import Problem, problem_with_file
from agents.config.regular_file import Unreadable, read_regular_file

SIZE_LIMIT = 1 << 20
DEPTH_LIMIT = 32
_WIDEST = 1 << 63  # JSON parsers of other languages have integers of 64 bits

Tree: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ParsedFile:
    tree: Tree = field(repr=False)  # it may hold keys
    problems: tuple[Problem, ...] = ()
    present: bool = True
    owner: int = -1
    is_empty: bool = False
    digest: str = ""  # of the file's bytes


def parse_file(path: str) -> ParsedFile:
    """The file's tree. A file that does not exist is empty and no problem."""
    try:
        content = read_regular_file(path, limit=SIZE_LIMIT)
    except Unreadable as refusal:
        if refusal.missing:
            return ParsedFile({}, present=False)
        return ParsedFile({}, (problem_with_file(path, refusal.reason),))
    if content.truncated:
        problem = problem_with_file(path, f"it is larger than {SIZE_LIMIT} bytes")
        return ParsedFile({}, (problem,), owner=content.owner)
    tree, problem_found = parse_bytes(content.data, file=path)
    problems = (problem_found,) if problem_found else ()
    is_empty = not content.data.strip()
    digest = hashlib.sha256(content.data).hexdigest()
    return ParsedFile(tree, problems, owner=content.owner, is_empty=is_empty, digest=digest)


def parse_bytes(data: bytes, *, file: str) -> tuple[Tree, Problem | None]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line = before.count(b"\n") + 1
        column = error.start - (before.rfind(b"\n") + 1) + 1
        return {}, Problem(file, line, column, "it is not UTF-8")
    nul = text.find("\0")
    if nul >= 0:
        return {}, _at(file, text, nul, "it holds a NUL character")
    if not text.strip():
        return {}, None  # an empty file configures nothing, and is not broken
    try:
        value = json.loads(
            text, parse_int=_integer, parse_float=_number, parse_constant=_refuse_constant
        )
    except json.JSONDecodeError as error:
        message = f"it is not JSON: {error.msg}; {hint_for(error)}"
        return {}, Problem(file, error.lineno, error.colno, message)
    except RecursionError:
        return {}, _too_deep(file)
    except ValueError as error:
        return {}, problem_with_file(file, f"it is not JSON: {error}")
    if not isinstance(value, dict):
        return {}, Problem(file, 1, 1, "it must hold a JSON object")
    if not _is_shallow(value):
        return {}, _too_deep(file)
    return _without_surrogates(value), None


def _at(file: str, text: str, offset: int, message: str) -> Problem:
    line = text.count("\n", 0, offset) + 1
    return Problem(file, line, offset - text.rfind("\n", 0, offset), message)


def _too_deep(file: str) -> Problem:
    return problem_with_file(file, f"it is nested more than {DEPTH_LIMIT} levels deep")


def _integer(text: str) -> int | float:
    # Very long numbers are slow to convert and fit no reader: they become floats,
    # which a key for a whole number then refuses by name.
    if len(text) > 19 or abs(int(text)) >= _WIDEST:
        return _number(text)
    return int(text)


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is too large")
    return number


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _is_shallow(value: Tree) -> bool:
    """Walks level by level, because the depth is what is not trusted here."""
    level: list[Any] = [value]
    for _ in range(DEPTH_LIMIT):
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
        level = below
        if not level:
            return True
    return not any(isinstance(item, dict | list) for item in level)


def _without_surrogates(value: Any) -> Any:
    """Replaces lone surrogates such as ``\\ud800``, which JSON allows and no encoder accepts."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode() if not value.isascii() else value
        case dict():
            return {_without_surrogates(k): _without_surrogates(v) for k, v in value.items()}
        case list():
            return [_without_surrogates(item) for item in value]
        case _:
            return value


_BY_MESSAGE = {
    "Expecting ',' delimiter": "put a comma before it, or close what is open",
    "Expecting ':' delimiter": "put a colon between the name and its value",
    "Unterminated string starting at": "close this text with a double quote",
    "Extra data": "remove what follows the last brace",
    "Invalid control character at": "write line breaks and tabs in a text as \\n and \\t",
    "Invalid \\escape": "write a backslash in a text as \\\\",
    "Invalid \\uXXXX escape": "write \\u with four hexadecimal digits",
}
_BY_CHARACTER = {
    "'": "use double quotes",
    "/": "JSON has no comments: remove it",
    "#": "JSON has no comments: remove it",
    ",": "remove the extra comma",
    "<": "resolve the merge conflict",
    "=": "resolve the merge conflict",
    ">": "resolve the merge conflict",
}


def hint_for(error: json.JSONDecodeError) -> str:
    text, at = error.doc, error.pos
    character = text[at : at + 1]
    if not text[at:].strip():
        return "the file ends too early: close what is open"
    if character in _BY_CHARACTER:
        return _BY_CHARACTER[character]
    before = text[max(0, at - 1_000) : at].rstrip()[-1:]
    if before == "," and character in {"}", "]"}:
        return "remove the comma before it"
    if error.msg.startswith("Expecting property name"):
        return "put names in double quotes, and no comma after the last"
    if error.msg == "Expecting value":
        return "put a value there: a text in double quotes, a number, true, false or null"
    return next(
        (hint for start, hint in _BY_MESSAGE.items() if error.msg.startswith(start)),
        "correct it there",
    )
