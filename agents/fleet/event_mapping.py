"""What a sub-agent's events are as a model's words. Pure.

Of the events of programs that this one does not know only those are shown whose meaning is
plain: words and thoughts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from agents.llm.contract import ModelEvent, ReasoningDelta, TextDelta

NAME_LIMIT = 100
PARAMS_BYTES = 64 * 1024
_NUL = b"\\u0000"  # in JSON


def heard(event: Any) -> ModelEvent | None:
    if not isinstance(event, dict):
        return None
    content = event.get("content")
    if not isinstance(content, str) or not content:
        return None
    # A NUL cannot be stored by PostgreSQL.
    content = content.replace("\x00", "\ufffd")
    match event.get("type"):
        case "token":
            return TextDelta(content)
        case "reasoning_token":
            return ReasoningDelta(content)
        case _:
            return None


def name_of(event: Any) -> str:
    """The event's type, for those who watch over the sub-agent."""
    kind = event.get("type") if isinstance(event, dict) else None
    return kind.replace("\x00", "")[:NAME_LIMIT] if isinstance(kind, str) else ""


def words_of(body: Any, key: str, *, default: str = "", most: int = 4_000) -> str:
    """A text of a question's body, which a sub-agent made as it liked."""
    value = body.get(key) if isinstance(body, dict) else None
    return value.replace("\x00", "\ufffd")[:most] if isinstance(value, str) and value else default


def params_of(body: Any) -> Mapping[str, Any]:
    """The whole of a question's body, to be stored and shown with it; too much is left out."""
    written = orjson.dumps(body)
    if len(written) > PARAMS_BYTES:
        return {"body": f"{len(written):,} bytes, which are left out"}
    if _NUL in written:
        body = _without_nul(body)
    return body if isinstance(body, dict) else {"body": body}


def _without_nul(value: Any) -> Any:
    match value:
        case str():
            return value.replace("\x00", "\ufffd")
        case dict():
            return {_without_nul(key): _without_nul(item) for key, item in value.items()}
        case list():
            return [_without_nul(item) for item in value]
        case _:
            return value
