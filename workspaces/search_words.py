"""The words of a search and of what it finds. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

# Of a message; what is behind it is not found. A tsvector of PostgreSQL holds at most 1 MiB.
MOST_CHARS = 100_000

_NO_WORD = re.compile(r"[\W_]+")


def text_of(wire: Iterable[Mapping[str, Any]]) -> str:
    """Returns what the search finds of a message: its text and a user's command."""
    found = (
        part["data"].get("text" if part["type"] == "text" else "command", "")
        for part in wire
        if part["type"] in {"text", "shell_command"}
    )
    joined = "\n".join(filter(None, found))[:MOST_CHARS]
    return joined.replace("\0", " ").strip()  # PostgreSQL cannot store a NUL


def words_in(text: str) -> list[str]:
    # PostgreSQL folds the case of other letters than a to z in some locales only.
    return [word for word in _NO_WORD.split(text.lower()) if word]


def scope_word(kind: str, object_id: str) -> str:
    """Returns the word by which a search is limited to a workspace ("w") or a session ("s")."""
    return kind + hashlib.sha256(object_id.encode()).hexdigest()[:32]


@lru_cache(maxsize=1_000)
def scope_of(workspace_id: str, session_id: str) -> str:
    return f"{scope_word('w', workspace_id)} {scope_word('s', session_id)}"
