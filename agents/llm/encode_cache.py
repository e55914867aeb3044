"""Caches the encoded messages of a conversation, because every step sends all of them again.

Without the cache, a step's cost would grow with the length of its session. The cache holds only
messages that no later message can change: those before the newest reply.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from agents.llm.contract import ModelRequest
from agents.llm.history import Repair, Turn, has_content
from agents.llm.json_text import Encoded, dump
from agents.turn.transcript import TurnMessage

Json = dict[str, Any]
AddTurn = Callable[[list[Any], Turn], None]

# The newest cached messages are not serialized yet: wires put their cache marks on them.
READABLE = 8


def encode_incrementally(request: ModelRequest, key: Hashable, add_turn: AddTurn) -> list[Any]:
    """Returns the conversation as the wire's messages.

    The caller may change the list and the newest messages. Old messages may be fragments of JSON.
    ``key`` holds everything but the messages that the encoding depends on. ``add_turn`` appends a
    turn to the messages before it.
    """
    kept: _CachedTurns | None = request.memo.get(key)
    if kept is None:
        kept = request.memo[key] = _CachedTurns()
        return kept.encoded(request.messages, add_turn)
    kept.freeze()
    return kept.encoded(request.messages, add_turn)


class _CachedTurns:
    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._first: TurnMessage | None = None
        self._newest: TurnMessage | None = None
        self._count = 0  # of cached messages
        self._repair = Repair()
        self._encoded: list[Any] = []
        self._frozen = 0

    def encoded(self, messages: Sequence[TurnMessage], add_turn: AddTurn) -> list[Any]:
        if not self._is_longer_form(messages):
            self._begin()
        stable = newest_reply(messages)
        if stable > self._count:
            self._keep(messages, stable, add_turn)
        rest = Repair(after=self._repair)
        rest.take(messages, self._count, len(messages))
        newest: list[Any] = []
        for turn in rest.ended():
            add_turn(newest, turn)
        return self._encoded + newest

    def freeze(self) -> None:
        """Serializes old messages, so that later requests send the same bytes again."""
        for index in range(self._frozen, len(self._encoded) - READABLE):
            self._encoded[index] = Encoded(dump(self._encoded[index]))
            self._frozen = index + 1

    def _is_longer_form(self, messages: Sequence[TurnMessage]) -> bool:
        if self._count == 0:
            return True
        return (
            len(messages) >= self._count
            and messages[0] is self._first
            and messages[self._count - 1] is self._newest
        )

    def _keep(self, messages: Sequence[TurnMessage], stable: int, add_turn: AddTurn) -> None:
        known = len(self._repair.turns)
        self._repair.take(messages, self._count, stable)
        for turn in self._repair.turns[known:]:
            add_turn(self._encoded, turn)
        self._first, self._newest, self._count = messages[0], messages[stable - 1], stable


def newest_reply(messages: Sequence[TurnMessage]) -> int:
    """Returns the index of the newest reply, or 0. A reply without text or calls does not count."""
    for index in range(len(messages) - 1, -1, -1):
        if has_content(messages[index]):
            return index
    return 0
