"""The conversation that a parent sends along, as far as it can be continued here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from workspaces.events.parts import Role

MESSAGES_LIMIT = 1_000
_ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT}


def earlier_messages(messages: Iterable[Any]) -> list[tuple[Role, str]]:
    """Without the last user's, which is the assignment itself.

    Messages are opaque on the wire: what is no text of a user or an assistant is left out.
    """
    known = [turn for message in messages if (turn := _turn(message)) is not None]
    if known and known[-1][0] is Role.USER:
        known.pop()
    return known[-MESSAGES_LIMIT:]


def _turn(message: Any) -> tuple[Role, str] | None:
    if not isinstance(message, Mapping):
        return None
    name = message.get("role")
    role = _ROLES.get(name) if isinstance(name, str) else None
    text = _text(message.get("content"))
    return (role, text) if role is not None and text.strip() else None


def _text(content: Any) -> str:
    """A text, or the texts of a list of parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = (part.get("text") for part in content if isinstance(part, Mapping))
    return "\n".join(text for text in texts if isinstance(text, str))
