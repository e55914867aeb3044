"""Events of the log, and the ``/v1`` envelopes that its clients were recorded to receive."""

from __future__ import annotations

from typing import Any

from tests.unit.delivery.v1_payloads import (
    BATCH,
    FILE,
    LSP,
    MCP,
    MESSAGE,
    NO_MESSAGE,
    REQUEST,
    RETRY,
    SESSION,
    SKILLS,
)
from workspaces.log.types import Kind


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
    "file deleted": (
        Kind.FILE_VERSIONED,
        {"file": {**FILE, "is_absent": True}},
        [envelope("file", "created", FILE)],
    ),
    "session rewound": (
        Kind.SESSION_REWOUND,
        {"rewind": {"session_id": "s", "message_ids": ["m1", "m2"], "files": []}},
        [
            envelope("message", "deleted", {**NO_MESSAGE, "session_id": "s", "id": message_id})
            for message_id in ("m1", "m2")
        ],
    ),
    "configuration changed": (
        Kind.CONFIG_CHANGED,
        {"workspace_id": "30a1856c"},
        [envelope("config_changed", "updated", {"workspace_id": "30a1856c"})],
    ),
}
