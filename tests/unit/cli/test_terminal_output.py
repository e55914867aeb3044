"""A run on the terminal: its words once and in order, its calls, its questions, its end."""

from __future__ import annotations

from typing import Any

import pytest

from crushsite.cli.request_text import PermissionQuestion
from crushsite.cli.terminal_output import (
    FeedOpened,
    FeedTooSlow,
    RequestClosed,
    RunEnded,
    Survey,
    TerminalOutput,
    plain,
)
from workspaces.log.types import StreamOnly

SESSION, RUN = "s-1", "r-1"


class Screen:
    def __init__(self) -> None:
        self.said = ""
        self.noted = ""
        self.transcript = TerminalOutput(
            session_id=SESSION, run_id=RUN, say=self.say, note=self.note
        )
        self.number = 10

    def say(self, text: str) -> None:
        self.said += text

    def note(self, text: str) -> None:
        self.noted += text

    def event(self, kind: str, **data: Any) -> Any:
        self.number += 1
        return self.transcript.take({"number": self.number, "type": kind, "data": data})

    def begin(self) -> None:
        assert (
            self.transcript.take({"type": "stream.opened", "data": {"number": 10}}) == FeedOpened()
        )
        self.event("run.started", run={"session_id": SESSION, "run_id": RUN})

    def message(self, kind: str, *parts: Any, role: str = "assistant", session: str = SESSION):
        message = {"id": f"m-{role}", "session_id": session, "role": role, "parts": list(parts)}
        return self.event(f"message.{kind}", message=message)


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "data": {"text": words}}


def known(kind: str, length: int, **data: Any) -> dict[str, Any]:
    return {"type": kind, "data": {**data, "length": length}}


@pytest.fixture
def screen() -> Screen:
    screen = Screen()
    screen.begin()
    return screen


def test_words_are_said_as_they_come(screen: Screen) -> None:
    screen.message("started")
    number = screen.number
    screen.transcript.take([number, 0, 0, "Good", "text"])
    assert screen.said == "Good"
    screen.transcript.take([number, 0, 4, "bye"])
    screen.message("finished", known("text", 7))
    assert screen.said == "Goodbye\n"


def test_a_retry_is_noted_with_its_pause_and_reason(screen: Screen) -> None:
    screen.message("started")
    retry = {"attempt": 2, "attempts": 6, "delay_seconds": 3.2, "reason": "slow down\x1b[1m"}
    message = {"id": "m-assistant", "session_id": SESSION, "role": "assistant", "parts": []}
    screen.event("message.restarted", message=message, retry=retry)
    assert screen.noted == "retrying (2 of 6) in 3.2 s: slow down�[1m\n"


def test_words_that_came_before_are_not_said_again(screen: Screen) -> None:
    screen.message("started")
    number = screen.number
    screen.transcript.take([number, 0, 0, "Hello", "text"])
    screen.transcript.take({"type": "message.progress", "data": progress(number, "Hello wor")})
    screen.transcript.take([number, 0, 3, "lo world"])
    screen.message("finished", text("Hello world"))
    assert screen.said == "Hello world\n"


def progress(number: int, words: str) -> dict[str, Any]:
    message = {"id": "m-assistant", "session_id": SESSION, "role": "assistant"}
    return {"number": number, "message": {**message, "parts": [text(words)]}}


def test_thoughts_are_not_the_answer(screen: Screen) -> None:
    screen.message("started")
    screen.transcript.take([screen.number, 0, 0, "Hmm", "reasoning"])
    screen.transcript.take([screen.number, 1, 0, "Yes", "text"])
    screen.message("finished", known("reasoning", 3), known("text", 3))
    assert screen.said == "Yes\n"


def test_a_call_is_noted_with_what_it_is_about(screen: Screen) -> None:
    screen.message("started")
    header = {"type": "tool_call", "id": "c", "name": "bash"}
    screen.transcript.take([screen.number, 0, 0, '{"command":', header])
    screen.transcript.take([screen.number, 0, 11, '"ls -l"}'])
    screen.message("finished", known("tool_call", 19, id="c", name="bash"))
    assert screen.noted == "→ bash ls -l\n"
    assert screen.said == ""


def test_a_result_is_noted_by_its_first_line(screen: Screen) -> None:
    result = {"tool_call_id": "c", "content": "one\ntwo\nthree", "is_error": False}
    screen.message("created", {"type": "tool_result", "data": result}, role="tool")
    failed = {**result, "content": "no such file", "is_error": True}
    screen.message("created", {"type": "tool_result", "data": failed}, role="tool")
    assert screen.noted == "← one … 2 more lines\n✗ no such file\n"


