"""Reads a frame from the text of one WebSocket message, and writes one as its bytes.

The readers accept and refuse the same texts as the other programs. They accept any order of
keys, unknown fields, and a frame in the form of an array. The caller handles a refusal: a child
ignores the message, a parent reports it.

The writer writes byte for byte as the other programs do: compact JSON in which only ASCII controls
are escaped, declared fields in their order, opaque objects with sorted keys, no absent fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar, assert_never

import orjson

from agents.fleet.wire.frames import (
    ApprovalReply,
    ApprovalRequest,
    Cancel,
    ChildFrame,
    EventBatch,
    EventFrame,
    Frame,
    MessageFrame,
    Other,
    ParentFrame,
    RunFrame,
    Status,
    Terminal,
)
from agents.fleet.wire.strict_json import LONE_SURROGATE, BadJson, Pairs, parse

F = TypeVar("F")
_U64 = 2**64


class BadFrame(ValueError):
    """The text is not a frame. The message is a sentence without any of the text."""


def read_parent_frame(text: str) -> ParentFrame:
    """Parses a parent's frame. Raises ``BadFrame``."""
    return _read(text, _FROM_PARENT)


def read_child_frame(text: str) -> ChildFrame:
    """Parses a child's frame. Raises ``BadFrame``."""
    return _read(text, _FROM_CHILD)


def _read(text: str, kinds: Mapping[str, _Kind[F]]) -> F:
    try:
        value = parse(text)
    except BadJson as error:
        raise BadFrame(str(error)) from None
    if isinstance(value, Pairs):
        if "kind" in value.doubled:
            raise BadFrame("The field kind occurs twice.")
        kind = _kind(value.get("kind"), kinds)
        return kind.build(_Fields(value, kind.names))
    if isinstance(value, list) and value:
        kind = _kind(value[0], kinds)
        return kind.build(_Fields(_named(value[1:], kind.names), kind.names))
    raise BadFrame("A frame must be a JSON object.")


def _kind(name: object, kinds: Mapping[str, _Kind[F]]) -> _Kind[F]:
    kind = kinds.get(name) if isinstance(name, str) else None
    if kind is None:
        raise BadFrame("The field kind is missing or unknown.")
    return kind


def _named(values: Sequence[Any], names: Sequence[str]) -> Pairs:
    """Reads a frame in the form of an array: its fields in the order of declaration."""
    if len(values) > len(names):
        raise BadFrame("The frame has too many items.")
    return Pairs(list(zip(names, values, strict=False)))


@dataclass(frozen=True, slots=True)
class _Kind(Generic[F]):
    names: tuple[str, ...]  # the declared fields, in order
    build: Callable[[_Fields], F]


