"""What a run has said and used so far: its words, kept within bounds, and its steps. Pure."""

from __future__ import annotations

from typing import Any

MOST_CHARACTERS = 256 * 1024


class Produced:
    def __init__(self, step_types: frozenset[str]) -> None:
        self._step_types = step_types
        self._words: list[str] = []
        self._length = 0
        self.events = 0
        self.steps = 0

    def take(self, event: Any) -> None:
        self.events += 1
        if not isinstance(event, dict):
            return
        kind = event.get("type")
        if isinstance(kind, str) and kind in self._step_types:
            self.steps += 1
        content = event.get("content")
        if kind == "token" and isinstance(content, str):
            room = MOST_CHARACTERS - self._length
            if room > 0:
                self._words.append(content[:room])
                self._length += min(len(content), room)

    @property
    def text(self) -> str:
        return "".join(self._words)
