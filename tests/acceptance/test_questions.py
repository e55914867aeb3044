"""Questions that a tool asks the user: every type, answered or dismissed by any client."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.calling import call, results
from tests.acceptance.conversation import Seat, roles_and_finishes, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.shapes import Server

Connect = Callable[[Server], Client]
MakeProject = Callable[..., Path]

CHOICES = [
    {"id": "pg", "label": "PostgreSQL", "description": "Several processes."},
    {"id": "lite", "label": "SQLite"},
]
ALL_TYPES = [
    {"type": "yes_no", "label": "Go", "question": "Go?", "description": "Shall we"},
    {"type": "single_choice", "question": "Which database?", "choices": CHOICES},
    {"type": "multi_choice", "question": "Which are installed?", "choices": CHOICES},
    {"type": "free_text", "question": "What is its name?"},
]


def ask(*questions: dict[str, Any], **more: str) -> str:
    return call("question", questions=list(questions), **more)


async def batch_of(seat: Seat, *, start: int = 0) -> dict[str, Any]:
    event = await seat.stream.wait_for(lambda e: e.type == "question_batch_request", start=start)
    return event.payload


async def result_of(seat: Seat, session: str) -> dict[str, Any]:
    complete = await seat.stream.run_complete(session)
    assert "error" not in complete
    return results(await seat.workspace.messages(session))[-1]


async def test_questions_of_all_four_types_are_sent_in_one_batch_and_answered(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    seat = await take_seat(connect(shared_server), project("types"))
    session = await seat.workspace.session()
    await seat.workspace.prompt(
        session, ask(*ALL_TYPES, confirm_title="Sure?", confirm_description="Look again.")
    )
    batch = await batch_of(seat)

    assert batch["session_id"] == session
    assert (batch["confirm_title"], batch["confirm_description"]) == ("Sure?", "Look again.")
    assert [question["type"] for question in batch["questions"]] == [q["type"] for q in ALL_TYPES]
    assert batch["questions"][0]["label"] == "Go"
    assert batch["questions"][1]["choices"] == CHOICES
    go, database, installed, name = (question["id"] for question in batch["questions"])
    resolved = await seat.workspace.answer_questions(
        batch["id"],
        [
            {"request_id": go, "yes": True, "notes": "but slowly"},
            {"request_id": database, "selected_ids": ["pg"]},
            {"request_id": installed, "selected_ids": ["pg", "lite"]},
            {"request_id": name, "fill_in_text": "Ada"},
        ],
    )

    assert resolved is True
    result = await result_of(seat, session)
    assert not result["is_error"]
    assert result["content"] == (
        "Q1: Go?\nUser answered: yes\nNotes: but slowly\n\n"
        'Q2: Which database?\nUser selected: ["pg"]\n\n'
        'Q3: Which are installed?\nUser selected: ["pg", "lite"]\n\n'
        "Q4: What is its name?\nUser provided: Ada"
    )
    (closed,) = seat.stream.of("question_batch_notification")
    assert closed.payload == {"batch_id": batch["id"]}


async def test_any_client_answers_and_the_first_answer_counts(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    path = project("first-wins")
    asker = await take_seat(connect(shared_server), path)
    session = await asker.workspace.session()
    await asker.workspace.prompt(session, ask({"type": "yes_no", "question": "Go?"}))
    await batch_of(asker)
    other = await take_seat(connect(shared_server), path)
    batch = await batch_of(other)  # told again to whoever attaches
    (question,) = batch["questions"]

    answers = await asyncio.gather(
        *(
            seat.workspace.answer_questions(
                batch["id"], [{"request_id": question["id"], "yes": seat is asker}]
            )
            for seat in (asker, other)
        )
    )

    assert sorted(answers) == [False, True]
    result = await result_of(asker, session)
    assert result["content"].endswith("yes" if answers[0] else "no")
    await other.stream.run_complete(session)  # each client has a connection of its own
    for seat in (asker, other):
        assert len(seat.stream.of("question_batch_notification")) == 1


async def test_a_batch_without_an_id_is_found_by_its_question(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    seat = await take_seat(connect(shared_server), project("by-question"))
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, ask({"type": "free_text", "question": "Name?"}))
    batch = await batch_of(seat)
    answer = {"request_id": batch["questions"][0]["id"], "fill_in_text": "Grace"}

    assert await seat.workspace.answer_questions("", [answer | {"request_id": "no such"}]) is False
    assert await seat.workspace.answer_questions("", [answer]) is True

    assert (await result_of(seat, session))["content"].endswith("Grace")


@pytest.mark.parametrize("named", [True, False])
async def test_dismissed_questions_are_reported_to_the_model_which_continues(
    shared_server: Server, connect: Connect, project: MakeProject, named: bool
) -> None:
    seat = await take_seat(connect(shared_server), project(f"dismissed-{named}"))
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, ask({"type": "yes_no", "question": "Go?"}))
    batch = await batch_of(seat)

    body = {"batch_request_id": batch["id"]} if named else None
    answer = await seat.workspace.call("POST", "/questions/cancel", body)

    assert answer == {"resolved": True}
    result = await result_of(seat, session)
    assert result["is_error"]
    assert result["content"].startswith("User cancelled")
    messages = await seat.workspace.messages(session)
    assert roles_and_finishes(messages)[-1] == ("assistant", "end_turn")
    again = await seat.workspace.call("POST", "/questions/cancel", {"batch_request_id": ""})
    assert again == {"resolved": False}


async def test_a_cancel_closes_the_questions(
    shared_server: Server, connect: Connect, project: MakeProject
) -> None:
    seat = await take_seat(connect(shared_server), project("cancelled"))
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, ask({"type": "yes_no", "question": "Go?"}))
    batch = await batch_of(seat)

    await seat.workspace.cancel(session)
    complete = await seat.stream.run_complete(session)

    assert complete["cancelled"] is True
    closed = [e.payload["batch_id"] for e in seat.stream.of("question_batch_notification")]
    assert closed == [batch["id"]]
    late = [{"request_id": batch["questions"][0]["id"], "yes": True}]
    assert await seat.workspace.answer_questions(batch["id"], late) is False


async def test_questions_outlive_a_restart(
    server: Server, connect: Connect, project: MakeProject
) -> None:
    path = project("restart")
    seat = await take_seat(connect(server), path)
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, ask(*ALL_TYPES), run_id="kept")
    before = await batch_of(seat)

    await asyncio.to_thread(server.kill9)
    await asyncio.to_thread(server.restart)
    back = await take_seat(connect(server), path)
    batch = await batch_of(back)
    assert batch == before
    (go, *_) = batch["questions"]
    assert await back.workspace.answer_questions(
        batch["id"], [{"request_id": go["id"], "yes": False}]
    )
    complete = await back.stream.run_complete(session)

    assert complete["run_id"] == "kept"
    result = results(await back.workspace.messages(session))[-1]
    assert "User answered: no" in result["content"]
    assert result["content"].count("(not answered)") == 3


@pytest.mark.parametrize(
    ("response", "named"),
    [
        ({"request_id": "{database}", "selected_ids": ["mysql"]}, "mysql"),
        ({"request_id": "{database}", "selected_ids": ["pg", "lite"]}, "one choice"),
        ({"request_id": "nobody", "yes": True}, "nobody"),
        ({"request_id": "{database}", "selected_ids": "pg"}, "selected_ids"),
        ({"yes": True}, "request_id"),
    ],
)
async def test_an_answer_that_does_not_fit_is_refused_and_the_questions_stay(
    shared_server: Server,
    connect: Connect,
    project: MakeProject,
    response: dict[str, Any],
    named: str,
) -> None:
    seat = await take_seat(connect(shared_server), project("misfit"))
    session = await seat.workspace.session()
    await seat.workspace.prompt(session, ask(*ALL_TYPES))
    batch = await batch_of(seat)
    database = batch["questions"][1]["id"]
    body = json.loads(json.dumps(response).replace("{database}", database))

    refused = await seat.workspace.call(
        "POST",
        "/questions/answer",
        {"batch_request_id": batch["id"], "responses": [body]},
        expect=400,
    )

    assert named in refused["message"]
    assert seat.stream.of("question_batch_notification") == []
    assert await seat.workspace.answer_questions(
        batch["id"], [{"request_id": database, "selected_ids": ["lite"]}]
    )
    assert 'User selected: ["lite"]' in (await result_of(seat, session))["content"]


@pytest.mark.parametrize(
    ("questions", "field"),
    [
        ([], "questions"),
        ([{"type": "essay", "question": "?"}], "questions[0].type"),
        ([{"type": "single_choice", "question": "?"}], "questions[0].choices"),
        ([{"type": "yes_no"}], "questions[0].question"),
    ],
)
async def test_wrong_arguments_are_reported_to_the_model_with_the_field(
    shared_server: Server,
    connect: Connect,
    project: MakeProject,
    questions: list[dict[str, Any]],
    field: str,
) -> None:
    seat = await take_seat(connect(shared_server), project("wrong"))
    session = await seat.workspace.session()

    await seat.workspace.prompt(session, ask(*questions))
    result = await result_of(seat, session)

    assert result["is_error"]
    assert field in result["content"]
