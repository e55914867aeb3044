"""Repairs a transcript so that every provider accepts it.

Pure. A stored conversation may be cut anywhere: calls without results, results
without calls, replies without text, the same id twice. Providers refuse all of
these. The result is a list of turns in which every call has exactly one result.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace

import orjson

from agents.llm.json_text import parse_object
from agents.turn.transcript import TurnMessage
from workspaces.log.parts import (
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
    """A reply and its results: one result for each call, in order; inputs are JSON objects."""

    parts: tuple[Text | Reasoning | ToolCall, ...]
    results: tuple[ToolResult, ...]
    provider: str
    model: str = ""

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tool_calls(self.parts)


Turn = UserTurn | AssistantTurn


def repaired(messages: Sequence[TurnMessage]) -> list[Turn]:
    """Returns the turns, beginning with the user; ``system_of`` handles system messages."""
    repair = Repair()
    repair.take(messages, 0, len(messages))
    return repair.ended()


class Repair:
    """Repairs a transcript piece by piece, as it grows.

    Messages are final once a reply follows them: until then, more results and prompts can come.
    """

    def __init__(self, after: Repair | None = None) -> None:
        """``after``: a repair to continue from, which stays unchanged."""
        self.turns: list[Turn] = []
        self._last = after.last if after is not None else None
        self._used: set[str] = set()  # ids of calls
        self._used_before: Container[str] = after if after is not None else ()

    def __contains__(self, call_id: object) -> bool:
        return call_id in self._used or call_id in self._used_before

    @property
    def last(self) -> Turn | None:
        return self.turns[-1] if self.turns else self._last

    def take(self, messages: Sequence[TurnMessage], start: int, stop: int) -> None:
        for index in range(start, stop):
            message = messages[index]
            if message.role is Role.ASSISTANT:
                results = _results_after(messages, index)
                turn = _assistant_turn(message, results, self._unique_id)
                if turn is not None:
                    self._append_reply(turn)
            elif message.role is Role.USER:
                self._append_user(message.parts)

    def ended(self) -> list[Turn]:
        """Returns the turns; the last one is a turn that a model can answer."""
        if self.last is None or _is_finished_reply(self.last):
            self.turns.append(UserTurn((Text("Please go on."),)))
        return self.turns

    def _append_reply(self, reply: AssistantTurn) -> None:
        """Appends a reply, after a prompt if it would be first or follow another finished reply."""
        if self.last is None:
            self.turns.append(UserTurn((Text("(The conversation goes on.)"),)))
        elif _is_finished_reply(self.last):
            self.turns.append(UserTurn((Text("Please go on."),)))
        self.turns.append(reply)

    def _append_user(self, parts: Iterable[Part]) -> None:
        """Appends a prompt; consecutive prompts become one turn."""
        kept = tuple(part for part in parts if not isinstance(part, Text) or part.text.strip())
        if not kept:
            return
        if self.turns and isinstance(self.turns[-1], UserTurn):
            self.turns[-1] = UserTurn((*self.turns[-1].parts, *kept))
        else:
            self.turns.append(UserTurn(kept))

    def _unique_id(self, raw: str) -> str:
        base = re.sub(r"[^a-zA-Z0-9_-]", "_", raw)[:ID_LIMIT] or "call"
        unique, number = base, 1
        while unique in self:
            number += 1
            ending = f"_{number}"
            unique = base[: ID_LIMIT - len(ending)] + ending
        self._used.add(unique)
        return unique


def has_content(message: TurnMessage) -> bool:
    """Whether a message is a reply with text or calls; reasoning alone does not count."""
    return message.role is Role.ASSISTANT and any(
        isinstance(part, ToolCall) or (isinstance(part, Text) and part.text.strip() != "")
        for part in message.parts
    )


def _is_finished_reply(turn: Turn) -> bool:
    return isinstance(turn, AssistantTurn) and not turn.results


def system_of(system: str, messages: Iterable[TurnMessage]) -> str:
    """Returns the system prompt followed by the system messages of the transcript."""
    texts = [plain_text(message.parts) for message in messages if message.role is Role.SYSTEM]
    return "\n\n".join(text for text in (system, *texts) if text.strip())


def _results_after(messages: Sequence[TurnMessage], index: int) -> dict[str, deque[ToolResult]]:
    """Returns the results up to the next reply, including those after a folded prompt."""
    found: dict[str, deque[ToolResult]] = defaultdict(deque)
    for later in range(index + 1, len(messages)):
        message = messages[later]
        if message.role is Role.ASSISTANT:
            break
        if message.role is Role.TOOL:
            for part in message.parts:
                if isinstance(part, ToolResult):
                    found[part.tool_call_id].append(part)
    return found


def _assistant_turn(
    message: TurnMessage, found: dict[str, deque[ToolResult]], unique_id: Callable[[str], str]
) -> AssistantTurn | None:
    parts: list[Text | Reasoning | ToolCall] = []
    results: list[ToolResult] = []
    for part in message.parts:
        if isinstance(part, ToolCall):
            call_id = unique_id(part.id)
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
        return None  # reasoning alone is not a reply
    return AssistantTurn(tuple(parts), tuple(results), message.provider, message.model)


def _input(raw: str) -> str:
    value = parse_object(raw)
    return "{}" if not value else orjson.dumps(value).decode()


def _name(raw: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_-]", "_", raw)[:NAME_LIMIT] or "unknown"
