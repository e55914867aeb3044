"""A conversation that grows, told again at each step: what was told before is kept encoded.

Without this a step would cost more and more, the longer its session. Only what no later message
can change is kept: everything before the newest reply.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from agents.llm.contract import ModelRequest
from agents.llm.history import Repair, Turn, says_something
from agents.llm.json_text import Encoded, dump
from agents.turn.transcript import TurnMessage

Json = dict[str, Any]
AddTurn = Callable[[list[Any], Turn], None]

# The newest of the kept messages stay readable: wires put their cache marks on them.
READABLE = 8


def encode_incrementally(request: ModelRequest, key: Hashable, add_turn: AddTurn) -> list[Any]:
    """The conversation as the wire's messages; the list and the newest messages are the caller's.

    ``key``: everything beside the messages that the encoding depends on. ``add_turn`` appends a
    turn to the messages before it. Old messages may be fragments of JSON.
    """
    kept: _CachedTurns | None = request.memo.get(key)
    if kept is None:
        kept = request.memo[key] = _CachedTurns()
        return kept.told(request.messages, add_turn)
    kept.freeze()
    return kept.told(request.messages, add_turn)


class _CachedTurns:
    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._first: TurnMessage | None = None
        self._newest: TurnMessage | None = None
        self._count = 0  # messages that are kept
        self._repair = Repair()
        self._encoded: list[Any] = []
        self._frozen = 0

    def told(self, messages: Sequence[TurnMessage], add_turn: AddTurn) -> list[Any]:
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
        """Old messages are sent as the bytes that they have been."""
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
    """Its index; 0 where there is none. One that says nothing is left out, and divides nothing."""
    for index in range(len(messages) - 1, -1, -1):
        if says_something(messages[index]):
            return index
    return 0
