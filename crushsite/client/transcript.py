"""A session's messages as a person reads them: Markdown, tool calls, results, diffs. Pure.

Models, tools and files control no terminal: control characters are replaced before anything is drawn.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.markdown import Markdown
from rich.padding import Padding
from rich.text import Text

from agents.tools.files import diffs
from crushsite.cli.terminal import cut, visible
from crushsite.cli.terminal_output import plain

DIFF_LINES = 40
RESULT_LINES = 6
LINE_CHARS = 400
# The arguments that describe a call best, in order of preference.
_ABOUT = ("command", "file_path", "pattern", "path", "url", "query", "prompt", "description")
_OF_CHANGES = ("old_content", "new_content")


def markdown(text: str) -> RenderableType:
    # Links are written out: a hidden address could be any.
    return Markdown(plain(text), hyperlinks=False, code_theme="ansi_dark")


def finished_length(text: str) -> int:
    """How much of an open text is complete: all of its blocks but the last one."""
    from markdown_it import MarkdownIt  # noqa: PLC0415  rich has it

    starts = [
        token.map[0]
        for token in MarkdownIt("commonmark").enable("table").parse(text)
        if token.level == 0 and token.map is not None and token.nesting >= 0
    ]
    if len(starts) < 2:
        return 0
    lines = text.splitlines(keepends=True)
    return sum(len(line) for line in lines[: starts[-1]])


def user_message(message: Mapping[str, Any]) -> RenderableType:
    author = message.get("author")
    name = author.get("name", "") if isinstance(author, Mapping) else ""
    head = Text(f"{visible(str(name))} ❯ " if name else "❯ ", style="bold green")
    texts = [p["data"].get("text", "") for p in message["parts"] if p["type"] == "text"]
    attached = sum(p["type"] in {"binary", "image_url"} for p in message["parts"])
    body = Text(plain("\n".join(texts)).strip("\n"), style="bold")
    parts = [Text.assemble(head, body)]
    if attached:
        parts.append(Text(f"  with {attached} attachment{'' if attached == 1 else 's'}", "dim"))
    return Group(Text(), *parts)


def reply(text: str) -> RenderableType:
    return Group(Text(), markdown(text))


def whole_message(message: Mapping[str, Any]) -> Iterator[RenderableType]:
    """All of a finished message."""
    if message["role"] == "user":
        yield from list(shell_command(message)) or [user_message(message)]
    elif message["role"] == "tool":
        yield from tool_results(message)
    else:
        for part in message["parts"]:
            if part["type"] == "text" and part["data"].get("text", "").strip():
                yield reply(part["data"]["text"])
        yield from tool_calls(message)
        note = finish_note(message)
        if note is not None:
            yield note


def tool_calls(message: Mapping[str, Any]) -> Iterator[RenderableType]:
    for part in message["parts"]:
        if part["type"] == "tool_call":
            name = visible(str(part["data"].get("name", "")))
            about = about_call(part["data"].get("input", ""))
            yield Text.assemble(("→ ", "cyan"), (name, "bold cyan"), " ", (about, "cyan"))


def finish_note(message: Mapping[str, Any]) -> RenderableType | None:
    """Why a reply ended, if it did not end by itself."""
    for part in message["parts"]:
        if part["type"] == "finish":
            data = part["data"]
            if data.get("reason") in {"error", "canceled", "content_filter", "max_tokens"}:
                reason = "cancelled" if data["reason"] == "canceled" else data["reason"]
                words = " ".join(
                    plain(str(data[name])) for name in ("message", "details") if data.get(name)
                )
                return Text(f"✗ {reason}{': ' if words else ''}{words}", style="red")
    return None


def tool_results(message: Mapping[str, Any]) -> Iterator[RenderableType]:
    for part in message["parts"]:
        if part["type"] != "tool_result":
            continue
        data = part["data"]
        change = _change(data.get("metadata"))
        if change is not None and not data.get("is_error"):
            yield Padding(change, (0, 0, 0, 2))
        else:
            mark, style = ("✗ ", "red") if data.get("is_error") else ("← ", "dim")
            yield Text(mark + _first_lines(str(data.get("content", ""))), style=style)


def shell_command(message: Mapping[str, Any]) -> Iterator[RenderableType]:
    for part in message["parts"]:
        if part["type"] == "shell_command":
            data = part["data"]
            yield Text(f"! {visible(str(data.get('command', '')))}", style="bold magenta")
            yield Text(_first_lines(str(data.get("output", "")), most=20), style="dim")


def about_call(arguments: Any) -> str:
    """What a call is about, on one line."""
    found = _object(arguments)
    if found is None:
        return cut(plain(str(arguments)), LINE_CHARS)
    for name in _ABOUT:
        if found.get(name):
            return cut(plain(str(found[name])), LINE_CHARS)
    return cut(plain(json.dumps(found, ensure_ascii=False)), LINE_CHARS) if found else ""


def outputs(texts: Mapping[str, str], *, lines: int) -> Iterator[RenderableType]:
    """The last lines of the output of running tools."""
    for text in texts.values():
        tail = plain(text).rstrip("\n").split("\n")[-lines:]
        yield Text("\n".join(f"  {line[:LINE_CHARS]}" for line in tail), style="dim", no_wrap=True)


def _change(metadata: Any) -> RenderableType | None:
    """The diff of a tool that has changed a file."""
    found = _object(metadata) or {}
    if all(isinstance(found.get(name), str) for name in _OF_CHANGES):
        diff = diffs.unified(found["old_content"], found["new_content"], path="").text
        lines = diff.removesuffix("\n").split("\n")[2:]
    elif isinstance(found.get("diff"), str):
        lines = found["diff"].removesuffix("\n").split("\n")
    else:
        return None
    return diff_of(lines)


def diff_of(lines: Sequence[str], *, most: int = DIFF_LINES) -> RenderableType:
    text = Text()
    for line in lines[:most]:
        style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "dim")
        text.append(line[:1] + visible(line[1:]) + "\n", style=style)
    if len(lines) > most:
        text.append(f"… {len(lines) - most:,} more lines\n", style="dim")
    text.right_crop(1)
    return text


def _object(text: Any) -> Mapping[str, Any] | None:
    if isinstance(text, Mapping):
        return text
    try:
        found = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _first_lines(text: str, *, most: int = RESULT_LINES) -> str:
    lines = plain(text).strip("\n").split("\n")
    shown = "\n  ".join(cut(line, LINE_CHARS) if line.strip() else "" for line in lines[:most])
    left = len(lines) - most
    return f"{shown}\n  … {left:,} more line{'' if left == 1 else 's'}" if left > 0 else shown
