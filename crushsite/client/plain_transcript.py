"""A session's messages as plain lines: for pipes, files and `show` without a terminal. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from crushsite.cli.terminal import visible
from crushsite.cli.terminal_output import plain, summary_line

MARKS = {"user": "> ", "assistant": "", "tool": "< "}


def lines_of_message(message: Mapping[str, Any]) -> Iterator[str]:
    """Each line of a message. Control characters are replaced."""
    for part in message["parts"]:
        data = part["data"]
        match part["type"]:
            case "text" if data.get("text"):
                mark = MARKS.get(message["role"], "")
                for line in plain(data["text"]).strip("\n").split("\n"):
                    yield f"{mark}{line}".rstrip()
            case "tool_call":
                about = summary_line(data.get("input", ""))
                yield f"→ {visible(str(data.get('name', '')))} {about}".rstrip()
            case "tool_result":
                mark = "✗" if data.get("is_error") else "←"
                yield f"{mark} {summary_line(data.get('content', ''))}".rstrip()
            case "shell_command":
                yield f"! {visible(str(data.get('command', '')))}"
                yield from plain(str(data.get("output", ""))).strip("\n").split("\n")
            case "finish" if data.get("reason") in {"error", "canceled"}:
                yield f"✗ {data['reason']} {plain(str(data.get('message') or ''))}".rstrip()
            case _:
                continue
