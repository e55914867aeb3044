"""The log as the ``/v1`` stream tells it: whole messages in their envelopes.

Pure. A view of the native events: some become several envelopes, some none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from workspaces.events.types import Kind
from workspaces.storage.transaction import Recorded

HEARTBEAT = b"\n"

_NO_MESSAGE: Mapping[str, Any] = {
    "created_at": 0,
    "id": "",
    "model": "",
    "parts": [],
    "provider": "",
    "role": "",
    "session_id": "",
    "updated_at": 0,
}


def frame(kind: str, change: str, payload: Mapping[str, Any]) -> bytes:
    body = orjson.dumps({"type": kind, "payload": {"type": change, "payload": payload}})
    return b"data: " + body + b"\n\n"


def message_frame(message: Mapping[str, Any]) -> bytes:
    """An open message as it stands now."""
    return frame("message", "updated", message)


def frames_of(event: Recorded, *, reply: Mapping[str, Any] | None = None) -> bytes:
    """The envelopes of an event, ready to be sent; empty where ``/v1`` has none.

    ``reply``: for the end of a run, the assistant's message that came before it.
    """
    data = event.payload
    match event.kind:
        case Kind.SESSION_CREATED | Kind.SESSION_UPDATED | Kind.SESSION_DELETED:
            return frame("session", event.kind.rpartition(".")[2], data["session"])
        case Kind.MESSAGE_CREATED | Kind.MESSAGE_STARTED:
            return frame("message", "created", data["message"])
        case Kind.MESSAGE_FINISHED | Kind.MESSAGE_UPDATED | Kind.MESSAGE_RESTARTED:
            return frame("message", "updated", data["message"])
        case Kind.RUN_FINISHED:
            return _run_finished(data["run"], reply)
        case Kind.AGENT_FAILED:
            failed = {
                "error": data["error"],
                "message": _NO_MESSAGE,
                "session_id": data["session_id"],
                "type": "error",
            }
            if data.get("run_id"):
                failed["run_id"] = data["run_id"]
            return frame("agent_event", "created", failed)
        case Kind.PERMISSION_REQUESTED:
            return permission_frames(data["request"])
        case Kind.PERMISSION_RESOLVED:
            return frame(
                "permission_notification",
                "created",
                {
                    "tool_call_id": data["tool_call_id"],
                    "granted": data["granted"],
                    "denied": data["denied"],
                },
            )
        case Kind.FILE_VERSIONED:
            return frame("file", "created", data["file"])
        case Kind.CONFIG_CHANGED:
            return frame("config_changed", "updated", data)
        case _:
            return b""


def permission_frames(request: Mapping[str, Any]) -> bytes:
    """The notification that precedes a question, and the question."""
    opening = {"tool_call_id": request["tool_call_id"], "granted": False, "denied": False}
    return frame("permission_notification", "created", opening) + frame(
        "permission_request", "created", request
    )


def _run_finished(run: Mapping[str, Any], reply: Mapping[str, Any] | None) -> bytes:
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
