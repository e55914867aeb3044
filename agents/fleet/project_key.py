"""The folder name of a project: its readable path, and a short hash for uniqueness."""

from __future__ import annotations

_OFFSET = 0xCBF29CE484222325
_PRIME = 0x100000001B3
_MASK = 2**64 - 1


def key_of(canonical: str) -> str:
    """Returns the folder name for a path without links."""
    readable = "".join(c if c.isascii() and c.isalnum() else "-" for c in canonical)
    return f"{readable}-{fnv1a_64(canonical.encode()) & 0xFFFFFFFF:08x}"


def fnv1a_64(data: bytes) -> int:
    value = _OFFSET
    for byte in data:
        value = ((value ^ byte) * _PRIME) & _MASK
    return value
