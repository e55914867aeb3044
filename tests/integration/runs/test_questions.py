"""Questions to the user: answered or dismissed once, by whoever is first."""

from __future__ import annotations

from typing import Any

import pytest

from agents.runs.answer import dismiss_open_batch, resolve_batch
from agents.runs.children.delegations import begin_delegation, delegation_result
from agents.runs.lease import Lease
from agents.tools.contract import UserAnswers, UserQuestions
from permissions.models import QuestionBatch
from tests.integration.runs.ground import Ground, end, open_ground, run_of, say, step, write
from workspaces.log.errors import BadField

CHOICES = [{"id": "a", "label": "A"}, {"id": "b", "label": "B"}]


def question(name: str, kind: str = "single_choice") -> dict[str, Any]:
    return {"id": name, "type": kind, "question": "which?", "choices": CHOICES}


def ask(held: Lease, *questions: dict[str, Any], call_id: str = "c") -> str:
    asked = UserQuestions(tuple(questions), confirm_title="t\x00", confirm_description="d")
    write(lambda tx: begin_delegation(tx, held, asked, message_id="m", call_id=call_id))
    return QuestionBatch.objects.get(tool_call_id=call_id).pk


def answer(ground: Ground, batch_id: str, *responses: dict[str, Any]) -> bool:
    return write(lambda tx: resolve_batch(tx, ground.workspace_id, batch_id, responses)).is_first


def dismiss(ground: Ground, batch_id: str = "") -> bool:
    return write(lambda tx: dismiss_open_batch(tx, ground.workspace_id, batch_id)).is_first


def response(name: str, *selected: str) -> dict[str, Any]:
    return {"request_id": name, "selected_ids": list(selected)}


@pytest.fixture
def held(ground: Ground) -> Lease:
    held = ground.start()
    say(held, calls=["c", "d"])
    return held


def test_a_batch_is_shown_and_waited_for(ground: Ground, held: Lease) -> None:
    batch_id = ask(held, question("q"))
    step(held, parks=True)

    (asked,) = ground.events("question.asked")
    assert asked["batch"]["id"] == batch_id
    assert asked["batch"]["confirm_title"] == "t\ufffd"
    assert asked["batch"]["confirm_description"] == "d"
    assert write(lambda tx: delegation_result(tx, held, "c")) == (True, None)

    assert answer(ground, batch_id, response("q", "a"))

    assert run_of(held.key).state == "ready"
    sent, ended = write(lambda tx: delegation_result(tx, held, "c"))
    assert sent
    assert isinstance(ended, UserAnswers)
    assert ended.responses == (response("q", "a"),)
    assert not ended.is_dismissed
    (resolved,) = ground.events("question.resolved")
    assert (resolved["batch_id"], resolved["state"]) == (batch_id, "answered")


def test_the_first_answer_wins(ground: Ground, held: Lease) -> None:
    batch_id = ask(held, question("q"))
    assert answer(ground, batch_id, response("q", "a"))
    assert answer(ground, batch_id, response("q", "b")) is False
    assert dismiss(ground, batch_id) is False
    assert QuestionBatch.objects.get().responses == [response("q", "a")]


def test_a_dismissed_batch_lets_its_run_go_on(ground: Ground, held: Lease) -> None:
    ask(held, question("q"))
    step(held, parks=True)
    assert dismiss(ground)
    assert run_of(held.key).state == "ready"
    ended = write(lambda tx: delegation_result(tx, held, "c"))[1]
    assert isinstance(ended, UserAnswers)
    assert ended.is_dismissed
    assert not dismiss(ground)


def test_a_batch_without_its_id_is_found_by_a_question(ground: Ground, held: Lease) -> None:
    first, second = ask(held, question("q1")), ask(held, question("q2"), call_id="d")
    assert answer(ground, "", response("q2", "a"))
    assert QuestionBatch.objects.get(pk=first).state == "pending"
    assert QuestionBatch.objects.get(pk=second).state == "answered"
    assert answer(ground, "", response("unknown")) is False


