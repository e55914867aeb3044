"""What the decoders of all dialects share: the ids and names of tool calls, and how a reply ends.

Pure. A tool call keeps the server's id if the id is usable and new; otherwise it gets one of ours.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection

from agents.llm.errors import BrokenStream
from agents.llm.json_text import text_or_empty
from workspaces.log.parts import FinishReason
from workspaces.storable import storable_text

CALLS_LIMIT = 256  # in one reply
NAME_LIMIT = 256  # characters of a tool's name
MODEL_LIMIT = 200
# Characters of an id: it is part of a child session's key, whose column is bounded.
ID_LIMIT = 128


def new_call_id() -> str:
    return f"call_{uuid.uuid4().hex[:24]}"


def usable_call_id(server_id: str, taken: Collection[str], make_id: Callable[[], str]) -> str:
    """Returns an id that is unique in its reply. Raises ``BrokenStream`` for too many calls."""
    if len(taken) >= CALLS_LIMIT:
        raise BrokenStream("The provider sent more tool calls than a reply may hold.")
    if server_id and len(server_id) <= ID_LIMIT and server_id not in taken:
        return server_id
    return make_id()


def tool_name(written: object) -> str:
    return text_or_empty(written)[:NAME_LIMIT] or "unknown"


def served_model(written: object) -> str:
    return storable_text(text_or_empty(written)[:MODEL_LIMIT])


def finish_reason(reason: FinishReason, *, has_calls: bool) -> FinishReason:
    """Returns the reason; some servers report a plain end although the reply has tool calls."""
    if has_calls and reason in (FinishReason.END_TURN, FinishReason.UNKNOWN):
        return FinishReason.TOOL_USE
    return reason


def not_an_object() -> BrokenStream:
    return BrokenStream("The provider sent an event that is not a JSON object.")


def incomplete_reply() -> BrokenStream:
    return BrokenStream("The provider ended its reply without a mark that it is complete.")
