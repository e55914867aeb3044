"""Asks the user, in a batch of questions that any client may answer or dismiss."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.llm.contract import ToolSpec
from agents.tools import arguments
from agents.tools.contract import (
    BadArguments,
    DelegationResult,
    Repetition,
    RequiredPermission,
    ToolContext,
    ToolOutcome,
    UserAnswers,
    UserQuestions,
    load_description,
)
from agents.tools.limits import MAX_CHOICES, MAX_QUESTION_CHARS, MAX_QUESTIONS
from workspaces.log.ids import new_id

TYPES = ("yes_no", "single_choice", "multi_choice", "free_text")
CHOOSING = frozenset({"single_choice", "multi_choice"})
DISMISSED = (
    "User cancelled these questions without answering. Go on with what you know, "
    "or say what you cannot do without an answer."
)


@dataclass(frozen=True, slots=True)
class QuestionArgs:
    questions: tuple[Mapping[str, Any], ...]
    confirm_title: str
    confirm_description: str


class QuestionTool:
    repetition = Repetition.EFFECT
    spec = ToolSpec(
        name="question",
        description=load_description(__file__),
        schema={
            "type": "object",
            "properties": {
                "questions": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": MAX_QUESTIONS,
                    "items": {
                        "type": "object",
                        "properties": {
                            "type": {"type": "string", "enum": list(TYPES)},
                            "label": {"type": "string", "description": "One or two words."},
                            "question": {"type": "string", "description": "The question itself."},
                            "description": {
                                "type": "string",
                                "description": "Facts that help to answer it.",
                            },
                            "choices": {
                                "type": "array",
                                "maxItems": MAX_CHOICES,
                                "description": "For single_choice and multi_choice.",
                                "items": {
                                    "type": "object",
                                    "properties": {
                                        "id": {"type": "string"},
                                        "label": {"type": "string"},
                                        "description": {"type": "string"},
                                    },
                                    "required": ["label"],
                                },
                            },
                        },
                        "required": ["type", "question"],
                    },
                },
                "confirm_title": {
                    "type": "string",
                    "description": "The title of the page on which several answers are confirmed.",
                },
                "confirm_description": {"type": "string"},
            },
            "required": ["questions"],
        },
    )

    def parse(self, given: Mapping[str, Any]) -> QuestionArgs:
        questions = arguments.objects(given, "questions", max_items=MAX_QUESTIONS)
        if not questions:
            raise BadArguments("questions must contain at least one question.")
        return QuestionArgs(
            tuple(_question(label, item) for label, item in questions),
            _words(given, "confirm_title", ""),
            _words(given, "confirm_description", ""),
        )

    async def required_permission(
        self, _args: QuestionArgs, _context: ToolContext
    ) -> RequiredPermission | None:
        return None  # the tool itself asks the user

    async def delegate(self, args: QuestionArgs, _context: ToolContext) -> UserQuestions:
        return UserQuestions(args.questions, args.confirm_title, args.confirm_description)

    def settle(self, _args: QuestionArgs, end: DelegationResult) -> ToolOutcome:
        assert isinstance(end, UserAnswers)  # noqa: S101  the tool requests nothing else
        if end.is_dismissed:
            return ToolOutcome(DISMISSED, is_error=True)
        given = {response["request_id"]: response for response in end.responses}
        return ToolOutcome(
            "\n\n".join(
                _answered(number, question, given.get(question["id"]))
                for number, question in enumerate(end.questions, 1)
            )
        )

    async def run(self, _args: QuestionArgs, _context: ToolContext) -> ToolOutcome:
        raise AssertionError("A delegating tool is never run.")


def _question(label: str, item: Mapping[str, Any]) -> Mapping[str, Any]:
    kind = _words(item, "type", None, label)
    if kind not in TYPES:
        raise BadArguments(f"{label}type must be one of {', '.join(TYPES)}, not {kind!r:.80}.")
    # The server assigns the ids: an answer without a batch is matched by the id.
    question: dict[str, Any] = {
        "id": new_id(),
        "type": kind,
        "question": arguments.text(
            item, "question", max_bytes=MAX_QUESTION_CHARS, blank=False, within=label
        ),
    }
    for name in ("label", "description"):
        if words := _words(item, name, "", label):
            question[name] = words
    if kind in CHOOSING:
        question["choices"] = _choices(label, item)
    return question


def _choices(label: str, item: Mapping[str, Any]) -> Sequence[Mapping[str, str]]:
    choices: list[Mapping[str, str]] = []
    taken: set[str] = set()
    if not item.get("choices"):
        raise BadArguments(f"{label}choices is missing: this type needs at least one.")
    for within, given in arguments.objects(item, "choices", max_items=MAX_CHOICES):
        words = arguments.text(
            given, "label", max_bytes=MAX_QUESTION_CHARS, blank=False, within=label + within
        )
        choice_id = _words(given, "id", "", label + within) or f"choice_{len(choices) + 1}"
        if choice_id in taken:
            raise BadArguments(f"{label}{within}id {choice_id!r:.80} is used twice.")
        taken.add(choice_id)
        choice = {"id": choice_id, "label": words}
        if description := _words(given, "description", "", label + within):
            choice["description"] = description
        choices.append(choice)
    return choices


def _words(given: Mapping[str, Any], name: str, default: str | None, within: str = "") -> str:
    return arguments.text(given, name, default=default, max_bytes=MAX_QUESTION_CHARS, within=within)


def _answered(number: int, question: Mapping[str, Any], response: Mapping[str, Any] | None) -> str:
    """Returns a block without blank lines: clients split the result there and parse each line."""
    heading = f"Q{number}: {' '.join(question['question'].split())}"
    return "\n".join([heading, *(_answer_lines(response) or ["User provided: (not answered)"])])


def _answer_lines(response: Mapping[str, Any] | None) -> list[str]:
    if response is None:
        return []
    lines: list[str] = []
    if response.get("yes") is not None:
        lines.append(f"User answered: {'yes' if response['yes'] else 'no'}")
    if selected := response.get("selected_ids"):
        lines.append(f"User selected: {json.dumps(list(selected), ensure_ascii=False)}")
    for heading, name in (("User provided", "fill_in_text"), ("Notes", "notes")):
        if text := response.get(name):
            words = "\n".join(line for line in text.splitlines() if line.strip())
            lines.append(f"{heading}: {words}")
    return lines