@pytest.mark.parametrize("kind", StreamOnly)
def test_it_accepts_every_item_without_a_number(screen: Screen, kind: StreamOnly) -> None:
    data = {"session_id": SESSION, "message_id": "m", "tool_call_id": "c", "text": "output"}
    if kind in {StreamOnly.PROGRESS, StreamOnly.OPENED}:
        data |= {"number": 10, "message": {"id": "m", "role": "assistant", "parts": []}}
    screen.transcript.take({"type": str(kind), "data": data})
    assert screen.transcript.cursor == screen.number
    assert (screen.said, screen.noted) == ("", "")


def test_nothing_of_other_runs_and_sessions_is_said() -> None:
    screen = Screen()
    screen.transcript.take({"type": "stream.opened", "data": {"number": 10}})
    screen.message("started")  # another run of the session is still busy
    screen.transcript.take([screen.number, 0, 0, "other", "text"])
    assert screen.event("run.finished", run=ended("completed", run_id="r-0")) is None
    screen.event("run.started", run={"session_id": SESSION, "run_id": RUN})
    screen.message("started", session="s-2")
    screen.transcript.take([screen.number, 0, 0, "elsewhere", "text"])
    assert screen.said == screen.noted == ""


def ended(outcome: str, *, run_id: str = RUN, error: str = "") -> dict[str, Any]:
    return {"session_id": SESSION, "run_id": run_id, "outcome": outcome, "error": error}


def test_the_end_is_told_with_its_outcome(screen: Screen) -> None:
    assert screen.event("run.finished", run=ended("failed", error="why")) == RunEnded(
        "failed", "why"
    )


def test_a_question_and_its_answer_are_news(screen: Screen) -> None:
    request = {
        "id": "q",
        "session_id": SESSION,
        "tool_name": "bash",
        "action": "execute",
        "path": "/p",
        "description": "Make a file",
        "params": {"command": "touch x"},
    }
    asked = screen.event("permission.requested", request=request)
    assert asked == PermissionQuestion(
        "q", "bash", "execute", "/p", "Make a file", {"command": "touch x"}
    )
    answered = screen.event("permission.resolved", request_id="q", session_id=SESSION)
    assert answered == RequestClosed("q")


def test_an_answer_that_begins_anew_says_so(screen: Screen) -> None:
    screen.message("started")
    screen.transcript.take([screen.number, 0, 0, "Half", "text"])
    screen.message("restarted")
    screen.transcript.take([screen.number, 0, 0, "Whole", "text"])
    screen.message("finished", known("text", 5))
    assert screen.said == "Half\nWhole\n"
    assert "starts again" in screen.noted


def test_a_repeated_event_is_told_once(screen: Screen) -> None:
    screen.message("created", text("Done"))
    screen.number -= 1
    screen.message("created", text("Done"))
    assert screen.said == "Done\n"


def test_a_feed_that_was_too_slow_goes_on_from_the_cursor(screen: Screen) -> None:
    screen.message("created", text("Done"))
    assert screen.transcript.take({"type": "stream.resume", "data": {"after": 12}}) == FeedTooSlow()
    assert screen.transcript.cursor == screen.number


def test_escapes_do_not_reach_a_terminal() -> None:
    assert plain("a\x1b]0;title\x07b\n\tc") == "a�]0;title�b\n\tc"


def test_questions_of_a_tool_are_to_be_answered() -> None:
    screen = Screen()
    screen.begin()
    questions = [{"id": "q", "type": "yes_no", "question": "Go?"}]
    batch = {"id": "b", "session_id": SESSION, "tool_call_id": "c", "questions": questions}

    assert screen.event("question.asked", batch=batch) == Survey("b", tuple(questions))
    assert screen.event("question.resolved", batch_id="b", session_id=SESSION) == RequestClosed("b")


def test_what_an_agent_below_asks_is_ours_to_answer() -> None:
    screen = Screen()
    screen.begin()
    asked = {
        "id": "p",
        "session_id": "below",
        "tool_name": "view",
        "action": "read",
        "path": "/x",
        "description": "",
        "params": {},
        "agent_path": [{"session_id": SESSION, "title": ""}, {"session_id": "below", "title": ""}],
    }

    question = screen.event("permission.requested", request=asked)

    assert isinstance(question, PermissionQuestion)
    assert screen.event(
        "permission.resolved", request_id="p", session_id="below", granted=True
    ) == RequestClosed("p")
