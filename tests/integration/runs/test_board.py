"""What the sessions of several workspaces are doing."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents.runs.objects.board import board_sessions, last_line
from agents.runs.steps import ReplyStart
from agents.states import RunOutcome
from permissions.actions.questions import add_questions
from permissions.actions.requests import request_permission
from tests.integration.runs.ground import (
    Ground,
    begin,
    claim,
    end,
    held_by,
    open_ground,
    run_of,
    say,
    step,
    write,
)
from workspaces.actions.sessions import create_session, mark_session
from workspaces.log.parts import Binary, Part, Text, ToolCall, parts_to_wire
from workspaces.models import Message, Session, Workspace


def numbers() -> dict[str, int]:
    return dict(Workspace.objects.values_list("pk", "last_event"))


def board(ground: Ground, limit: int = 10) -> dict[str, dict[str, Any]]:
    sessions = board_sessions(numbers(), limit)[ground.workspace_id]
    return {session["title"]: session for session in sessions}


def request(ground: Ground, session_id: str, run_key: int) -> str:
    return write(
        lambda tx: request_permission(
            tx,
            ground.workspace_id,
            session_id,
            run_key=run_key,
            tool_call_id="call",
            tool_name="bash",
            action="execute",
            path="/project",
            description="Run\n\x1b[31mmake\u202e test",
            params={},
        )
    )


def test_a_new_session_is_idle(ground: Ground) -> None:
    shown = board(ground)["The first"]
    assert (shown["state"], shown["last_line"], shown["ended_at"]) == ("idle", "", None)
    assert shown["waiting"] is None


def test_a_prompt_is_queued_then_working_then_done(ground: Ground) -> None:
    key = ground.accept("go")
    assert board(ground)["The first"]["state"] == "queued"
    held = begin(held_by(key, *claim()))
    say(held, "I look.\n\nAt this:\n", ["call"])
    shown = board(ground)["The first"]
    started = run_of(key).started_at
    assert started is not None
    assert (shown["state"], shown["since"]) == ("working", started // 1000)
    assert shown["last_line"] == "bash"
    say(held, "It is done.")
    end(held)
    shown = board(ground)["The first"]
    assert (shown["state"], shown["last_line"]) == ("done", "It is done.")
    finished = run_of(key).finished_at
    assert finished is not None
    assert shown["since"] == shown["ended_at"] == finished // 1000


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (RunOutcome.FAILED, "failed"),
        (RunOutcome.INTERRUPTED, "interrupted"),
        (RunOutcome.OVER_BUDGET, "over_budget"),
        (RunOutcome.CANCELLED, "idle"),
    ],
)
def test_the_newest_run_decides(ground: Ground, outcome: RunOutcome, state: str) -> None:
    end(ground.start("one"))
    end(ground.start("two"), outcome)
    assert board(ground)["The first"]["state"] == state


def test_a_prompt_behind_a_running_one_does_not_hide_it(ground: Ground) -> None:
    ground.start("one")
    ground.accept("two")
    assert board(ground)["The first"]["state"] == "working"


def test_an_open_request_waits(ground: Ground) -> None:
    held = ground.start()
    request_id = request(ground, ground.session_id, held.key)
    shown = board(ground)["The first"]
    assert shown["state"] == "waiting"
    assert shown["waiting"] == {
        "kind": "approval",
        "id": request_id,
        "session_id": ground.session_id,
        "tool_name": "bash",
        "title": "Run [31mmake test",
    }


def test_a_question_of_a_child_session_waits_at_the_top(ground: Ground) -> None:
    held = ground.start()
    child = write(
        lambda tx: create_session(
            tx, ground.workspace_id, title="child", parent_session_id=ground.session_id
        )
    )
    below = write(
        lambda tx: create_session(
            tx, ground.workspace_id, title="below", parent_session_id=child["id"]
        )
    )
    batch_id = write(
        lambda tx: add_questions(
            tx,
            ground.workspace_id,
            below["id"],
            run_key=held.key,
            tool_call_id="call",
            questions=[{"id": "q", "type": "single_choice", "question": "Which one?"}],
        )
    )
    sessions = board(ground)
    assert list(sessions) == ["The first"]
    waiting = sessions["The first"]["waiting"]
    assert (waiting["kind"], waiting["id"], waiting["title"]) == (
        "questions",
        batch_id,
        "Which one?",
    )
    assert waiting["session_id"] == below["id"]


def test_the_newest_are_shown_and_those_that_work(ground: Ground) -> None:
    ground.start()  # the oldest session
    for number in range(5):
        ground.new_session(f"s{number}")
    for number, session in enumerate(Session.objects.exclude(title="The first").order_by("title")):
        Session.objects.filter(pk=session.pk).update(updated_at=10**14 + number)
    assert list(board(ground, limit=2)) == ["s4", "s3", "The first"]


def test_archived_and_deleted_sessions_are_not_shown(ground: Ground) -> None:
    ground.new_session("kept")
    write(lambda tx: mark_session(tx, ground.workspace_id, ground.session_id, is_archived=True))
    Session.objects.filter(pk=ground.new_session("gone")).update(is_deleting=True)
    assert list(board(ground)) == ["kept"]


def count_queries() -> int:
    with CaptureQueriesContext(connection) as queries:
        board_sessions(numbers(), 10)
    return len(queries)


def test_the_number_of_queries_does_not_grow(ground: Ground) -> None:
    def work(place: Ground) -> None:
        held = place.start()
        say(held, "words")
        request(place, place.session_id, held.key)

    work(ground)
    few = count_queries()
    for number in range(5):
        work(open_ground(f"/other/{number}"))
    assert count_queries() == few <= 10


def test_a_workspace_without_work_is_read_again_after_an_event(ground: Ground) -> None:
    held = ground.start()
    say(held, "first")
    end(held)
    assert board(ground)["The first"]["last_line"] == "first"
    few = count_queries()
    held = ground.start()
    assert count_queries() > few
    say(held, "second")
    assert board(ground)["The first"]["last_line"] == "second"
    end(held, RunOutcome.FAILED)
    shown = board(ground)["The first"]
    assert (shown["state"], shown["last_line"]) == ("failed", "second")
    assert count_queries() == few


def test_a_checkpoint_of_a_reply_is_shown(ground: Ground) -> None:
    held = ground.start()
    step(held, start=ReplyStart("model", "provider"))
    assert board(ground)["The first"]["last_line"] == ""
    parts = orjson.dumps(parts_to_wire([Text("so far")])).decode()
    Message.objects.filter(run_key=held.key).update(parts=parts)
    assert board(ground)["The first"]["last_line"] == "so far"


def test_a_workspace_without_sessions_has_none(ground: Ground) -> None:
    assert board_sessions({"unknown": 0}, 1) == {"unknown": []}
    assert board_sessions({}, 1) == {}


@pytest.mark.parametrize(
    ("parts", "line"),
    [
        ([Text("one\ntwo\n \n")], "two"),
        ([Text("x" * 300)], "x" * 199 + "…"),
        ([Text("a\x00b\x1b[0m\u2066c\r\nd\x07e\tf")], "de f"),
        (
            [Text("words"), ToolCall("c", "bash", '{"n": 1, "command": "ls -l\\nrm"}')],
            "bash: ls -l rm",
        ),
        ([Text("words"), ToolCall("c", "view", '{"file_pa')], "view"),
        ([Text("words"), Binary("a.png", "image/png", "AAAA")], "words"),
        ([], ""),
    ],
)
def test_the_last_line_is_plain(parts: list[Part], line: str) -> None:
    assert last_line(orjson.dumps(parts_to_wire(parts)).decode()) == line