def test_without_an_id_the_oldest_batch_is_dismissed(ground: Ground, held: Lease) -> None:
    first, second = ask(held, question("q1")), ask(held, question("q2"), call_id="d")
    QuestionBatch.objects.filter(pk=first).update(asked_at=1)
    assert dismiss(ground)
    assert QuestionBatch.objects.get(pk=first).state == "dismissed"
    assert QuestionBatch.objects.get(pk=second).state == "pending"
    assert dismiss(ground, second)


def test_a_batch_of_another_workspace_is_not_found(ground: Ground, held: Lease) -> None:
    batch_id = ask(held, question("q"))
    other = open_ground("/other")
    assert not answer(other, batch_id, response("q", "a"))
    assert not dismiss(other, batch_id)
    assert not dismiss(other)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (response("unknown", "a"), "there is no question 'unknown'"),
        (response("q", "c"), "'c' is not a choice of q"),
        (response("q", "a", "b"), "q takes one choice"),
    ],
)
def test_a_response_that_does_not_fit_changes_nothing(
    ground: Ground, held: Lease, given: dict[str, Any], sentence: str
) -> None:
    batch_id = ask(held, question("q"))
    with pytest.raises(BadField, match=sentence):
        answer(ground, batch_id, given)
    assert QuestionBatch.objects.get().state == "pending"


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("multi_choice", response("q", "a", "b")),
        ("single_choice", response("q", "b")),
        ("single_choice", response("q")),
        ("free_text", {"request_id": "q", "text": "words"}),
    ],
)
def test_a_response_that_fits_is_taken(
    ground: Ground, held: Lease, kind: str, given: dict[str, Any]
) -> None:
    assert answer(ground, ask(held, question("q", kind)), given)


def test_the_end_of_a_run_withdraws_its_questions(ground: Ground, held: Lease) -> None:
    ask(held, question("q"))
    end(held)
    assert QuestionBatch.objects.get().state == "withdrawn"
    assert ground.events("question.resolved")[0]["state"] == "withdrawn"


def test_without_an_id_a_batch_that_is_over_stands_in_nobodys_way(
    ground: Ground, held: Lease
) -> None:
    """A tool that asks the same again uses the same names."""
    first = ask(held, question("q"))
    assert answer(ground, first, response("q", "a"))
    second = ask(held, question("q"), call_id="d")
    QuestionBatch.objects.filter(pk=first).update(asked_at=1)

    assert answer(ground, "", response("q", "b"))

    assert QuestionBatch.objects.get(pk=second).responses == [response("q", "b")]
    assert QuestionBatch.objects.get(pk=first).responses == [response("q", "a")]


def test_without_an_id_the_oldest_of_the_open_batches_is_dismissed(
    ground: Ground, held: Lease
) -> None:
    first, second = ask(held, question("q1")), ask(held, question("q2"), call_id="d")
    QuestionBatch.objects.filter(pk=first).update(asked_at=1)
    assert dismiss(ground)
    assert dismiss(ground)
    assert not dismiss(ground)
    assert QuestionBatch.objects.get(pk=second).state == "dismissed"


def test_every_response_of_an_answer_must_fit(ground: Ground, held: Lease) -> None:
    batch_id = ask(held, question("q1"), question("q2"))
    for given in (response("q2", "c"), response("q3", "a")):
        for named in (batch_id, ""):
            with pytest.raises(BadField):
                answer(ground, named, response("q1", "a"), given)
    assert QuestionBatch.objects.get().state == "pending"
    assert answer(ground, "", response("q1", "a"), response("q2", "b"))


def test_the_answers_of_one_run_let_no_other_go_on(ground: Ground, held: Lease) -> None:
    other = ground.start(session_id=ground.new_session())
    say(other, calls=["x"])
    ask(other, question("q2"), call_id="x")
    step(other, parks=True)
    batch_id = ask(held, question("q1"))
    step(held, parks=True)
    assert answer(ground, batch_id, response("q1", "a"))
    assert (run_of(held.key).state, run_of(other.key).state) == ("ready", "parked")
