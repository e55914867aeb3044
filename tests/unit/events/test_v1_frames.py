"""The ``/v1`` envelopes, against what its clients were recorded to receive."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from workspaces.delivery import v1_frames
from workspaces.log.rows import without_empty
from workspaces.log.transaction import RecordedEvent
from workspaces.log.types import Kind

NO_MESSAGE = {
    "created_at": 0,
    "id": "",
    "model": "",
    "parts": [],
    "provider": "",
    "role": "",
    "session_id": "",
    "updated_at": 0,
}
SESSION = {
    "attached_clients": 0,
    "completion_tokens": 3,
    "cost": 0,
    "created_at": 1794993635,
    "id": "8f201672",
    "is_busy": False,
    "message_count": 2,
    "parent_session_id": "",
    "prompt_tokens": 10,
    "summary_message_id": "",
    "title": "word0 word1 word2",
    "updated_at": 1794993635,
}
RETRY = {"attempt": 2, "attempts": 6, "delay_seconds": 0.5, "reason": "slow down"}
MESSAGE = {
    "created_at": 1794993635,
    "id": "ea050387",
    "model": "fake-large",
    "parts": [
        {"data": {"text": "word0 word1 "}, "type": "text"},
        {"data": {"reason": "end_turn", "time": 1794993635}, "type": "finish"},
    ],
    "provider": "fake",
    "role": "assistant",
    "session_id": "8f201672",
    "updated_at": 1794993635,
}
REQUEST = {
    "action": "execute",
    "description": "Execute command: touch made.txt",
    "id": "1f4fbcc8",
    "params": {"command": "touch made.txt", "description": "make", "working_dir": ""},
    "path": "/home/dev/project",
    "session_id": "2623f7e2",
    "tool_call_id": "call_1395_0",
    "tool_name": "bash",
}
FILE = {
    "content": "alpha\n",
    "created_at": 1794993656,
    "id": "c8699a23",
    "path": "/home/dev/project/a/one.txt",
    "session_id": "471e5128",
    "updated_at": 1794993656,
    "version": 0,
}
BATCH = {
    "id": "ccab5c15",
    "questions": [
        {
            "description": "Shall we",
            "id": "da8ebc3b",
            "label": "Go",
            "question": "Go?",
            "type": "yes_no",
        }
    ],
    "session_id": "a9c0f259",
    "tool_call_id": "call_1555_0",
}
MCP = {"type": "state_changed", "name": "notes", "state": "connected", "tool_count": 3}
LSP = {"type": "diagnostics_changed", "name": "pyright", "state": 2, "diagnostic_count": 4}
SKILLS = {
    "states": [
        {"name": "release", "path": "/home/dev/.skills/release/SKILL.md", "state": 0},
        {"name": "", "path": "/home/dev/.skills/bad/SKILL.md", "state": 1, "error": "no name"},
    ]
}


def tell(kind: str, payload: dict[str, Any]) -> list[dict[str, Any]]:
    """A run's text is that of the message that ended before it."""
    words = payload.get("run", {}).get("text", "")
    part = {"type": "text", "data": {"text": words}}
    reply = {"id": payload.get("run", {}).get("message_id"), "parts": [part]}
    event = RecordedEvent("w", 1, kind, "s", payload, orjson.dumps(payload), 0)
    return read(v1_frames.frames_of(event, reply=reply))


def read(frames: bytes) -> list[dict[str, Any]]:
    if not frames:
        return []
    assert frames.endswith(b"\n\n")
    blocks = frames[:-2].split(b"\n\n")
    assert all(block.startswith(b"data: ") for block in blocks)
    assert all(len(block.decode().splitlines()) == 1 for block in blocks)
    return [orjson.loads(block[len(b"data: ") :]) for block in blocks]


def envelope(kind: str, change: str, payload: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "payload": {"type": change, "payload": payload}}


def run(outcome: str, **more: Any) -> dict[str, Any]:
    return {"run": {"session_id": "s1", "message_id": "m1", "outcome": outcome, **more}}


