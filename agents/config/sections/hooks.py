"""Reads ``hooks`` of the merged files into typed values. Pure.

Commands stay as they are written: a shell runs them and expands its variables. A hook protects
its user, so one with a broken matcher runs for every tool, not for none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agents.config.problem import Problem, problem_with_key
from agents.config.sections.entry import SECONDS_LIMIT
from agents.config.settings import HookSettings

TIMEOUT_SECONDS = 30.0
HOOKS_LIMIT = 100
MATCHER_LIMIT = 1_000
NAME_LIMIT = 200
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_PRE_TOOL_USE = "pretooluse"


def pre_tool_hooks(tree: Mapping[str, Any], *, problems: list[Problem]) -> tuple[HookSettings, ...]:
    hooks: list[HookSettings] = []
    for event, entries in (tree.get("hooks") or {}).items():
        # People write PreToolUse, pre_tool_use and preToolUse.
        if event.replace("_", "").replace("-", "").lower() != _PRE_TOOL_USE:
            problems.append(
                problem_with_key(f"hooks.{event}", "is not a known event; use PreToolUse")
            )
            continue
        for index, entry in enumerate(entries or ()):
            key = f"hooks.{event}[{index}]"
            command = entry.get("command") or ""
            if not command.strip() or "\0" in command:
                problems.append(problem_with_key(f"{key}.command", "is missing or not a command"))
                continue
            hooks.append(_hook(entry, command, key, problems))
    if len(hooks) > HOOKS_LIMIT:
        problems.append(problem_with_key("hooks", f"only the first {HOOKS_LIMIT} run"))
    return tuple(hooks[:HOOKS_LIMIT])


def _hook(
    entry: Mapping[str, Any], command: str, key: str, problems: list[Problem]
) -> HookSettings:
    seconds = entry.get("timeout") or TIMEOUT_SECONDS
    return HookSettings(
        name=entry.get("name") or _program(command),
        matcher=_matcher(entry.get("matcher") or "", key, problems),
        command=command,
        timeout_seconds=min(float(seconds), SECONDS_LIMIT),
    )


def _program(command: str) -> str:
    """Returns the name of the command's program: the rest of the command may contain a token."""
    words = (word for word in command.split() if not _ASSIGNMENT.match(word))
    return next(words, "hook").rsplit("/", 1)[-1].strip("'\"")[:NAME_LIMIT] or "hook"


def _matcher(written: str, key: str, problems: list[Problem]) -> str:
    matcher = "" if written.strip() == "*" else written
    try:
        if len(matcher) > MATCHER_LIMIT:
            raise ValueError
        re.compile(matcher)
    except (re.error, ValueError, OverflowError, RecursionError):
        message = "is not a regular expression; the hook runs for every tool"
        problems.append(problem_with_key(f"{key}.matcher", message))
        return ""
    return matcher
