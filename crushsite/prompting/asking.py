"""Who answers a permission's question: the person at the terminal, or a rule."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from typing import Protocol

from agents.actions.answer import Answer
from crushsite.prompting.telling import Question, plain

CHOICES = {
    "y": Answer.ALLOW,
    "yes": Answer.ALLOW,
    "s": Answer.ALLOW_SESSION,
    "session": Answer.ALLOW_SESSION,
    "n": Answer.DENY,
    "no": Answer.DENY,
}
LINE_BYTES = 4096


class Asker(Protocol):
    async def ask(self, question: Question) -> Answer:
        """May be cancelled, when somebody else has answered."""


class Nobody:
    """No terminal: what is asked is denied, with word of what to do."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self.has_denied = False

    async def ask(self, question: Question) -> Answer:
        self.has_denied = True
        self._note(
            f"denied: {told(question)}\n"
            "  Nobody is at a terminal to answer. Run this in a terminal, allow the tool in"
            " crush.json (permissions.allowed_tools), or give --yolo.\n"
        )
        return Answer.DENY


class Everybody:
    """``--yolo``."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note

    async def ask(self, question: Question) -> Answer:
        self._note(f"allowed: {told(question)}\n")
        return Answer.ALLOW


class Person:
    """At the terminal that is this process's standard input."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note

    async def ask(self, question: Question) -> Answer:
        self._note(f"{told(question)}\n")
        while True:
            self._note("  allow? [y]es, yes for this [s]ession, [n]o: ")
            line = await line_of(sys.stdin.fileno())
            if not line:
                return Answer.DENY  # the terminal is closed
            choice = CHOICES.get(line.strip().lower())
            if choice is not None:
                return choice


async def line_of(descriptor: int) -> str:
    """One line, without a thread that would outlive a question answered elsewhere."""
    loop = asyncio.get_running_loop()
    while True:
        ready = loop.create_future()
        loop.add_reader(descriptor, ready.set_result, None)
        try:
            await ready
        finally:
            loop.remove_reader(descriptor)
        # A terminal gives whole lines.
        return os.read(descriptor, LINE_BYTES).decode(errors="replace")


def told(question: Question) -> str:
    about = question.about or question.description
    said = f"{question.tool} wants to {question.action} in {question.path}"
    return plain(f"{said}: {about}" if about else said)
