"""Answers the questions that a tool asks the user: at the terminal, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from crushsite.cli.permission_prompt import LeftOpen, waiting_note
from crushsite.cli.terminal import UserTerminal
from crushsite.cli.terminal_output import Survey, plain

Response = dict[str, Any]
YES = {"y": True, "yes": True, "n": False, "no": False}


class QuestionAnswerer(Protocol):
    async def survey(self, survey: Survey) -> Sequence[Response] | None:
        """``None`` dismisses. May be cancelled, when somebody else has answered.

        Raises ``LeftOpen``.
        """


class NobodyToAsk:
    """No terminal: the model is told that nobody answers, and goes on."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note

    async def survey(self, survey: Survey) -> Sequence[Response] | None:
        if survey.is_earlier:
            words = ", ".join(plain(question["question"]) for question in survey.questions)
            self._note(waiting_note(words))
            raise LeftOpen
        for question in survey.questions:
            self._note(f"not answered, nobody is at a terminal: {plain(question['question'])}\n")
        return None


class PersonToAsk:
    """At a terminal. Other output waits while ``held_output`` lasts."""

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
        """Empty for a question that is passed over, ``None`` for a closed terminal."""
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
            said = line.strip()
            if not said:
                return {}
            answer = answer_of(question["type"], said, [choice["id"] for choice in choices])
            if answer is not None:
                return answer


_HINTS = {
    "yes_no": "  [y]es, [n]o, or Enter to skip it: ",
    "single_choice": "  a number, or words of your own: ",
    "multi_choice": "  numbers with commas between them, or words of your own: ",
}


def answer_of(kind: str, said: str, choices: Sequence[str]) -> Response | None:
    """``None`` for what does not fit. Pure."""
    if kind == "yes_no":
        yes = YES.get(said.lower())
        return None if yes is None else {"yes": yes}
    if kind == "free_text":
        return {"fill_in_text": said}
    numbers = [word.strip() for word in said.split(",") if word.strip()]
    if not all(number.isdecimal() for number in numbers):
        return {"fill_in_text": said}
    if not all(0 < int(number) <= len(choices) for number in numbers):
        return None
    if kind == "single_choice" and len(numbers) != 1:
        return None
    return {"selected_ids": list(dict.fromkeys(choices[int(number) - 1] for number in numbers))}
