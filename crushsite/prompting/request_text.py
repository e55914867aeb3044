"""A permission request as lines to read before it is answered: all of it, nothing shortened.

Each line is safe for a terminal. Pure, but slow for large changes: call it in a thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from agents.tools import diffs
from crushsite.prompting.visible import visible, visible_lines

MCP_PREFIX = "mcp_"
COMMAND_TOOL = "bash"
# The parameters of bash besides its command. Its folder is the request's path.
_OF_COMMAND = {"command", "description", "working_dir", "auto_background_after"}
_OF_CHANGE = {"file_path", "old_content", "new_content"}


@dataclass(frozen=True, slots=True)
class Question:
    """A permission that a run waits for."""

    request_id: str
    tool: str
    action: str
    path: str
    description: str
    params: Mapping[str, Any]
    is_earlier: bool = False  # of a prompt that the session accepted before ours


def question_of(request: Mapping[str, Any], *, is_earlier: bool) -> Question:
    params = request["params"]
    return Question(
        request["id"],
        request["tool_name"],
        request["action"],
        request["path"],
        request["description"],
        params if isinstance(params, Mapping) else {"params": params},
        is_earlier,
    )


def heading_of(question: Question) -> str:
    """What the request is about, on one line."""
    return visible(f"{question.tool} wants to {question.action} in {question.path}")


def lines_of(question: Question) -> list[str]:
    """What exactly would be done."""
    params = question.params
    said, rest = "", set(params)
    if question.tool.startswith(MCP_PREFIX):
        lines = _json(params)  # a server names its parameters as it likes
    elif question.tool == COMMAND_TOOL and isinstance(params.get("command"), str):
        lines = visible_lines(params["command"])
        said, rest = f"Execute command: {params['command']}", _OF_COMMAND
    elif all(isinstance(params.get(name), str) for name in _OF_CHANGE):
        lines = _difference(params["old_content"], params["new_content"])
        rest = _OF_CHANGE
    else:
        lines, rest = [], set()
    described = [] if question.description in {"", said} else visible_lines(question.description)
    others = [line for name in params if name not in rest for line in _named(name, params[name])]
    return [*described, *lines, *others]


def scope_of(question: Question) -> str:
    """What else an answer for the whole session allows."""
    return visible(f"every such {question.tool} call in {question.path}")


def _difference(before: str, after: str) -> list[str]:
    shown = diffs.unified(before, after, path="").text.removesuffix("\n").split("\n")
    # Without its two lines of names. The first character of each is the diff's own.
    return [line[:1] + visible(line[1:]) for line in shown[2:]]


def _named(name: str, value: Any) -> Iterator[str]:
    """A parameter; one that says nothing is left out."""
    if value in ("", None, False, 0) or value in ([], {}):
        return
    lines = _value(value)
    if len(lines) == 1:
        yield f"{visible(name)}: {lines[0]}"
    else:
        yield f"{visible(name)}:"
        yield from (f"  {line}" for line in lines)


def _value(value: Any) -> list[str]:
    if isinstance(value, str):
        return _json(parsed) if (parsed := _parsed(value)) else visible_lines(value)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return [f"- {visible(item)}" for item in value]
    return _json(value)


def _parsed(text: str) -> Any:
    """A JSON object or array in a string; ``None`` for any other text."""
    try:
        found = orjson.loads(text) if text.lstrip()[:1] in {"{", "["} else None
    except orjson.JSONDecodeError:
        return None
    return found or None


def _json(value: Any) -> list[str]:
    return visible_lines(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())
