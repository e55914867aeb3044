"""Measures how much of a model's window a conversation fills, and cuts it to fit. Pure.

Sizes that no provider has reported are estimated: a token is about four characters, and
an image about a thousand tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agents.turn.transcript import TurnMessage
from workspaces.log.parts import (
    Binary,
    Finish,
    ImageUrl,
    Part,
    Reasoning,
    ShellCommand,
    Text,
    ToolCall,
    ToolResult,
)

LARGE_WINDOW = 200_000
LEFT_OF_LARGE = 20_000  # tokens that must be left of a large window
LEFT_OF_SMALL = 0.2  # the part that must be left of a smaller window
CHARS_A_TOKEN = 4
IMAGE_CHARS = 4_000
CUT_CHARS = 400  # the length of a text that is cut
CUT_MARK = " […]"


def is_nearly_full(tokens: int, window: int) -> bool:
    """Whether a summary is due. A window of 0 means that its size is unknown."""
    if window <= 0:
        return False
    left = LEFT_OF_LARGE if window > LARGE_WINDOW else window * LEFT_OF_SMALL
    return window - tokens <= left


def estimated_tokens(messages: Sequence[TurnMessage]) -> int:
    return sum(_size(part) for message in messages for part in message.parts) // CHARS_A_TOKEN


def fitted(messages: Sequence[TurnMessage], *, tokens: int) -> tuple[TurnMessage, ...]:
    """Returns the conversation, cut to about this number of tokens.

    Its oldest long texts are cut, and if that is not enough its oldest messages are dropped.
    The first message stays.
    """
    budget = tokens * CHARS_A_TOKEN
    sizes = [sum(_size(part) for part in message.parts) for message in messages]
    total = sum(sizes)
    kept = list(messages)
    for index, message in enumerate(messages):
        if total <= budget:
            return tuple(kept)
        kept[index] = replace(message, parts=tuple(_cut(part) for part in message.parts))
        size = sum(_size(part) for part in kept[index].parts)
        total -= sizes[index] - size
        sizes[index] = size
    first = 1
    while total > budget and first < len(kept) - 1:
        total -= sizes[first]
        first += 1
    return (*kept[:1], *kept[first:])


def _cut(part: Part) -> Part:
    match part:
        case Text():
            return replace(part, text=_shortened(part.text))
        case Reasoning():
            return replace(part, thinking="", signature="")
        case ToolResult():
            return replace(part, content=_shortened(part.content), data="", mime_type="")
        case ToolCall() if len(part.input) > CUT_CHARS:
            return replace(part, input="{}")
        case Binary():
            return Text(f"[The attached file {part.path} is left out.]")
        case ShellCommand():
            return replace(part, output=_shortened(part.output))
        case ToolCall() | ImageUrl() | Finish():
            return part


def _shortened(text: str) -> str:
    whole = CUT_CHARS + len(CUT_MARK)  # cutting a text of this length would save nothing
    return text if len(text) <= whole else text[:CUT_CHARS] + CUT_MARK


def _size(part: Part) -> int:
    match part:
        case Text():
            return len(part.text)
        case Reasoning():
            return len(part.thinking)
        case ToolCall():
            return len(part.input) + len(part.name)
        case ToolResult():
            return len(part.content) + (IMAGE_CHARS if part.data else 0)
        case Binary():
            return IMAGE_CHARS if part.mime_type.startswith("image/") else len(part.data)
        case ShellCommand():
            return len(part.command) + len(part.output)
        case ImageUrl():
            return IMAGE_CHARS
        case Finish():
            return 0
