"""Replaces NUL characters, which PostgreSQL cannot store. Pure.

A NUL becomes one other character, so the length of a text and the offsets in it stay.
"""

from __future__ import annotations

import re

# A quoted backslash before it would make it plain text: the six characters ``\u0000``.
_ESCAPED_NUL = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")


def storable_text(text: str) -> str:
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


def storable_json(encoded: bytes) -> bytes:
    """Replaces the NULs in the strings of a JSON document."""
    if b"\\u0000" not in encoded:  # almost always, and much faster than the expression
        return encoded
    return _ESCAPED_NUL.sub(rb"\1\\ufffd", encoded)
