"""Parses the output of hooks and combines their decisions about a tool call. Pure.

Output that cannot be parsed decides nothing: the call is then checked as if the hook did
not exist. Only an explicit decision allows or denies a call.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import orjson

from agents.config.settings import HookSettings

EVENT = "PreToolUse"
TEXT_LIMIT = 100_000  # bytes of a variable: the limit for a command too
_NAME_LIMIT = 200
# Arguments that hooks get as variables too.
_VARIABLES = {
    "command": "CRUSH_TOOL_INPUT_COMMAND",
    "file_path": "CRUSH_TOOL_INPUT_FILE_PATH",
}


class CannotShowCall(Exception):
    """The call cannot be passed to hooks, for this reason."""


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A tool call that hooks are about to check."""

    tool_name: str
    tool_input: Mapping[str, Any] = field(repr=False)
    session_id: str
    working_dir: str

    def as_json(self) -> bytes:
        """Returns the call as JSON. Raises ``CannotShowCall``."""
        self._check_variables()
        try:
            return orjson.dumps(
                {
                    "event": EVENT,
                    "hook_event_name": EVENT,  # the key that hooks of other agents read
                    "session_id": self.session_id,
                    "cwd": self.working_dir,
                    "tool_name": self.tool_name,
                    "tool_input": dict(self.tool_input),
                }
            )
        except orjson.JSONEncodeError:
            raise CannotShowCall("its arguments cannot be written as JSON") from None

    def variables(self) -> dict[str, str]:
        return {
            "CRUSH_EVENT": EVENT,
            "CRUSH_TOOL_NAME": self.tool_name,
            "CRUSH_SESSION_ID": self.session_id,
            "CRUSH_CWD": self.working_dir,
            "CRUSH_PROJECT_DIR": self.working_dir,
        } | {
            variable: value
            for name, variable in _VARIABLES.items()
            if isinstance(value := self.tool_input.get(name), str)
        }

    def _check_variables(self) -> None:
        for name in _VARIABLES:
            value = self.tool_input.get(name)
            if not isinstance(value, str):
                continue
            if "\0" in value:
                raise CannotShowCall(f"{name} contains a NUL character")
            try:
                size = len(os.fsencode(value))
            except UnicodeEncodeError:
                raise CannotShowCall(
                    f"{name} contains characters that are not valid Unicode"
                ) from None
            if size > TEXT_LIMIT:
                raise CannotShowCall(f"{name} is longer than {TEXT_LIMIT:,} bytes")


def matching(hooks: Sequence[HookSettings], tool_name: str) -> list[HookSettings]:
    """Returns the hooks for a tool.

    A matcher is found anywhere in the name and ignores case, so that no guard is missed.
    """
    name = tool_name[:_NAME_LIMIT]
    return [hook for hook in hooks if re.search(hook.matcher, name, re.IGNORECASE) is not None]


DENIED = 2  # the exit code that denies a call
STOPPED = 49  # the exit code that requests the end of the turn: here it denies the call
REASON_LIMIT = 4_000  # characters
CONTEXT_LIMIT = 10_000


class HookDecision(StrEnum):
    NONE = "none"
    ALLOW = "allow"
    DENY = "deny"


_WORDS: Mapping[str, HookDecision] = {
    "allow": HookDecision.ALLOW,
    "approve": HookDecision.ALLOW,
    "deny": HookDecision.DENY,
    "block": HookDecision.DENY,
}


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """The answer of one hook. ``fault``: why the answer is ignored, for the log."""

    name: str
    matcher: str = ""
    decision: HookDecision = HookDecision.NONE
    reason: str = field(default="", repr=False)
    updated_input: Mapping[str, Any] | None = field(default=None, repr=False)
    context: str = field(default="", repr=False)
    fault: str = ""


