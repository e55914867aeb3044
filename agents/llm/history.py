"""Repairs a transcript into what every provider accepts.

Pure. A stored conversation may be cut anywhere: calls without results, results
without calls, replies without words, the same id twice. Providers refuse all of
these. The result is a list of turns in which every call has exactly one result.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import orjson

from agents.llm.json_text import parse_object
from agents.turn.transcript import Message
from workspaces.events.parts import (
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
    plain_text,
    tool_calls,
)

NO_RESULT = "This call was interrupted: it has no result."
ID_LIMIT = 40  # the shortest limit of the known providers
NAME_LIMIT = 64


@dataclass(frozen=True, slots=True)
class UserTurn:
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class AssistantTurn:
    """Calls and results correspond one to one, in order; inputs are JSON objects."""

    parts: tuple[Text | Reasoning | ToolCall, ...]
    results: tuple[ToolResult, ...]
    provider: str
    model: str = ""

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tool_calls(self.parts)


Turn = UserTurn | AssistantTurn


def repaired(messages: Sequence[Message]) -> list[Turn]:
    """The turns, beginning with the user; system messages are left to ``system_of``."""
    turns: list[Turn] = []
    used: set[str] = set()
    for index, message in enumerate(messages):
        if message.role is Role.ASSISTANT:
            results = _results_after(messages, index)
            turn = _assistant_turn(message, results, used)
            if turn is not None:
                _append_reply(turns, turn)
        elif message.role is Role.USER:
            _append_user(turns, message.parts)
    if not turns or _is_finished_reply(turns[-1]):
        turns.append(UserTurn((Text("Please go on."),)))
    return turns


def _is_finished_reply(turn: Turn) -> bool:
    return isinstance(turn, AssistantTurn) and not turn.results


def _append_reply(turns: list[Turn], reply: AssistantTurn) -> None:
    """Never first, and never behind another reply that nobody answered."""
    if not turns:
        turns.append(UserTurn((Text("(The conversation goes on.)"),)))
    elif _is_finished_reply(turns[-1]):
        turns.append(UserTurn((Text("Please go on."),)))
    turns.append(reply)


def system_of(system: str, messages: Iterable[Message]) -> str:
    """The system prompt with the system messages of the transcript."""
    said = [plain_text(message.parts) for message in messages if message.role is Role.SYSTEM]
    return "\n\n".join(text for text in (system, *said) if text.strip())


def _append_user(turns: list[Turn], parts: Iterable[Part]) -> None:
    """Prompts that were folded in one after the other become one turn."""
    told = tuple(part for part in parts if not isinstance(part, Text) or part.text.strip())
    if not told:
        return
    if turns and isinstance(turns[-1], UserTurn):
        turns[-1] = UserTurn((*turns[-1].parts, *told))
    else:
        turns.append(UserTurn(told))


def _results_after(messages: Sequence[Message], index: int) -> dict[str, deque[ToolResult]]:
    """Results up to the next reply, also behind a prompt that was folded in meanwhile."""
    found: dict[str, deque[ToolResult]] = defaultdict(deque)
    for message in messages[index + 1 :]:
        if message.role is Role.ASSISTANT:
            break
        if message.role is Role.TOOL:
            for part in message.parts:
                if isinstance(part, ToolResult):
                    found[part.tool_call_id].append(part)
    return found


def _assistant_turn(
    message: Message, found: dict[str, deque[ToolResult]], used: set[str]
) -> AssistantTurn | None:
    parts: list[Text | Reasoning | ToolCall] = []
    results: list[ToolResult] = []
    for part in message.parts:
        if isinstance(part, ToolCall):
            call_id = _unique_id(part.id, used)
            name = _name(part.name)
            result = (
                found[part.id].popleft()
                if found.get(part.id)
                else ToolResult(part.id, name, NO_RESULT, is_error=True)
            )
            parts.append(replace(part, id=call_id, name=name, input=_input(part.input)))
            results.append(replace(result, tool_call_id=call_id, name=name))
        elif isinstance(part, Reasoning) or (isinstance(part, Text) and part.text.strip()):
            parts.append(part)
    if not any(isinstance(part, Text | ToolCall) for part in parts):
        return None  # reasoning alone is no reply
    return AssistantTurn(tuple(parts), tuple(results), message.provider, message.model)


def _input(raw: str) -> str:
    value = parse_object(raw)
    return "{}" if not value else orjson.dumps(value).decode()


def _name(raw: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_-]", "_", raw)[:NAME_LIMIT] or "unknown"


def _unique_id(raw: str, used: set[str]) -> str:
    base = re.sub(r"[^a-zA-Z0-9_-]", "_", raw)[:ID_LIMIT] or "call"
    unique, number = base, 1
    while unique in used:
        number += 1
        ending = f"_{number}"
        unique = base[: ID_LIMIT - len(ending)] + ending
    used.add(unique)
    return unique