RECORDED: dict[str, tuple[str, dict[str, Any], list[dict[str, Any]]]] = {
    "session created": (
        Kind.SESSION_CREATED,
        {"session": SESSION},
        [envelope("session", "created", SESSION)],
    ),
    "session updated": (
        Kind.SESSION_UPDATED,
        {"session": SESSION},
        [envelope("session", "updated", SESSION)],
    ),
    "session deleted": (
        Kind.SESSION_DELETED,
        {"session": SESSION},
        [envelope("session", "deleted", SESSION)],
    ),
    "message created": (
        Kind.MESSAGE_CREATED,
        {"message": MESSAGE},
        [envelope("message", "created", MESSAGE)],
    ),
    "message started": (
        Kind.MESSAGE_STARTED,
        {"message": {**MESSAGE, "parts": []}},
        [envelope("message", "created", {**MESSAGE, "parts": []})],
    ),
    "message restarted": (
        Kind.MESSAGE_RESTARTED,
        {"message": {**MESSAGE, "parts": []}, "retry": RETRY},
        [
            envelope("message", "updated", {**MESSAGE, "parts": []}),
            envelope(
                "agent_event",
                "created",
                {
                    "message": NO_MESSAGE,
                    "retry": RETRY,
                    "session_id": MESSAGE["session_id"],
                    "type": "retry",
                },
            ),
        ],
    ),
    "message restarted by an earlier version": (
        Kind.MESSAGE_RESTARTED,
        {"message": {**MESSAGE, "parts": []}},
        [envelope("message", "updated", {**MESSAGE, "parts": []})],
    ),
    "message finished": (
        Kind.MESSAGE_FINISHED,
        {"message": MESSAGE},
        [envelope("message", "updated", MESSAGE)],
    ),
    "message updated": (
        Kind.MESSAGE_UPDATED,
        {"message": MESSAGE},
        [envelope("message", "updated", MESSAGE)],
    ),
    "run completed": (
        Kind.RUN_FINISHED,
        run("completed", run_id="r1", text="word0 ", session_title="word0"),
        [
            envelope(
                "run_complete",
                "updated",
                {"message_id": "m1", "run_id": "r1", "session_id": "s1", "text": "word0 "},
            ),
            envelope(
                "agent_event",
                "created",
                {
                    "message": NO_MESSAGE,
                    "session_id": "s1",
                    "session_title": "word0",
                    "type": "agent_finished",
                },
            ),
        ],
    ),
    "run of an interactive client completed": (
        Kind.RUN_FINISHED,
        run("completed", run_id="", text=""),
        [
            envelope("run_complete", "updated", {"message_id": "m1", "session_id": "s1"}),
            envelope(
                "agent_event",
                "created",
                {
                    "message": NO_MESSAGE,
                    "session_id": "s1",
                    "session_title": "",
                    "type": "agent_finished",
                },
            ),
        ],
    ),
    "run cancelled is never an error": (
        Kind.RUN_FINISHED,
        run("cancelled", run_id="r1", error="context canceled"),
        [
            envelope(
                "run_complete",
                "updated",
                {"cancelled": True, "message_id": "m1", "run_id": "r1", "session_id": "s1"},
            )
        ],
    ),
    "queued run cleared": (
        Kind.RUN_FINISHED,
        {"run": {"session_id": "s1", "message_id": "", "outcome": "cancelled", "run_id": "r1"}},
        [
            envelope(
                "run_complete",
                "updated",
                {"cancelled": True, "message_id": "", "run_id": "r1", "session_id": "s1"},
            )
        ],
    ),
    "run failed": (
        Kind.RUN_FINISHED,
        run("failed", run_id="r1", error="bad request: scripted status 400"),
        [
            envelope(
                "run_complete",
                "updated",
                {
                    "error": "bad request: scripted status 400",
                    "message_id": "m1",
                    "run_id": "r1",
                    "session_id": "s1",
                },
            )
        ],
    ),
    "agent failed": (
        Kind.AGENT_FAILED,
        {"session_id": "s1", "run_id": "r1", "error": "bad request: scripted status 400"},
        [
            envelope(
                "agent_event",
                "created",
                {
                    "error": "bad request: scripted status 400",
                    "message": NO_MESSAGE,
                    "run_id": "r1",
                    "session_id": "s1",
                    "type": "error",
                },
            )
        ],
    ),
    "agent failed for an interactive client": (
        Kind.AGENT_FAILED,
        {"session_id": "s1", "run_id": "", "error": "no"},
        [
            envelope(
                "agent_event",
                "created",
                {"error": "no", "message": NO_MESSAGE, "session_id": "s1", "type": "error"},
            )
        ],
    ),
    "permission requested": (
        Kind.PERMISSION_REQUESTED,
        {"request": REQUEST},
        [
            envelope(
                "permission_notification",
                "created",
                {"denied": False, "granted": False, "tool_call_id": "call_1395_0"},
            ),
            envelope("permission_request", "created", REQUEST),
        ],
    ),
    "permission resolved": (
        Kind.PERMISSION_RESOLVED,
        {
            "request_id": "1f4fbcc8",
            "session_id": "s",
            "tool_call_id": "call_1395_0",
            "granted": True,
            "denied": False,
        },
        [
            envelope(
                "permission_notification",
                "created",
                {"denied": False, "granted": True, "tool_call_id": "call_1395_0"},
            )
        ],
    ),
    "question asked": (
        Kind.QUESTION_ASKED,
        {"batch": BATCH},
        [envelope("question_batch_request", "created", BATCH)],
    ),
    "question resolved": (
        Kind.QUESTION_RESOLVED,
        {
            "batch_id": "ccab5c15",
            "session_id": "a9c0f259",
            "tool_call_id": "call_1555_0",
            "state": "answered",
        },
        [envelope("question_batch_notification", "created", {"batch_id": "ccab5c15"})],
    ),
    "summary begun": (
        Kind.SUMMARY_PROGRESSED,
        {"session_id": "s1", "progress": "Summarizing the session", "done": False},
        [
            envelope(
                "agent_event",
                "created",
                {
                    "done": False,
                    "message": NO_MESSAGE,
                    "progress": "Summarizing the session",
                    "session_id": "s1",
                    "type": "summarize",
                },
            )
        ],
    ),
    "summary done": (
        Kind.SUMMARY_PROGRESSED,
        {"session_id": "s1", "progress": "", "done": True},
        [
            envelope(
                "agent_event",
                "created",
                {
                    "done": True,
                    "message": NO_MESSAGE,
                    "progress": "",
                    "session_id": "s1",
                    "type": "summarize",
                },
            )
        ],
    ),
    "permission mode changed": (
        Kind.WORKSPACE_UPDATED,
        {"workspace": {"id": "w", "permission_mode": "sysadmin"}},
        [envelope("permission_mode_changed", "updated", {"mode": "sysadmin"})],
    ),
    "a workspace as an older server stored it": (
        Kind.WORKSPACE_UPDATED,
        {"workspace": {"id": "w", "skip_permissions": True}},
        [],
    ),
    "MCP servers are late": (
        Kind.MCP_AWAITED,
        {"session_id": "s1", "servers": ["a"]},
        [
            envelope(
                "agent_event",
                "created",
                {
                    "message": NO_MESSAGE,
                    "servers": ["a"],
                    "session_id": "s1",
                    "type": "mcp_awaited",
                },
            )
        ],
    ),
    "MCP server changed": (
        Kind.MCP_CHANGED,
        {"mcp": MCP},
        [envelope("mcp_event", "updated", MCP)],
    ),
    "MCP server failed": (
        Kind.MCP_CHANGED,
        {"mcp": {"type": "state_changed", "name": "n", "state": "error", "error": "it ended"}},
        [
            envelope(
                "mcp_event",
                "updated",
                {"type": "state_changed", "name": "n", "state": "error", "error": "it ended"},
            )
        ],
    ),
    "language server changed": (
        Kind.LSP_CHANGED,
        {"lsp": LSP},
        [envelope("lsp_event", "updated", LSP)],
    ),
    "skills changed": (
        Kind.SKILLS_CHANGED,
        SKILLS,
        [envelope("skills_event", "updated", SKILLS)],
    ),
    "file versioned": (Kind.FILE_VERSIONED, {"file": FILE}, [envelope("file", "created", FILE)]),
    "configuration changed": (
        Kind.CONFIG_CHANGED,
        {"workspace_id": "30a1856c"},
        [envelope("config_changed", "updated", {"workspace_id": "30a1856c"})],
    ),
}
UNTOLD = {
    Kind.WORKSPACE_OPENED,
    Kind.WORKSPACE_CLOSED,
    Kind.RUN_ACCEPTED,
    Kind.RUN_STARTED,
    Kind.RUN_PARKED,
    Kind.RUN_RESUMED,
    Kind.RUN_FOLDED,
}


