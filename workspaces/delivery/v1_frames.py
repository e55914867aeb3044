"""Encodes the log for ``/v1`` streams: whole messages in their envelopes.

Pure. One native event becomes no envelope, one, or several.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from workspaces.delivery.native_frames import escape_line_breaks
from workspaces.log.rows import MessageRow, for_v1, message_for_v1, message_wire
from workspaces.log.transaction import RecordedEvent
from workspaces.log.types import Kind

HEARTBEAT = b"\n"

_NO_MESSAGE: Mapping[str, Any] = message_wire(
    MessageRow(
        id="",
        session_id="",
        role="",
        parts="[]",
        model="",
        provider="",
        created_at=0,
        updated_at=0,
        is_summary=False,
        author=None,
    )
)


def frame(kind: str, change: str, payload: Mapping[str, Any]) -> bytes:
    body = orjson.dumps({"type": kind, "payload": {"type": change, "payload": payload}})
    return b"data: " + escape_line_breaks(body) + b"\n\n"


def open_message_frame(message: bytes) -> bytes:
    """Returns the envelope of an open message, given as JSON."""
    body = escape_line_breaks(message)
    return b'data: {"type":"message","payload":{"type":"updated","payload":%b}}\n\n' % body


def frames_of(event: RecordedEvent, *, reply: Mapping[str, Any] | None = None) -> bytes:
    """Returns the encoded envelopes of an event, or ``b""`` where ``/v1`` has none.

    ``reply``: for the end of a run, the assistant's last message before it.
    """
    data = event.payload
    change = _SESSION_CHANGES.get(event.kind)
    if change is not None:
        return frame("session", change, for_v1(data["session"]))
    plain = _PLAIN.get(event.kind)
    if plain is not None:
        envelope, change, key = plain
        payload = data[key] if key else data
        chunk = frame(envelope, change, message_for_v1(payload) if key == "message" else payload)
        return chunk + _retry(data) if event.kind == Kind.MESSAGE_RESTARTED else chunk
    match event.kind:
        case Kind.RUN_FINISHED:
            return _run_finished(data["run"], reply)
        case Kind.AGENT_FAILED:
            return _agent_failed(data)
        case Kind.PERMISSION_REQUESTED:
            return permission_frames(data["request"])
        case Kind.PERMISSION_RESOLVED:
            body = {key: data[key] for key in ("tool_call_id", "granted", "denied")}
            return frame("permission_notification", "created", body)
        case Kind.QUESTION_RESOLVED:
            body = {"batch_id": data["batch_id"]}
            return frame("question_batch_notification", "created", body)
        case Kind.WORKSPACE_UPDATED:
            mode = data["workspace"].get("permission_mode")  # missing in older events
            return frame("permission_mode_changed", "updated", {"mode": mode}) if mode else b""
        case Kind.MCP_AWAITED:
            body = {"type": "mcp_awaited", "message": _NO_MESSAGE, **data}
            return frame("agent_event", "created", body)
        case Kind.FILE_VERSIONED | Kind.SESSION_REWOUND:
            return _file_or_rewind(data)
        case Kind.SUMMARY_PROGRESSED:
            body = {"type": "summarize", "message": _NO_MESSAGE, **data}
            return frame("agent_event", "created", body)
        case _:
            return b""


_SESSION_CHANGES: Mapping[str, str] = {
    Kind.SESSION_CREATED: "created",
    Kind.SESSION_UPDATED: "updated",
    Kind.SESSION_DELETED: "deleted",
}

# Events whose payload goes out unchanged: envelope type, change, field of the payload.
_PLAIN: Mapping[str, tuple[str, str, str]] = {
    Kind.MESSAGE_CREATED: ("message", "created", "message"),
    Kind.MESSAGE_STARTED: ("message", "created", "message"),
    Kind.MESSAGE_FINISHED: ("message", "updated", "message"),
    Kind.MESSAGE_UPDATED: ("message", "updated", "message"),
    Kind.MESSAGE_RESTARTED: ("message", "updated", "message"),
    Kind.QUESTION_ASKED: ("question_batch_request", "created", "batch"),
    Kind.MCP_CHANGED: ("mcp_event", "updated", "mcp"),
    Kind.LSP_CHANGED: ("lsp_event", "updated", "lsp"),
    Kind.SKILLS_CHANGED: ("skills_event", "updated", ""),
    Kind.CONFIG_CHANGED: ("config_changed", "updated", ""),
}


def _retry(data: Mapping[str, Any]) -> bytes:
    """Returns the envelope of a retry; clients ignore types that are new to them."""
    if "retry" not in data:  # stored before restarts carried a reason
        return b""
    body = {
        "type": "retry",
        "message": _NO_MESSAGE,
        "session_id": data["message"]["session_id"],
        "retry": data["retry"],
    }
    return frame("agent_event", "created", body)


def _agent_failed(data: Mapping[str, Any]) -> bytes:
    if "kind" in data:
        return b""
    failed = {
        "error": data["error"],
        "message": _NO_MESSAGE,
        "session_id": data["session_id"],
        "type": "error",
    }
    if data.get("run_id"):
        failed["run_id"] = data["run_id"]
    return frame("agent_event", "created", failed)


def _file_or_rewind(data: Mapping[str, Any]) -> bytes:
    if "file" in data:
        file = {key: value for key, value in data["file"].items() if key not in _NATIVE_ONLY}
        return frame("file", "created", file)
    # Clients remove a message by its id.
    nothing = {**_NO_MESSAGE, "session_id": data["rewind"]["session_id"]}
    return b"".join(
        frame("message", "deleted", {**nothing, "id": message_id})
        for message_id in data["rewind"]["message_ids"]
    )


_NATIVE_ONLY = {"files", "always_asks", "cut_output", "asked_at", "deny_at", "is_absent"}


def permission_frames(request: Mapping[str, Any]) -> bytes:
    """Returns the notification that precedes a permission request, and the request."""
    request = {key: value for key, value in request.items() if key not in _NATIVE_ONLY}
    opening = {"tool_call_id": request["tool_call_id"], "granted": False, "denied": False}
    return frame("permission_notification", "created", opening) + frame(
        "permission_request", "created", request
    )


def question_frame(batch: Mapping[str, Any]) -> bytes:
    return frame("question_batch_request", "created", batch)


def _run_finished(run: Mapping[str, Any], reply: Mapping[str, Any] | None) -> bytes:
    if "kind" in run:  # not a client's prompt: no client waits for its end
        return b""
    complete: dict[str, Any] = {"session_id": run["session_id"], "message_id": run["message_id"]}
    if run.get("run_id"):
        complete["run_id"] = run["run_id"]
    text = _text_of(reply) if reply is not None and reply["id"] == run["message_id"] else ""
    if text:
        complete["text"] = text
    if run["outcome"] == "cancelled":
        complete["cancelled"] = True
    elif run.get("error"):
        complete["error"] = run["error"]
    chunks = frame("run_complete", "updated", complete)
    if run["outcome"] == "completed":
        chunks += frame(
            "agent_event",
            "created",
            {
                "message": _NO_MESSAGE,
                "session_id": run["session_id"],
                "session_title": run.get("session_title", ""),
                "type": "agent_finished",
            },
        )
    return chunks


def _text_of(message: Mapping[str, Any]) -> str:
    return "".join(part["data"]["text"] for part in message["parts"] if part["type"] == "text")