class _Fields:
    def __init__(self, values: Pairs, names: Sequence[str]) -> None:
        self._values = values
        self._names = names
        # Only declared fields must not repeat.
        for name in values.doubled:
            if name in names:
                raise BadFrame(f"The field {name} occurs twice.")

    def any(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise BadFrame(f"The field {name} is missing.") from None

    def text(self, name: str) -> str:
        value = self.any(name)
        if not isinstance(value, str):
            raise BadFrame(f"The field {name} must be a string.")
        return value

    def text_or_none(self, name: str) -> str | None:
        return None if self._values.get(name) is None else self.text(name)

    def flag(self, name: str) -> bool:
        value = self.any(name)
        if not isinstance(value, bool):
            raise BadFrame(f"The field {name} must be true or false.")
        return value

    def items(self, name: str) -> tuple[Any, ...]:
        """Returns an array; empty if absent. Null is an error."""
        if name not in self._values:
            return ()
        value = self._values[name]
        if not isinstance(value, list):
            raise BadFrame(f"The field {name} must be an array.")
        return tuple(value)

    def whole(self, name: str) -> int:
        value = self.any(name)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _U64:
            raise BadFrame(f"The field {name} must be a whole number.")
        return value

    def inner(self, name: str, names: Sequence[str]) -> _Fields:
        value = self.any(name)
        if not isinstance(value, Pairs):
            raise BadFrame(f"The field {name} must be an object.")
        return _Fields(value, names)

    def status(self) -> Status:
        try:
            return Status(self.text("status"))
        except ValueError:
            raise BadFrame(
                "The field status must be completed, error, cancelled or suspended."
            ) from None

    def undeclared(self) -> dict[str, Any]:
        return {
            name: value
            for name, value in self._values.items()
            if name not in self._names and name != "kind"
        }


def _run(fields: _Fields) -> RunFrame:
    return RunFrame(
        assignment=fields.text("assignment"),
        reasoning_effort=fields.text_or_none("reasoning_effort"),
        messages=fields.items("messages"),
        more=fields.undeclared(),
    )


def _terminal(fields: _Fields) -> Terminal:
    return Terminal(
        status=fields.status(),
        result=fields.text_or_none("result"),
        error=fields.text_or_none("error"),
        transcript=fields.items("transcript"),
        more=fields.undeclared(),
    )


_BATCH = ("activation_id", "execution_epoch", "first_seq", "last_seq", "qos", "events")


def _event_batch(fields: _Fields) -> EventBatch:
    batch = fields.inner("batch", _BATCH)
    qos = batch.text("qos")
    if qos not in {"durable", "snapshot", "ephemeral"}:
        raise BadFrame("The field qos must be durable, snapshot or ephemeral.")
    batch.any("events")
    return EventBatch(
        activation_id=batch.text("activation_id"),
        execution_epoch=batch.whole("execution_epoch"),
        first_seq=batch.whole("first_seq"),
        last_seq=batch.whole("last_seq"),
        qos=qos,
        events=batch.items("events"),
    )


def _other(kind: str, *needed: str) -> _Kind[Any]:
    def build(fields: _Fields) -> Other:
        known = {name: fields.any(name) for name in needed}
        return Other(kind, known | fields.undeclared())

    return _Kind(needed, build)


_FROM_PARENT: Final[Mapping[str, _Kind[ParentFrame]]] = {
    "run": _Kind(("assignment", "reasoning_effort", "messages"), _run),
    "cancel": _Kind((), lambda _: Cancel()),
    "message": _Kind(("text",), lambda fields: MessageFrame(fields.text("text"))),
    "approval_reply": _Kind(
        ("id", "approved"),
        lambda fields: ApprovalReply(fields.text("id"), fields.flag("approved")),
    ),
    "session_message": _other("session_message", "delivery"),
    "initial_input_release": _other("initial_input_release", "release"),
    "owned_tree_reply": _other("owned_tree_reply", "id"),
    "sub_agent_reply": _other("sub_agent_reply", "id", "result"),
}
_FROM_CHILD: Final[Mapping[str, _Kind[ChildFrame]]] = {
    "event": _Kind(("event",), lambda fields: EventFrame(fields.any("event"))),
    "event_batch": _Kind(("batch",), _event_batch),
    "approval_request": _Kind(
        ("id", "body"),
        lambda fields: ApprovalRequest(fields.text("id"), fields.any("body")),
    ),
    "terminal": _Kind(("status", "result", "error", "transcript"), _terminal),
    "owned_tree_request": _other("owned_tree_request", "id"),
    "sub_agent_request": _other("sub_agent_request", "id", "tool_call_id", "args"),
    "session_message_admitted": _other("session_message_admitted", "confirmation"),
}

# -- writing


OPAQUE_DEPTH_LIMIT = 120  # of an opaque value: the other end refuses a frame of 128 levels


def write_event(event: Any) -> bytes:
    return b'{"kind":"event","event":%s}' % _opaque(event)


def write_frame(frame: Frame) -> bytes:
    """Returns the bytes of a frame. Never fails for a frame that was read.

    Replaces texts and numbers that cannot be sent. Raises ``TypeError`` for a value that
    is not JSON, ``ValueError`` for one nested too deeply.
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
    """Drops absent fields: None and empty arrays, but not empty texts."""
    return {name: value for name, value in fields.items() if value is not None and value != ()}


def _object(fields: Mapping[str, Any]) -> bytes:
    pairs = (b"%s:%s" % (_opaque(name), _opaque(value)) for name, value in fields.items())
    return b"{%s}" % b",".join(pairs)


def _opaque(value: Any) -> bytes:
    try:
        written = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except (TypeError, RecursionError):
        return orjson.dumps(_sendable(value, 0), option=orjson.OPT_SORT_KEYS)
    if written.count(b"[") + written.count(b"{") > OPAQUE_DEPTH_LIMIT:
        _sendable(value, 0)
    return written


def _sendable(value: Any, depth: int) -> Any:
    """Replaces lone surrogates, and converts numbers as the other end stores them."""
    if depth >= OPAQUE_DEPTH_LIMIT:
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