@pytest.mark.parametrize("name", RECORDED)
def test_it_tells_what_was_recorded(name: str) -> None:
    kind, payload, expected = RECORDED[name]

    assert tell(kind, payload) == expected
    assert tell(str(kind), payload) == expected  # as the log holds it


@pytest.mark.parametrize("kind", sorted(UNTOLD))
def test_the_rest_is_not_told(kind: Kind) -> None:
    assert tell(kind, {}) == []


def test_every_kind_is_either_told_or_left_out_on_purpose() -> None:
    told = {kind for kind, _, _ in RECORDED.values()}

    assert told.isdisjoint(UNTOLD)
    assert {kind for kind in Kind if kind not in told | UNTOLD} == set()


@pytest.mark.parametrize("kind", ["agent", "fetch", "summary"])
@pytest.mark.parametrize("outcome", ["completed", "cancelled", "failed"])
def test_the_end_of_a_run_that_no_prompt_began_is_not_told(kind: str, outcome: str) -> None:
    assert tell(Kind.RUN_FINISHED, run(outcome, kind=kind, run_id="", text="word0")) == []


@pytest.mark.parametrize("state", ["answered", "dismissed", "withdrawn"])
def test_a_batch_is_closed_for_clients_however_it_ended(state: str) -> None:
    told = tell(Kind.QUESTION_RESOLVED, {"batch_id": "b", "session_id": "s", "state": state})

    assert told == [envelope("question_batch_notification", "created", {"batch_id": "b"})]


