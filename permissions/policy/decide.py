"""May a tool go on, or must a person be asked?

Pure: everything that the answer depends on is given. Paths are compared as they
are; the caller has made them absolute and followed their links.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from permissions.policy.protected import covers_folder


@dataclass(frozen=True, slots=True)
class PolicyRequest:
    """What a tool wants to do, and for which session."""

    session_id: str
    tool_name: str
    action: str
    path: str
    files: tuple[str, ...] = ()  # what it would write
    always_asks: bool = False


@dataclass(frozen=True, slots=True)
class StandingGrant:
    """What a person allowed for the rest of a session: a path, or a folder with all in it."""

    session_id: str
    tool_name: str
    action: str
    path: str
    is_folder: bool = False

    def covers(self, asked: PolicyRequest, path: str) -> bool:
        if (self.session_id, self.tool_name, self.action) != (
            asked.session_id,
            asked.tool_name,
            asked.action,
        ):
            return False
        return self.path == path or (self.is_folder and covers_folder(self.path, path))


class PolicyOutcome(Enum):
    ALLOW = "allow"
    DENY = "deny"
    ASK = "ask"


@dataclass(frozen=True, slots=True)
class Decision:
    outcome: PolicyOutcome
    reason: str  # a sentence, for the record of what was decided


def decide(
    question: PolicyRequest,
    *,
    skip: bool,
    allowed_tools: frozenset[str],
    grants: Collection[StandingGrant],
) -> Decision:
    """``skip`` is the workspace's wish never to be asked; ``allowed_tools`` is configuration.

    A tool in ``allowed_tools`` may do everything, ``tool:action`` one thing. A
    question that names no session or no tool comes from no turn: it is denied. A
    question about several files needs a grant for each.
    """
    if not question.session_id or not question.tool_name:
        return Decision(PolicyOutcome.DENY, "The request names no session or no tool.")
    if skip:
        return Decision(PolicyOutcome.ALLOW, "This workspace asks for nothing.")
    if question.always_asks:
        return Decision(PolicyOutcome.ASK, "It changes a file that programs obey.")
    if question.tool_name in allowed_tools:
        return Decision(PolicyOutcome.ALLOW, "The configuration allows this tool.")
    if f"{question.tool_name}:{question.action}" in allowed_tools:
        return Decision(PolicyOutcome.ALLOW, "The configuration allows this tool to do this.")
    wanted = question.files or (question.path,)
    if all(any(grant.covers(question, path) for grant in grants) for path in wanted):
        return Decision(PolicyOutcome.ALLOW, "It was allowed for this session.")
    return Decision(PolicyOutcome.ASK, "Nothing allows it yet.")
