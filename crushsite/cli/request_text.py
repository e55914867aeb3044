"""A permission request as lines that a person reads before answering: complete, never shortened.

Each line is safe for a terminal. Pure, but slow for large changes: call it in a thread.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agents.tools.files import diffs
from crushsite.cli.terminal import visible, visible_lines

MCP_PREFIX = "mcp_"
COMMAND_TOOL = "bash"
TRUST_TOOL = "trust"
# The parameters of bash that get no line of their own. Its folder is the request's path.
_OF_COMMAND = {"command", "description", "working_dir", "auto_background_after"}
_UNTIL = " until the session ends"
_OF_CHANGE = {"file_path", "old_content", "new_content"}


@dataclass(frozen=True, slots=True)
class PermissionQuestion:
    """A permission that a run waits for."""

    request_id: str
    tool: str
    action: str
    path: str
    description: str
    params: Mapping[str, Any]
    is_earlier: bool = False  # from a prompt that the session accepted before ours
    files: tuple[str, ...] = ()  # the files that the call would write
    always_asks: bool = False  # even an answer for the session allows only this call
    is_cut: bool = False  # whether the call runs again: its server stopped in the middle

    @property
    def is_trust(self) -> bool:
        """Whether the request is about the folder, not about a tool call."""
        return self.tool == TRUST_TOOL

    @property
    def folder(self) -> str:
        """The folder that a person may allow instead of the files; empty if there is no choice."""
        if not self.files or self.always_asks:
            return ""
        return posixpath.commonpath([posixpath.dirname(file) for file in self.files])


def question_of(request: Mapping[str, Any], *, is_earlier: bool) -> PermissionQuestion:
    params = request["params"]
    return PermissionQuestion(
        request["id"],
        request["tool_name"],
        request["action"],
        request["path"],
        request["description"],
        params if isinstance(params, Mapping) else {"params": params},
        is_earlier,
        tuple(request.get("files") or ()),
        bool(request.get("always_asks")),
        "cut_output" in request,
    )


def heading_of(question: PermissionQuestion) -> str:
    """The subject of the request, on one line."""
    if question.is_trust:
        return visible(f"The folder {question.path} needs your trust")
    return visible(f"{question.tool} wants to {question.action} in {question.path}")


def lines_of(question: PermissionQuestion) -> list[str]:
    """The lines that describe exactly what the call would do."""
    params = question.params
    shown, rest = "", set(params)
    if question.tool.startswith(MCP_PREFIX):
        # An MCP server chooses its parameters' names. Nested ones arrive as JSON in strings.
        lines = _json({name: _parsed(value) or value for name, value in params.items()})
    elif question.tool == COMMAND_TOOL and isinstance(params.get("command"), str):
        lines = visible_lines(params["command"])
        shown, rest = f"Execute command: {params['command']}", _OF_COMMAND
    elif all(isinstance(params.get(name), str) for name in _OF_CHANGE):
        lines = _difference(params["old_content"], params["new_content"])
        rest = _OF_CHANGE
    else:
        lines, rest = [], set()
    described = [] if question.description in {"", shown} else visible_lines(question.description)
    if question.is_trust:  # its description already has most of its parameters
        rest = {name for name in params if _is_within(params[name], question.description)}
    others = [line for name in params if name not in rest for line in _named(name, params[name])]
    return [*described, *lines, *others]


def scope_of(question: PermissionQuestion) -> list[str]:
    """What the answers allow beyond this call, one per line."""
    if question.is_trust:
        return []
    if question.is_cut:
        return ["y runs it again; after n the run continues, and the model checks the outcome"]
    if question.always_asks:
        return ["programs take instructions from this file: each change needs permission"]
    if not question.files:
        return [visible(f"s allows every such {question.tool} call in {question.path}") + _UNTIL]
    number = len(question.files)
    which = "this file" if number == 1 else f"these {number} files"
    return [
        visible(f"s allows {question.tool} for {which}") + _UNTIL,
        visible(f"f allows {question.tool} for everything in {question.folder}") + _UNTIL,
    ]


def choices_of(question: PermissionQuestion) -> str:
    """The letters that answer the request."""
    return (
        "yn" if question.is_trust or question.always_asks else "ysfn" if question.files else "ysn"
    )


def _is_within(value: Any, text: str) -> bool:
    return isinstance(value, str) and all(line in text for line in value.split("\n"))


def _difference(before: str, after: str) -> list[str]:
    shown = diffs.unified(before, after, path="").text.removesuffix("\n").split("\n")
    # Skips the two header lines. The first character of each line belongs to the diff.
    return [line[:1] + visible(line[1:]) for line in shown[2:]]


def _named(name: str, value: Any) -> Iterator[str]:
    """The lines of a parameter; none for an empty one."""
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


def _parsed(text: Any) -> Any:
    """A JSON object or array in a string; ``None`` for anything else."""
    if not isinstance(text, str) or text.lstrip()[:1] not in {"{", "["}:
        return None
    try:
        found = json.loads(text, object_pairs_hook=_each_name_once)
    except (ValueError, RecursionError):
        return None
    return found or None


def _each_name_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Raises ``ValueError`` for a duplicate name, of which only one value would be shown."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError
    return found


def _json(value: Any) -> list[str]:
    # Not orjson: it rounds large integers and rejects lone surrogates.
    return visible_lines(json.dumps(value, indent=2, ensure_ascii=False))