def test_a_client_that_comes_later_is_asked_with_the_same_envelope() -> None:
    assert read(v1_frames.question_frame(BATCH)) == tell(Kind.QUESTION_ASKED, {"batch": BATCH})
    assert read(v1_frames.permission_frames(REQUEST)) == tell(
        Kind.PERMISSION_REQUESTED, {"request": REQUEST}
    )


def test_a_session_has_every_field_also_those_that_the_log_leaves_out() -> None:
    session = {**SESSION, "is_busy": False, "cost": 0.0, "parent_session_id": "", "title": ""}
    brief = without_empty(session)

    (told,) = tell(Kind.SESSION_UPDATED, {"session": brief})

    assert {"is_busy", "cost", "parent_session_id"}.isdisjoint(brief)
    assert brief["title"] == ""
    assert told == envelope("session", "updated", session)


def test_an_unknown_kind_is_passed_over() -> None:
    assert tell("future.happened", {}) == []


def test_an_open_message_is_an_update() -> None:
    assert read(v1_frames.open_message_frame(orjson.dumps(MESSAGE))) == [
        envelope("message", "updated", MESSAGE)
    ]


def test_line_breaks_in_a_text_do_not_end_an_envelope() -> None:
    message = {**MESSAGE, "parts": [{"type": "text", "data": {"text": "a\n\nb\r\n"}}]}

    (told,) = read(v1_frames.open_message_frame(orjson.dumps(message)))

    assert told["payload"]["payload"]["parts"][0]["data"]["text"] == "a\n\nb\r\n"


def test_the_heartbeat_is_a_blank_line() -> None:
    assert v1_frames.HEARTBEAT == b"\n"


def test_what_some_readers_take_for_line_breaks_is_escaped() -> None:
    text = "a\u2028b\u2029c\x85d"
    (told,) = tell(Kind.SESSION_UPDATED, {"session": {**SESSION, "title": text}})
    assert told["payload"]["payload"]["title"] == text
    message = orjson.dumps({"id": "m", "parts": [{"type": "text", "data": {"text": text}}]})
    (told,) = read(v1_frames.open_message_frame(message))
    assert told["payload"]["payload"] == orjson.loads(message)


@pytest.mark.parametrize("reply", [None, {"id": "m2", "parts": []}])
def test_a_runs_end_never_has_another_messages_words(reply: Any) -> None:
    if reply is not None:
        reply["parts"] = [{"type": "text", "data": {"text": "words of another message"}}]
    payload = {"run": {"session_id": "s1", "message_id": "m1", "outcome": "cancelled"}}
    event = RecordedEvent("w", 1, Kind.RUN_FINISHED, "s", payload, orjson.dumps(payload), 0)

    (complete,) = read(v1_frames.frames_of(event, reply=reply))

    assert "text" not in complete["payload"]["payload"]
