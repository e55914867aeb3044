"""From a frame to the bytes of one WebSocket message, as the other programs write them.

Compact, nothing but ASCII controls escaped, fields in the order of their
declaration, opaque objects with sorted keys, and nothing for what is absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

import orjson

from agents.fleet.wire.kinds import (
    ApprovalReply,
    ApprovalRequest,
    Cancel,
    EventBatch,
    EventFrame,
    Frame,
    MessageFrame,
    Other,
    RunFrame,
    Terminal,
)
from agents.fleet.wire.strict_json import LONE_SURROGATE

DEPTH_LIMIT = 120  # of an opaque value: the other end gives up at 128 levels of a frame


def write_event(event: Any) -> bytes:
    return b'{"kind":"event","event":%s}' % _opaque(event)


def write_frame(frame: Frame) -> bytes:
    """Never fails for what a reader has read; elsewhere it makes texts and numbers sendable.

    Raises ``TypeError`` for a value that is not JSON, ``ValueError`` for one nested too
    deeply.
    """
    match frame:
        case EventFrame(event):
            return write_event(event)
        case RunFrame():
            fields = {
                "assignment": frame.assignment,
                **_present(reasoning_effort=frame.reasoning_effort, messages=frame.messages),
                **frame.more,
            }
            return _object({"kind": "run", **fields})
        case Cancel():
            return b'{"kind":"cancel"}'
        case MessageFrame(text):
            return _object({"kind": "message", "text": text})
        case ApprovalReply(id, approved):
            return _object({"kind": "approval_reply", "id": id, "approved": approved})
        case ApprovalRequest(id, body):
            return _object({"kind": "approval_request", "id": id, "body": body})
        case Terminal():
            ended = _present(result=frame.result, error=frame.error, transcript=frame.transcript)
            status = frame.status.value
            return _object({"kind": "terminal", "status": status, **ended, **frame.more})
        case EventBatch():
            return b'{"kind":"event_batch","batch":%s}' % _object(
                {
                    "activation_id": frame.activation_id,
                    "execution_epoch": frame.execution_epoch,
                    "first_seq": frame.first_seq,
                    "last_seq": frame.last_seq,
                    "qos": frame.qos,
                    "events": frame.events,
                }
            )
        case Other(kind, fields):
            return _object({"kind": kind, **fields})
        case _:
            assert_never(frame)


def _present(**fields: str | tuple[Any, ...] | None) -> dict[str, Any]:
    """Without what is absent: an empty text is there, an empty array is not."""
    return {name: value for name, value in fields.items() if value is not None and value != ()}


def _object(fields: Mapping[str, Any]) -> bytes:
    pairs = (b"%s:%s" % (_opaque(name), _opaque(value)) for name, value in fields.items())
    return b"{%s}" % b",".join(pairs)


def _opaque(value: Any) -> bytes:
    try:
        written = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except (TypeError, RecursionError):
        return orjson.dumps(_sendable(value, 0), option=orjson.OPT_SORT_KEYS)
    if written.count(b"[") + written.count(b"{") > DEPTH_LIMIT:
        _sendable(value, 0)
    return written


def _sendable(value: Any, depth: int) -> Any:
    """Half characters replaced, and numbers as the other end would hold them."""
    if depth >= DEPTH_LIMIT:
        raise ValueError("The value is nested too deeply to be sent.")
    match value:
        case str():
            return LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", value)
        case bool() | None:
            return value
        case int() if not -(2**63) <= value < 2**64:
            largest = -1e308 if value < 0 else 1e308
            return float(value) if value.bit_length() < 1024 else largest
        case int() | float():
            return value
        case Mapping():
            return {_sendable(k, depth): _sendable(v, depth + 1) for k, v in value.items()}
        case list() | tuple():
            return [_sendable(item, depth + 1) for item in value]
        case _:
            raise TypeError(f"A {type(value).__name__} cannot be sent as JSON.")
