"""The arguments that tools about a symbol share: its name, and where to look for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agents.tools import arguments
from agents.tools.contract import BadArguments
from agents.tools.limits import MAX_PATH_BYTES

MAX_SYMBOL_BYTES = 500

PROPERTIES: Mapping[str, Any] = {
    "symbol": {
        "type": "string",
        "description": "The symbol's name, alone or with what it lies in: parse, Reader.parse.",
    },
    "path": {
        "type": "string",
        "description": "The file or folder to look for it in (default: the whole workspace).",
    },
}

# Of a tool that takes nothing else.
SCHEMA: Mapping[str, Any] = {"type": "object", "properties": PROPERTIES, "required": ["symbol"]}


@dataclass(frozen=True, slots=True)
class SymbolArgs:
    symbol: str
    path: str


def symbol(given: Mapping[str, Any], name: str = "symbol") -> str:
    written = arguments.text(given, name, max_bytes=MAX_SYMBOL_BYTES, blank=False)
    if "\n" in written or "\r" in written:  # searches go line by line
        raise BadArguments(f"{name} must stand on one line.")
    return written


def parse(given: Mapping[str, Any]) -> SymbolArgs:
    path = arguments.text(given, "path", default="", max_bytes=MAX_PATH_BYTES)
    return SymbolArgs(symbol(given), path)
