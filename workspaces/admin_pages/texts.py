"""Texts of rows as the admin shows them. Never raises: invalid content is shown unchanged.

Long texts are cut, because a message may have megabytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
from django.utils.html import format_html
from django.utils.safestring import SafeString

STRING_LIMIT = 4_000  # limit of one string inside JSON: no page shows a whole attachment
TEXT_LIMIT = 200_000  # limit of a whole field
PART_LIMIT = 20_000  # limit of one part of a message in a conversation
LINE_LIMIT = 80  # in a list
NOTHING = "–"


def shown_moment(moment: int | None) -> str:
    if not moment:
        return NOTHING
    try:
        at = datetime.fromtimestamp(moment / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(moment)
    return f"{at:%Y-%m-%d %H:%M:%S}.{moment % 1000:03} UTC"


def to_the_second(moment: int | None) -> str:
    return shown_moment(moment).partition(".")[0]


def duration(milliseconds: float | None) -> str:
    """A time span in the largest two units that fit it."""
    if milliseconds is None:
        return NOTHING
    if milliseconds < 1000:
        return f"{max(0, round(milliseconds))} ms"
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, hours = int(seconds // 60), int(seconds // 3600)
    if hours >= 48:
        return f"{hours // 24} d {hours % 24} h"
    return f"{hours} h {minutes % 60} min" if hours else f"{minutes} min {int(seconds % 60)} s"


def one_line(text: str) -> str:
    line = " ".join(text[: LINE_LIMIT * 4].split())
    return line if len(line) <= LINE_LIMIT else line[: LINE_LIMIT - 1] + "…"


def excerpt(parts: str) -> str:
    """The text of a message on one line."""
    try:
        texts = [_part_text(part["type"], part["data"]) for part in orjson.loads(parts)]
    except (ValueError, TypeError, KeyError, AttributeError):
        return one_line(parts)
    return one_line(" ".join(text for text in texts if text))


def _part_text(kind: str, data: Any) -> str:
    match kind:
        case "text":
            return str(data["text"])
        case "tool_call":
            return f"→ {data['name']} {data['input']}"
        case "tool_result":
            return f"← {data['name']} {data['content']}"
        case "shell_command":
            return f"$ {data['command']}"
        case "finish" if data.get("message"):
            return f"({data['reason']}: {data['message']})"
        case "binary" | "image_url":
            return "(attachment)"
        case _:
            return ""


@dataclass(frozen=True, slots=True)
class ShownPart:
    """A part of a message: open text, or with a heading a text that is folded at first."""

    text: str
    heading: str = ""
    is_error: bool = False


def shown_parts(parts: str) -> list[ShownPart]:
    """The parts of a stored message for a conversation."""
    try:
        return [shown for part in orjson.loads(parts) for shown in _shown(part)]
    except (ValueError, TypeError, KeyError, AttributeError):
        return [ShownPart(cut(parts, PART_LIMIT))]


def _shown(part: Any) -> Iterator[ShownPart]:
    data = part["data"]
    match part["type"]:
        case "text" if str(data["text"]).strip():
            yield ShownPart(cut(str(data["text"]), PART_LIMIT))
        case "reasoning" if data.get("thinking"):
            yield ShownPart(cut(str(data["thinking"]), PART_LIMIT), "Reasoning")
        case "tool_call":
            text = readable_json(str(data["input"])) if data["input"] else ""
            yield ShownPart(cut(text, PART_LIMIT), f"Tool call: {one_line(str(data['name']))}")
        case "tool_result":
            is_error = bool(data.get("is_error"))
            name = one_line(str(data["name"]))
            heading = f"{'Error' if is_error else 'Result'}: {name}"
            yield ShownPart(cut(str(data["content"]), PART_LIMIT), heading, is_error)
        case "shell_command":
            code = data.get("exit_code", 0)
            heading = f"$ {one_line(str(data['command']))} (exit code {code})"
            yield ShownPart(cut(str(data["output"]), PART_LIMIT), heading, bool(code))
        case "finish" if data.get("message"):
            text = "\n".join(filter(None, [str(data["message"]), str(data.get("details", ""))]))
            yield ShownPart(cut(text, PART_LIMIT), "", is_error=data.get("reason") == "error")
        case "binary":
            yield ShownPart(f"Attachment: {one_line(str(data['Path']))} ({data['MIMEType']})")
        case "image_url":
            yield ShownPart(f"Image: {one_line(str(data['url']))}")
        case _:
            pass


def readable_json(value: Any) -> str:
    """Formats JSON."""
    if isinstance(value, str):
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            return str(value)
    return orjson.dumps(_shortened(value), option=orjson.OPT_INDENT_2).decode()


def _shortened(value: Any) -> Any:
    if isinstance(value, str):
        return cut(value, STRING_LIMIT)
    if isinstance(value, list):
        return [_shortened(item) for item in value]
    if isinstance(value, dict):
        return {key: _shortened(item) for key, item in value.items()}
    return value


def cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


def preformatted(text: str) -> SafeString:
    if not text:
        return format_html("{}", NOTHING)
    return format_html('<pre class="text">{}</pre>', cut(text, TEXT_LIMIT))
