"""What a person types in answer to a tool's questions."""

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import pytest

from crushsite.cli.terminal_output import Survey
from crushsite.cli.user_answers import NobodyToAsk, PersonToAsk, answer_of
from tests.doubles.seat import Seat

CHOICES = [{"id": "a", "label": "Apples"}, {"id": "b", "label": "Pears", "description": "ripe"}]
SURVEY = Survey(
    "batch",
    (
        {"id": "1", "type": "yes_no", "question": "Go?", "description": "Shall we"},
        {"id": "2", "type": "single_choice", "question": "Which?", "choices": CHOICES},
        {"id": "3", "type": "free_text", "question": "\x1b[31mName?"},
    ),
)


@pytest.mark.parametrize(
    ("kind", "said", "answer"),
    [
        ("yes_no", "Y", {"yes": True}),
        ("yes_no", "no", {"yes": False}),
        ("yes_no", "perhaps", None),
        ("free_text", "Ada", {"fill_in_text": "Ada"}),
        ("single_choice", "2", {"selected_ids": ["b"]}),
        ("single_choice", "3", None),
        ("single_choice", "0", None),
        ("single_choice", "1, 2", None),
        ("single_choice", "plums", {"fill_in_text": "plums"}),
        ("multi_choice", "2, 1, 2", {"selected_ids": ["b", "a"]}),
        ("multi_choice", "1,", {"selected_ids": ["a"]}),
    ],
)
def test_an_answer_is_read_by_its_questions_type(
    kind: str, said: str, answer: dict[str, Any] | None
) -> None:
    assert answer_of(kind, said, ["a", "b"]) == answer


async def survey(*lines: str) -> tuple[Sequence[dict[str, Any]] | None, str]:
    """Each line is typed after a prompt has appeared; Ctrl-D closes the terminal."""
    with Seat() as seat:
        asking = asyncio.create_task(PersonToAsk(seat.terminal, nullcontext).survey(SURVEY))
        for line in lines:
            await seat.wait_for("skip it: ", "answer of your own: ", "answer: ")
            seat.type(line)
        return await asyncio.wait_for(asking, 60), seat.shown


async def test_each_question_is_shown_and_asked_again_until_it_fits() -> None:
    answer, shown = await survey("maybe\n", "y\n", "2\n", "Ada\n")

    assert answer == [
        {"request_id": "1", "yes": True},
        {"request_id": "2", "selected_ids": ["b"]},
        {"request_id": "3", "fill_in_text": "Ada"},
    ]
    assert "Shall we" in shown
    assert "2. Pears: ripe" in shown
    assert "\x1b" not in shown


async def test_an_empty_line_passes_a_question_over() -> None:
    answer, _ = await survey("\n", "1\n", "\n")

    assert answer == [{"request_id": "2", "selected_ids": ["a"]}]


async def test_a_closed_terminal_dismisses() -> None:
    assert (await survey("y\n", "\x04"))[0] is None


async def test_without_a_terminal_they_are_dismissed_with_a_word() -> None:
    noted: list[str] = []

    assert await NobodyToAsk(noted.append).survey(SURVEY) is None
    assert len(noted) == 3
    assert "\x1b" not in "".join(noted)
