"""From the text of one WebSocket message to a frame.

Both readers refuse what the other programs refuse and take what they take: any
order of keys, unknown fields, and a frame spelled as an array. What a refusal
means is the caller's: a child ignores such a message, a parent is told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from agents.fleet.wire.kinds import (
    ApprovalReply,
    ApprovalRequest,
    Cancel,
    ChildFrame,
    EventBatch,
    EventFrame,
    MessageFrame,
    Other,
    ParentFrame,
    RunFrame,
    Status,
    Terminal,
)
from agents.fleet.wire.strict_json import BadJson, Pairs, parse

F = TypeVar("F")
_U64 = 2**64


class BadFrame(ValueError):
    """The text is no frame. A sentence that holds nothing of the text."""


def read_parent_frame(text: str) -> ParentFrame:
    """What a parent sends. Raises ``BadFrame``."""
    return _read(text, _FROM_PARENT)


def read_child_frame(text: str) -> ChildFrame:
    """What a child sends. Raises ``BadFrame``."""
    return _read(text, _FROM_CHILD)


def _read(text: str, kinds: Mapping[str, _Kind[F]]) -> F:
    try:
        value = parse(text)
    except BadJson as error:
        raise BadFrame(str(error)) from None
    if isinstance(value, Pairs):
        if "kind" in value.doubled:
            raise BadFrame("The field kind is there twice.")
        kind = _kind(value.get("kind"), kinds)
        return kind.build(_Fields(value, kind.names))
    if isinstance(value, list) and value:
        kind = _kind(value[0], kinds)
        return kind.build(_Fields(_named(value[1:], kind.names), kind.names))
    raise BadFrame("A frame is a JSON object.")


def _kind(name: object, kinds: Mapping[str, _Kind[F]]) -> _Kind[F]:
    kind = kinds.get(name) if isinstance(name, str) else None
    if kind is None:
        raise BadFrame("The frame's kind is missing or unknown.")
    return kind


def _named(values: Sequence[Any], names: Sequence[str]) -> Pairs:
    """A frame spelled as an array: its fields in the order of their declaration."""
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
        # Only a declared field may not come twice.
        for name in values.doubled:
            if name in names:
                raise BadFrame(f"The field {name} is there twice.")

    def any(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise BadFrame(f"The field {name} is missing.") from None

    def text(self, name: str) -> str:
        value = self.any(name)
        if not isinstance(value, str):
            raise BadFrame(f"The field {name} must be a text.")
        return value

    def text_or_none(self, name: str) -> str | None:
        return None if self._values.get(name) is None else self.text(name)

    def flag(self, name: str) -> bool:
        value = self.any(name)
        if not isinstance(value, bool):
            raise BadFrame(f"The field {name} must be true or false.")
        return value

    def items(self, name: str) -> tuple[Any, ...]:
        """Empty when absent; null is wrong."""
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
            raise BadFrame("The field status is no status.") from None

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
