"""Ids for tool calls: the server's where it is usable and new, else one of ours."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection

from agents.llm.errors import BrokenStream

MOST_CALLS = 256  # of one reply
LONGEST = 256  # characters of a tool's name
# Of an id: a child's session is called by its message and its call, and columns have an end.
LONGEST_ID = 128


def new_call_id() -> str:
    return f"call_{uuid.uuid4().hex[:24]}"


def usable_call_id(said: str, taken: Collection[str], make_id: Callable[[], str]) -> str:
    """Unique in its reply. Raises ``BrokenStream`` when a reply calls without end."""
    if len(taken) >= MOST_CALLS:
        raise BrokenStream("The provider sent more tool calls than a reply may hold.")
    return said if said and len(said) <= LONGEST_ID and said not in taken else make_id()
