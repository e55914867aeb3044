"""A session from a snapshot and items: what people see of it."""

from __future__ import annotations

from typing import Any

import pytest

from crushclient.items import LogEvent, MessageState, NewText, OutputSoFar, StreamLive
from crushclient.session_state import FINISHED_KEPT, SessionState

Json = dict[str, Any]


def snapshot(**more: Any) -> Json:
    sessions = [
        {"id": "s", "title": "one", "created_at": 1, "updated_at": 1},
        {"id": "child", "title": "", "parent_session_id": "s"},
        {"id": "grandchild", "title": "", "parent_session_id": "child"},
        {"id": "other", "title": ""},
    ]
    return {"number": 10, "workspace": {"id": "w"}, "sessions": sessions, **more}


def message(id: str, *parts: Json, session: str = "s", role: str = "assistant") -> Json:
    return {"id": id, "session_id": session, "role": role, "parts": list(parts)}


def text(value: str) -> Json:
    return {"type": "text", "data": {"text": value}}


FINISH: Json = {"type": "finish", "data": {"reason": "end_turn", "time": 1}}


class State(SessionState):
    """With events that number themselves."""

    def event(self, kind: str, **data: Any) -> bool:
        return self.apply(LogEvent(self.number + 1, kind, data))


def state(**more: Any) -> State:
    return State("s", snapshot(**more))


def test_a_message_is_written_and_ends() -> None:
    now = state(messages=[message("m1", text("hello"), FINISH, role="user")])
    now.event("message.started", message=message("m2"))
    assert now.messages["m2"].is_open
    for at, word in ((0, "one"), (3, " two"), (0, "one")):
        now.apply(NewText("s", "m2", 11, 0, at, word, "text"))
    assert now.messages["m2"].text == "one two"
    now.event("message.finished", message=message("m2", text("one two"), FINISH))
    assert not now.messages["m2"].is_open
    assert [each.text for each in now.messages.values()] == ["hello", "one two"]
    assert [each.role for each in now.messages.values()] == ["user", "assistant"]


def test_reasoning_and_tool_calls_are_no_text() -> None:
    now = state()
    now.event("message.started", message=message("m"))
    now.apply(NewText("s", "m", 11, 0, 0, "think", "reasoning"))
    now.apply(NewText("s", "m", 11, 1, 0, "say", "text"))
    now.apply(NewText("s", "m", 11, 2, 0, "{}", "tool_call", {"id": "c", "name": "ls"}))
    folded = now.messages["m"]
    assert (folded.text, folded.reasoning) == ("say", "think")
    assert folded.parts[2] == {
        "type": "tool_call",
        "data": {"id": "c", "name": "ls", "input": "{}"},
    }


def test_the_state_of_a_message_replaces_it() -> None:
    now = state(messages=[message("m", text("one two"))])
    assert now.apply(MessageState(5, message("m", text("one"))))
    assert now.messages["m"].text == "one"
    assert not now.apply(MessageState(6, message("x", session="other")))
    assert list(now.messages) == ["m"]


def test_an_event_that_the_snapshot_includes_changes_nothing() -> None:
    now = state()
    event = LogEvent(10, "session.updated", {"session": {"id": "s", "title": "older"}})
    assert not now.apply(event)
    assert now.session is not None
    assert now.session["title"] == "one"


def test_runs_pass_through_their_states() -> None:
    now = state(
        runs=[{"key": 1, "session_id": "s", "accept_number": 1, "run_id": "a", "state": "parked"}]
    )
    for key, run_id in ((3, "c"), (2, "b")):
        run = {"key": key, "session_id": "s", "accept_number": key, "run_id": run_id}
        now.event("run.accepted", run={**run, "prompt": run_id})
    assert [run["prompt"] for run in now.queue] == ["b", "c"]
    now.event("run.resumed", run={"key": 1, "session_id": "s", "accept_number": 1})
    assert now.runs[1]["state"] == "running"
    assert now.runs[1]["run_id"] == "a"
    now.event("run.finished", run={"key": 1, "session_id": "s", "outcome": "completed"})
    assert [run["prompt"] for run in now.queue] == ["c"]  # the other one is about to start
    now.event("run.folded", run={"key": 2, "session_id": "s"})
    now.event("run.finished", run={"key": 3, "session_id": "s", "outcome": "cancelled"})
    assert not now.is_busy
    assert now.queue == []
    run = now.run_of("c")
    assert run is not None
    assert (run["state"], run["outcome"]) == ("finished", "cancelled")
    assert now.run_of("x") is None


def test_old_finished_runs_are_forgotten() -> None:
    now = state()
    for key in range(FINISHED_KEPT + 5):
        now.event("run.finished", run={"key": key, "session_id": "s"})
    assert len(now.runs) == FINISHED_KEPT
    assert 4 not in now.runs


@pytest.mark.parametrize(
    ("session", "concerns"),
    [
        ("s", True),
        ("child", True),
        ("grandchild", True),
        ("", True),
        ("other", False),
        ("x", False),
    ],
)
def test_requests_of_the_session_its_children_and_the_workspace(
    session: str, concerns: bool
) -> None:
    now = state(permissions=[{"id": "p0", "session_id": session}])
    assert list(now.permissions) == (["p0"] if concerns else [])
    assert now.event("permission.requested", request={"id": "p", "session_id": session}) is concerns
    assert now.event("question.asked", batch={"id": "q", "session_id": session}) is concerns
    assert ("p" in now.permissions, "q" in now.questions) == (concerns, concerns)
    now.event("permission.overdue", request_id="p", session_id=session)
    assert ("p" in now.permissions) is concerns
    now.event("permission.resolved", request_id="p", session_id=session)
    now.event("question.resolved", batch_id="q", session_id=session, state="answered")
    assert ("p" in now.permissions, "q" in now.questions) == (False, False)


def test_a_new_child_counts() -> None:
    now = state()
    now.event("session.created", session={"id": "new", "parent_session_id": "grandchild"})
    assert now.event("permission.requested", request={"id": "p", "session_id": "new"})


def test_output_is_shown_until_its_result_comes() -> None:
    now = state()
    assert now.apply(OutputSoFar("s", "m", "c", "out"))
    assert not now.apply(OutputSoFar("other", "m", "d", "out"))
    assert now.outputs == {"c": "out"}
    result = {"type": "tool_result", "data": {"tool_call_id": "c", "content": "output"}}
    now.event("message.created", message=message("t", result, FINISH, role="tool"))
    assert now.outputs == {}


def test_a_deleted_session_has_nothing_left() -> None:
    now = state(messages=[message("m", text("one"))])
    now.event("session.deleted", session={"id": "s", "title": "one"})
    assert now.session is None
    assert now.messages == {}


def test_events_of_others_do_not_concern_the_session() -> None:
    now = state()
    assert not now.event("message.created", message=message("m", session="other"))
    assert not now.event("run.accepted", run={"key": 1, "session_id": "other"})
    assert not now.event("summary.progressed", session_id="other", progress="", done=False)
    assert now.event("summary.progressed", session_id="s", progress="", done=False)
    assert now.event("config.changed", workspace_id="w")
    assert now.event("workspace.updated", workspace={"id": "w", "skip_permissions": True})
    assert now.workspace["skip_permissions"]
    assert now.apply(StreamLive(now.number))
    assert now.event("news.of_a_newer_server", session_id="s")
