"""Who answers a permission's question: the person at the terminal, or a rule."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from agents.runs.answer import Answer
from crushsite.cli.request_text import (
    PermissionQuestion,
    choices_of,
    heading_of,
    lines_of,
    scope_of,
)
from crushsite.cli.safe_text import visible
from crushsite.cli.terminal import UserTerminal
from crushsite.cli.terminal_output import summary_of
from crushsite.program_name import command_line

WORDS = {
    "y": "[y]es",
    "s": "yes for this [s]ession",
    "f": "for its [f]older",
    "n": "[n]o",
}
LONG = {"yes": "y", "session": "s", "folder": "f", "no": "n"}


@dataclass(frozen=True, slots=True)
class PermissionAnswer:
    """An answer, and the folder that it is for where a person chose one."""

    answer: Answer
    folder: str = ""


DENIED = PermissionAnswer(Answer.DENY)


class LeftOpen(Exception):
    """Nobody here answers; it waits for another client."""


class PermissionAnswerer(Protocol):
    async def ask(self, question: PermissionQuestion) -> PermissionAnswer:
        """May be cancelled, when somebody else has answered. Raises ``LeftOpen``."""


def waiting_note(summary: str) -> str:
    return (
        f"waiting: an earlier prompt of this session needs an answer first: {summary}\n"
        "  Nobody is at a terminal to give it: answer in a terminal or in another client.\n"
    )


def _leave_open(question: PermissionQuestion, note: Callable[[str], None]) -> None:
    """Raises ``LeftOpen`` for what nobody but a person may answer."""
    if question.is_trust:
        note(
            f"not trusted: {visible(question.path)} asks for more than a folder may do by itself.\n"
            f"  The rest of its configuration applies. To see what it asks for, run `{command_line('trust')}` in that folder.\n"
        )
        raise LeftOpen
    if question.is_earlier:
        note(waiting_note(summary_of(question)))
        raise LeftOpen


class Nobody:
    """No terminal: what is asked is denied, with word of what to do."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self.has_denied = False

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer:
        _leave_open(question, self._note)
        self.has_denied = True
        self._note(
            f"denied: {summary_of(question)}\n"
            "  Nobody is at a terminal to answer. Run this in a terminal, allow the tool in"
            " crush.json (permissions.allowed_tools), or give --yolo.\n"
        )
        return DENIED


class Everybody:
    """``--yolo``, which is about the prompt at hand: what an earlier one asks, a person answers."""

    def __init__(self, note: Callable[[str], None], person: Person | None) -> None:
        self._note = note
        self._person = person

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer:
        if (question.is_earlier or question.is_trust) and self._person is not None:
            return await self._person.ask(question)
        _leave_open(question, self._note)
        self._note(f"allowed: {summary_of(question)}\n")
        return PermissionAnswer(Answer.ALLOW)


class Person:
    """At a terminal. Sees all of what is asked before an answer counts."""

    def __init__(
        self, terminal: UserTerminal, held_output: Callable[[], AbstractContextManager[None]]
    ) -> None:
        """Other output waits while ``held_output`` lasts, so that nothing scrolls between."""
        self._terminal = terminal
        self._held_output = held_output

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer:
        lines = await asyncio.to_thread(lines_of, question)
        is_earlier = question.is_earlier and not question.is_trust
        earlier = "An earlier prompt of this session waits: " if is_earlier else ""
        with self._held_output():
            try:
                return await self._ask(f"{earlier}{heading_of(question)}", lines, question)
            except asyncio.CancelledError:
                self._terminal.end_line()
                raise
            except OSError:
                return DENIED  # the terminal is gone: nothing was seen

    async def _ask(
        self, heading: str, lines: list[str], question: PermissionQuestion
    ) -> PermissionAnswer:
        scope = "".join(f"  {line}\n" for line in scope_of(question))
        choices = choices_of(question)
        prompt = f"  allow? {', '.join(WORDS[letter] for letter in choices)}: "
        if not await self._terminal.show(heading, lines, below=scope + prompt):
            return DENIED
        self._terminal.write(scope)
        while True:
            typed = await self._terminal.ask(prompt)
            if not typed:
                return DENIED  # the terminal is closed
            word = typed.strip().lower()
            letter = LONG.get(word, word)
            if letter in _REPLIES and letter in choices:
                return _REPLIES[letter](question)


_REPLIES: Mapping[str, Callable[[PermissionQuestion], PermissionAnswer]] = {
    "y": lambda _: PermissionAnswer(Answer.ALLOW),
    "s": lambda _: PermissionAnswer(Answer.ALLOW_SESSION),
    "f": lambda question: PermissionAnswer(Answer.ALLOW_SESSION, question.folder),
    "n": lambda _: DENIED,
}
