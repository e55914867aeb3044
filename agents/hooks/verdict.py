"""What hooks say of a tool call, and what comes of it together. Pure.

A hook that says nothing clear has no opinion: then the call is judged as if there were
no hook. Only a clear word forbids or allows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import orjson

DENIED = 2  # the exit code that refuses a call
STOPPED = 49  # the one that asks for the end of the turn: here it refuses the call
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
    """One hook's. ``fault``: why its answer does not count, for the log."""

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
    reason: str = field(default="", repr=False)  # of those who deny, told to the model
    # The whole input, with what hooks changed; ``None`` when nothing was.
    updated_input: Mapping[str, Any] | None = field(default=None, repr=False)
    context: str = field(default="", repr=False)  # told to the model beside the result
    answers: tuple[HookAnswer, ...] = ()

    def metadata(self) -> dict[str, Any] | None:
        """For a result's metadata, under ``hook``: what clients draw. ``None`` without hooks."""
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
    """What a hook that ended by itself says."""
    if exit_code in {DENIED, STOPPED}:
        reason = stderr.strip()[:REASON_LIMIT] or f"The hook {name} refused the call."
        return HookAnswer(name, matcher, HookDecision.DENY, reason)
    if exit_code != 0:
        return HookAnswer(name, matcher, fault=f"it ended with exit code {exit_code}")
    if not stdout.strip():
        return HookAnswer(name, matcher)
    try:
        said = orjson.loads(stdout)
    except orjson.JSONDecodeError:
        return HookAnswer(name, matcher, fault="its output is not JSON")
    if not isinstance(said, dict):
        return HookAnswer(name, matcher, fault="its output is not a JSON object")
    return _said(name, matcher, said)


def verdict_of(answers: Sequence[HookAnswer], tool_input: Mapping[str, Any]) -> HookVerdict:
    """In the order of the configuration: one that denies wins, later changes win."""
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


def _said(name: str, matcher: str, said: Mapping[str, Any]) -> HookAnswer:
    """In our own shape, or in that of another agent's hooks."""
    specific = said.get("hookSpecificOutput")
    if isinstance(specific, dict):
        said = {
            "decision": specific.get("permissionDecision"),
            "reason": specific.get("permissionDecisionReason"),
            "updated_input": specific.get("updatedInput"),
            "context": specific.get("additionalContext"),
        }
    decision = _WORDS.get(str(said.get("decision") or "").lower(), HookDecision.NONE)
    if said.get("halt") is True or said.get("continue") is False:
        decision = HookDecision.DENY
    updated = _object(said.get("updated_input"))
    fault = "its updated_input is not an object" if updated is None else ""
    return HookAnswer(
        name,
        matcher,
        decision,
        _text(said.get("reason") or said.get("stopReason"))[:REASON_LIMIT],
        updated or None,
        _text(said.get("context"))[:CONTEXT_LIMIT],
        fault,
    )


def _object(value: Any) -> Mapping[str, Any] | None:
    """Also as a text that holds one; ``None`` for anything else."""
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