@dataclass(frozen=True, slots=True)
class HookVerdict:
    decision: HookDecision = HookDecision.NONE
    # From the hooks that deny the call. The model gets it.
    reason: str = field(default="", repr=False)
    # The whole input with the changes by hooks; ``None`` when they changed nothing.
    updated_input: Mapping[str, Any] | None = field(default=None, repr=False)
    context: str = field(default="", repr=False)  # appended to the result for the model
    answers: tuple[HookAnswer, ...] = ()

    def metadata(self) -> dict[str, Any] | None:
        """Returns what clients display, for ``hook`` in a result's metadata, or ``None``."""
        if not self.answers:
            return None
        return {
            "hook_count": len(self.answers),
            **_shown(self.decision, self.reason, self.updated_input),
            "hooks": [
                {"name": answer.name}
                | ({"matcher": answer.matcher} if answer.matcher else {})
                | _shown(answer.decision, answer.reason, answer.updated_input)
                for answer in self.answers
            ],
        }


def answer_of(name: str, matcher: str, *, exit_code: int, stdout: bytes, stderr: str) -> HookAnswer:
    """Returns the answer of a hook that ended by itself."""
    if exit_code in {DENIED, STOPPED}:
        reason = stderr.strip()[:REASON_LIMIT] or f"The hook {name} refused the call."
        return HookAnswer(name, matcher, HookDecision.DENY, reason)
    if exit_code != 0:
        return HookAnswer(name, matcher, fault=f"it ended with exit code {exit_code}")
    if not stdout.strip():
        return HookAnswer(name, matcher)
    try:
        output = orjson.loads(stdout)
    except orjson.JSONDecodeError:
        return HookAnswer(name, matcher, fault="its output is not JSON")
    if not isinstance(output, dict):
        return HookAnswer(name, matcher, fault="its output is not a JSON object")
    return _parsed_answer(name, matcher, output)


def verdict_of(answers: Sequence[HookAnswer], tool_input: Mapping[str, Any]) -> HookVerdict:
    """Combines the answers, which are in the order of the configuration.

    One denial denies the call. Where several hooks change a field of the input, the last wins.
    """
    denying = [answer for answer in answers if answer.decision is HookDecision.DENY]
    context = "\n".join(answer.context for answer in answers if answer.context)[:CONTEXT_LIMIT]
    if denying:
        reason = "\n".join(answer.reason for answer in denying if answer.reason)[:REASON_LIMIT]
        reason = reason or f"The hook {denying[0].name} refused the call."
        return HookVerdict(HookDecision.DENY, reason, None, context, tuple(answers))
    allowing = any(answer.decision is HookDecision.ALLOW for answer in answers)
    merged = dict(tool_input)
    for answer in answers:
        merged |= answer.updated_input or {}
    return HookVerdict(
        HookDecision.ALLOW if allowing else HookDecision.NONE,
        updated_input=merged if merged != tool_input else None,
        context=context,
        answers=tuple(answers),
    )


def _parsed_answer(name: str, matcher: str, output: Mapping[str, Any]) -> HookAnswer:
    """Parses a hook's JSON, in our own format or in the ``hookSpecificOutput`` format."""
    specific = output.get("hookSpecificOutput")
    if isinstance(specific, dict):
        output = {
            "decision": specific.get("permissionDecision"),
            "reason": specific.get("permissionDecisionReason"),
            "updated_input": specific.get("updatedInput"),
            "context": specific.get("additionalContext"),
        }
    decision = _WORDS.get(str(output.get("decision") or "").lower(), HookDecision.NONE)
    if output.get("halt") is True or output.get("continue") is False:
        decision = HookDecision.DENY
    updated = _object(output.get("updated_input"))
    fault = "its updated_input is not an object" if updated is None else ""
    return HookAnswer(
        name,
        matcher,
        decision,
        _text(output.get("reason") or output.get("stopReason"))[:REASON_LIMIT],
        updated or None,
        _text(output.get("context"))[:CONTEXT_LIMIT],
        fault,
    )


def _object(value: Any) -> Mapping[str, Any] | None:
    """Returns an object, given as one or as its JSON text; ``None`` for any other value."""
    if value is None or value == "":
        return {}
    if isinstance(value, str):
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            return None
    return value if isinstance(value, dict) else None


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "\n".join(item for item in value if isinstance(item, str) and item)
    return value if isinstance(value, str) else ""


def _shown(
    decision: HookDecision, reason: str, updated: Mapping[str, Any] | None
) -> dict[str, Any]:
    shown: dict[str, Any] = {"decision": str(decision)}
    if reason:
        shown["reason"] = reason
    if updated is not None:
        shown["input_rewrite"] = True
    return shown
