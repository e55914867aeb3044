"""The parts of a message: a closed union of types.

Defines the parts and their wire form (``{"type": …, "data": {…}}``), which is also their stored
form. Pure: no database and no clock. Reading accepts absent optional fields and requires
the right types, because both rows and foreign transcripts are read here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, TypeAlias, assert_never

Json: TypeAlias = dict[str, Any]


class Role(StrEnum):
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    SYSTEM = "system"


class FinishReason(StrEnum):
    END_TURN = "end_turn"
    MAX_TOKENS = "max_tokens"
    TOOL_USE = "tool_use"
    CANCELED = "canceled"
    ERROR = "error"
    CONTENT_FILTER = "content_filter"
    UNKNOWN = "unknown"
    STOP = "stop"  # user and tool messages


@dataclass(frozen=True, slots=True)
class Text:
    text: str
    kind: Literal["text"] = "text"


@dataclass(frozen=True, slots=True)
class Reasoning:
    thinking: str
    signature: str = ""
    started_at: int = 0
    finished_at: int = 0
    kind: Literal["reasoning"] = "reasoning"


@dataclass(frozen=True, slots=True)
class ImageUrl:
    url: str
    detail: str = ""
    kind: Literal["image_url"] = "image_url"


@dataclass(frozen=True, slots=True)
class Binary:
    path: str
    mime_type: str
    data: str  # base64
    kind: Literal["binary"] = "binary"


@dataclass(frozen=True, slots=True)
class ToolCall:
    id: str
    name: str
    input: str = ""  # a JSON document by the model; may be malformed
    finished: bool = False
    kind: Literal["tool_call"] = "tool_call"


@dataclass(frozen=True, slots=True)
class ToolResult:
    tool_call_id: str
    name: str
    content: str
    metadata: str = ""  # a JSON document for clients, never shown to the model
    is_error: bool = False
    data: str = ""  # base64
    mime_type: str = ""
    kind: Literal["tool_result"] = "tool_result"


@dataclass(frozen=True, slots=True)
class Finish:
    reason: FinishReason
    time: int = 0
    message: str = ""
    details: str = ""
    kind: Literal["finish"] = "finish"


@dataclass(frozen=True, slots=True)
class ShellCommand:
    command: str
    output: str
    exit_code: int
    kind: Literal["shell_command"] = "shell_command"


Part: TypeAlias = (
    Text | Reasoning | ImageUrl | Binary | ToolCall | ToolResult | Finish | ShellCommand
)
Parts: TypeAlias = tuple[Part, ...]


def part_to_wire(part: Part) -> Json:
    """Returns the part in its wire form."""
    return {"type": part.kind, "data": _data(part)}


def parts_to_wire(parts: Iterable[Part]) -> list[Json]:
    return [part_to_wire(part) for part in parts]


def _data(part: Part) -> Json:
    match part:
        case Text():
            return {"text": part.text}
        case Reasoning():
            data: Json = {"thinking": part.thinking, "signature": part.signature}
            _put(data, started_at=part.started_at, finished_at=part.finished_at)
            return data
        case ImageUrl():
            data = {"url": part.url}
            _put(data, detail=part.detail)
            return data
        case Binary():
            return {"Path": part.path, "MIMEType": part.mime_type, "Data": part.data}
        case ToolCall():
            data = {"id": part.id, "name": part.name, "input": part.input}
            _put(data, finished=part.finished)
            return data
        case ToolResult():
            data = {
                "tool_call_id": part.tool_call_id,
                "name": part.name,
                "content": part.content,
                "metadata": part.metadata,
                "is_error": part.is_error,
            }
            _put(data, data=part.data, mime_type=part.mime_type)
            return data
        case Finish():
            data = {"reason": part.reason.value, "time": part.time}
            _put(data, message=part.message, details=part.details)
            return data
        case ShellCommand():
            return {"command": part.command, "output": part.output, "exit_code": part.exit_code}
        case _:
            assert_never(part)


def _put(data: Json, /, **optional: str | int | bool) -> None:
    """Adds the non-empty fields: absent and empty mean the same on this wire."""
    data.update({name: value for name, value in optional.items() if value})


def part_from_wire(raw: object) -> Part:
    """Parses a part. Raises ``ValueError`` for an unknown type or a field of a wrong type."""
    if not isinstance(raw, Mapping):
        raise ValueError("part: must be an object")
    kind, data = raw.get("type"), raw.get("data")
    if not isinstance(data, Mapping):
        raise ValueError("part: data must be an object")
    match kind:
        case "text":
            return Text(_str(data, "text"))
        case "reasoning":
            return Reasoning(
                _str(data, "thinking"),
                _str(data, "signature"),
                _int(data, "started_at"),
                _int(data, "finished_at"),
            )
        case "image_url":
            return ImageUrl(_str(data, "url"), _str(data, "detail"))
        case "binary":
            return Binary(_str(data, "Path"), _str(data, "MIMEType"), _str(data, "Data"))
        case "tool_call":
            return ToolCall(
                _str(data, "id"), _str(data, "name"), _str(data, "input"), _bool(data, "finished")
            )
        case "tool_result":
            return ToolResult(
                _str(data, "tool_call_id"),
                _str(data, "name"),
                _str(data, "content"),
                _str(data, "metadata"),
                _bool(data, "is_error"),
                _str(data, "data"),
                _str(data, "mime_type"),
            )
        case "finish":
            return Finish(
                FinishReason(_str(data, "reason")),
                _int(data, "time"),
                _str(data, "message"),
                _str(data, "details"),
            )
        case "shell_command":
            return ShellCommand(
                _str(data, "command"), _str(data, "output"), _int(data, "exit_code")
            )
        case _:
            raise ValueError(f"part: unknown type {kind!r}")


def parts_from_wire(raw: Iterable[object]) -> Parts:
    return tuple(part_from_wire(item) for item in raw)


def _str(data: Mapping[str, Any], name: str) -> str:
    value = data.get(name, "")
    if not isinstance(value, str):
        raise ValueError(f"part: {name} must be a string")
    return value


def _int(data: Mapping[str, Any], name: str) -> int:
    value = data.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"part: {name} must be an integer")
    return value


def _bool(data: Mapping[str, Any], name: str) -> bool:
    value = data.get(name, False)
    if not isinstance(value, bool):
        raise ValueError(f"part: {name} must be true or false")
    return value


def plain_text(parts: Iterable[Part]) -> str:
    """Returns the text of a message, without reasoning and tool calls."""
    return "".join(part.text for part in parts if isinstance(part, Text))


def tool_calls(parts: Iterable[Part]) -> tuple[ToolCall, ...]:
    return tuple(part for part in parts if isinstance(part, ToolCall))


def finish_of(parts: Iterable[Part]) -> Finish | None:
    """Returns the finish part, or ``None`` while the message is open."""
    return next((part for part in parts if isinstance(part, Finish)), None)


def with_finish(parts: Iterable[Part], finish: Finish) -> Parts:
    """Returns the parts with this finish part, which replaces any other."""
    return (*(part for part in parts if not isinstance(part, Finish)), finish)
