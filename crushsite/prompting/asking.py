"""Who answers a permission's question: the person at the terminal, or a rule."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from agents.actions.answer import Answer
from crushsite.prompting.request_text import Question, heading_of, lines_of, scope_of
from crushsite.prompting.telling import summary_of
from crushsite.prompting.terminal import Terminal

CHOICES = {
    "y": Answer.ALLOW,
    "yes": Answer.ALLOW,
    "s": Answer.ALLOW_SESSION,
    "session": Answer.ALLOW_SESSION,
    "n": Answer.DENY,
    "no": Answer.DENY,
}
PROMPT = "  allow? [y]es, yes for this [s]ession, [n]o: "


class LeftOpen(Exception):
    """Nobody here answers; it waits for another client."""


class Asker(Protocol):
    async def ask(self, question: Question) -> Answer:
        """May be cancelled, when somebody else has answered. Raises ``LeftOpen``."""


def waiting_note(summary: str) -> str:
    return (
        f"waiting: an earlier prompt of this session needs an answer first: {summary}\n"
        "  Nobody is at a terminal to give it: answer in a terminal or in another client.\n"
    )


class Nobody:
    """No terminal: what is asked is denied, with word of what to do."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self.has_denied = False

    async def ask(self, question: Question) -> Answer:
        if question.is_earlier:
            self._note(waiting_note(summary_of(question)))
            raise LeftOpen
        self.has_denied = True
        self._note(
            f"denied: {summary_of(question)}\n"
            "  Nobody is at a terminal to answer. Run this in a terminal, allow the tool in"
            " crush.json (permissions.allowed_tools), or give --yolo.\n"
        )
        return Answer.DENY


class Everybody:
    """``--yolo``, which is about the prompt at hand: what an earlier one asks, a person answers."""

    def __init__(self, note: Callable[[str], None], person: Person | None) -> None:
        self._note = note
        self._person = person

    async def ask(self, question: Question) -> Answer:
        if question.is_earlier and self._person is not None:
            return await self._person.ask(question)
        if question.is_earlier:
            self._note(waiting_note(summary_of(question)))
            raise LeftOpen
        self._note(f"allowed: {summary_of(question)}\n")
        return Answer.ALLOW


class Person:
    """At a terminal. Sees all of what is asked before an answer counts."""

    def __init__(
        self, terminal: Terminal, held_output: Callable[[], AbstractContextManager[None]]
    ) -> None:
        """Other output waits while ``held_output`` lasts, so that nothing scrolls between."""
        self._terminal = terminal
        self._held_output = held_output

    async def ask(self, question: Question) -> Answer:
        lines = await asyncio.to_thread(lines_of, question)
        earlier = "An earlier prompt of this session waits: " if question.is_earlier else ""
        with self._held_output():
            try:
                return await self._ask(f"{earlier}{heading_of(question)}", lines, question)
            except asyncio.CancelledError:
                self._terminal.end_line()
                raise
            except OSError:
                return Answer.DENY  # the terminal is gone: nothing was seen

    async def _ask(self, heading: str, lines: list[str], question: Question) -> Answer:
        scope = f"  s allows {scope_of(question)} until the session ends\n"
        if not await self._terminal.show(heading, lines, below=scope + PROMPT):
            return Answer.DENY
        self._terminal.write(scope)
        while True:
            typed = await self._terminal.ask(PROMPT)
            if not typed:
                return Answer.DENY  # the terminal is closed
            choice = CHOICES.get(typed.strip().lower())
            if choice is not None:
                return choice
