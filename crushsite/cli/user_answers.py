"""Answers what a run waits for, permission requests and questions: by a rule, or by a person."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from agents.states import Answer
from crushsite.cli.request_text import (
    PermissionQuestion,
    choices_of,
    heading_of,
    lines_of,
    scope_of,
)
from crushsite.cli.terminal import UserTerminal, visible
from crushsite.cli.terminal_output import Survey, plain, summary_of
from crushsite.program_name import command_line

WORDS = {
    "y": "[y]es",
    "s": "yes for this [s]ession",
    "f": "for its [f]older",
    "n": "[n]o",
}
LONG = {"yes": "y", "session": "s", "folder": "f", "no": "n"}

Response = dict[str, Any]
YES = {"y": True, "yes": True, "n": False, "no": False}


@dataclass(frozen=True, slots=True)
class PermissionAnswer:
    """An answer, and the folder that it covers if the person chose one."""

    answer: Answer
    folder: str = ""


DENIED = PermissionAnswer(Answer.DENY)


class LeftOpen(Exception):
    """No answer from here: the request stays open for another client."""


class PermissionAnswerer(Protocol):
    async def ask(self, question: PermissionQuestion) -> PermissionAnswer:
        """Returns the answer. Is cancelled when another client is first. Raises ``LeftOpen``."""


def waiting_note(summary: str) -> str:
    return (
        f"waiting: an earlier prompt of this session needs an answer first: {summary}\n"
        "  This prompt has no terminal: answer from a terminal or from another client.\n"
    )


def _leave_open(question: PermissionQuestion, note: Callable[[str], None]) -> None:
    """Raises ``LeftOpen`` for a request that only a person may answer."""
    if question.is_trust:
        note(
            f"not trusted: {visible(question.path)}: parts of its configuration need your trust.\n"
            f"  Only the other parts apply. To see them, run `{command_line('trust')}` in that folder.\n"
        )
        raise LeftOpen
    if question.is_earlier:
        note(waiting_note(summary_of(question)))
        raise LeftOpen


def _not_again(question: PermissionQuestion, note: Callable[[str], None]) -> PermissionAnswer:
    """Denies the second run of a call, which only a person may allow: the turn continues."""
    note(f"not run again: {summary_of(question)}: the outcome of its first run is unknown\n")
    return DENIED


class Nobody:
    """Without a terminal: denies each request and prints how to allow it."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self.has_denied = False

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer:
        _leave_open(question, self._note)
        if question.is_cut:
            return _not_again(question, self._note)
        self.has_denied = True
        self._note(
            f"denied: {summary_of(question)}\n"
            "  This prompt has no terminal. Run it in a terminal, allow the tool in crush.json"
            " (permissions.allowed_tools), or pass --yolo.\n"
        )
        return DENIED


class AllowAll:
    """``--yolo``: allows what this prompt requests.

    Trust, earlier prompts and the second run of a call that was cut need a person.
    """

    def __init__(self, note: Callable[[str], None], person: Person | None) -> None:
        self._note = note
        self._person = person

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer:
        needs_person = question.is_earlier or question.is_trust or question.is_cut
        if needs_person and self._person is not None:
            return await self._person.ask(question)
        _leave_open(question, self._note)
        if question.is_cut:
            return _not_again(question, self._note)
        self._note(f"allowed: {summary_of(question)}\n")
        return PermissionAnswer(Answer.ALLOW)


class Person:
    """Asks at a terminal, and shows the whole request before it accepts an answer."""

    def __init__(
        self, terminal: UserTerminal, held_output: Callable[[], AbstractContextManager[None]]
    ) -> None:
        """``held_output`` holds other output back, so that nothing scrolls in between."""
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
                return DENIED  # the terminal is gone: the person may not have seen the request

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


# -- questions of a tool


class QuestionAnswerer(Protocol):
    async def survey(self, survey: Survey) -> Sequence[Response] | None:
        """Returns the answers, or ``None`` to dismiss the questions.

        Is cancelled when another client answers first. Raises ``LeftOpen``.
        """


class NobodyToAsk:
    """Without a terminal: dismisses the questions, so that the model continues."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note

    async def survey(self, survey: Survey) -> Sequence[Response] | None:
        if survey.is_earlier:
            words = ", ".join(plain(question["question"]) for question in survey.questions)
            self._note(waiting_note(words))
            raise LeftOpen
        for question in survey.questions:
            self._note(
                f"not answered, because this prompt has no terminal: {plain(question['question'])}\n"
            )
        return None


class PersonToAsk:
    """Asks at a terminal. ``held_output`` holds other output back meanwhile."""

    def __init__(
        self, terminal: UserTerminal, held_output: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._terminal = terminal
        self._held_output = held_output

    async def survey(self, survey: Survey) -> Sequence[Response] | None:
        with self._held_output():
            try:
                return await self._survey(survey)
            except asyncio.CancelledError:
                self._terminal.end_line()
                raise
            except OSError:
                return None  # the terminal is gone

    async def _survey(self, survey: Survey) -> Sequence[Response] | None:
        if survey.is_earlier:
            self._terminal.write("An earlier prompt of this session waits for an answer:\n")
        responses: list[Response] = []
        for question in survey.questions:
            answer = await self._answer(question)
            if answer is None:
                return None
            if answer:
                responses.append({"request_id": question["id"], **answer})
        return responses

    async def _answer(self, question: Mapping[str, Any]) -> Response | None:
        """Returns an empty response for a skipped question, ``None`` for a closed terminal."""
        choices = question.get("choices") or ()
        self._terminal.write(f"{plain(question['question'])}\n")
        if question.get("description"):
            self._terminal.write(f"  {plain(question['description'])}\n")
        for number, choice in enumerate(choices, start=1):
            about = f": {choice['description']}" if choice.get("description") else ""
            self._terminal.write(f"  {number}. {plain(choice['label'] + about)}\n")
        while True:
            line = await self._terminal.ask(_HINTS.get(question["type"], "  answer: "))
            if not line:
                return None
            typed = line.strip()
            if not typed:
                return {}
            answer = answer_of(question["type"], typed, [choice["id"] for choice in choices])
            if answer is not None:
                return answer


_HINTS = {
    "yes_no": "  [y]es, [n]o, or Enter to skip it: ",
    "single_choice": "  a number, or an answer of your own: ",
    "multi_choice": "  numbers with commas between them, or an answer of your own: ",
}


def answer_of(kind: str, typed: str, choices: Sequence[str]) -> Response | None:
    """Parses a typed answer; ``None`` if it does not fit the question. Pure."""
    if kind == "yes_no":
        yes = YES.get(typed.lower())
        return None if yes is None else {"yes": yes}
    if kind == "free_text":
        return {"fill_in_text": typed}
    numbers = [word.strip() for word in typed.split(",") if word.strip()]
    if not all(number.isdecimal() for number in numbers):
        return {"fill_in_text": typed}
    if not all(0 < int(number) <= len(choices) for number in numbers):
        return None
    if kind == "single_choice" and len(numbers) != 1:
        return None
    return {"selected_ids": list(dict.fromkeys(choices[int(number) - 1] for number in numbers))}
