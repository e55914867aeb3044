"""Decides whether a tool call is allowed, denied, or needs a permission request.

Pure: the decision depends on the arguments only. Paths are compared as they are; the caller has
made them absolute and resolved their symlinks.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from permissions.policy.protected import covers_folder


@dataclass(frozen=True, slots=True)
class PolicyRequest:
    """An action that a tool call would perform, and its session."""

    session_id: str
    tool_name: str
    action: str
    path: str
    files: tuple[str, ...] = ()  # the files that it would write
    always_asks: bool = False


@dataclass(frozen=True, slots=True)
class SessionGrant:
    """A person's permission for the rest of a session: for a path, or for a whole folder."""

    session_id: str
    tool_name: str
    action: str
    path: str
    is_folder: bool = False

    def covers(self, request: PolicyRequest, path: str) -> bool:
        if (self.session_id, self.tool_name, self.action) != (
            request.session_id,
            request.tool_name,
            request.action,
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
    reason: str  # a sentence, for the log


def decide(
    request: PolicyRequest,
    *,
    skip: bool,
    allowed_tools: frozenset[str],
    grants: Collection[SessionGrant],
) -> Decision:
    """Returns the decision about a tool call.

    ``skip``: the workspace's permission mode requests no permission. ``allowed_tools`` comes from
    the configuration: ``tool`` allows every action of a tool, ``tool:action`` a single one. A
    request without a session or a tool belongs to no turn and is denied. A request for several
    files needs a grant for each.
    """
    if not request.session_id or not request.tool_name:
        return Decision(PolicyOutcome.DENY, "The request names no session or no tool.")
    if skip:
        return Decision(PolicyOutcome.ALLOW, "This workspace requests no permission.")
    if request.always_asks:
        return Decision(PolicyOutcome.ASK, "It changes a file that programs obey.")
    if request.tool_name in allowed_tools:
        return Decision(PolicyOutcome.ALLOW, "The configuration allows this tool.")
    if f"{request.tool_name}:{request.action}" in allowed_tools:
        return Decision(PolicyOutcome.ALLOW, "The configuration allows this tool to do this.")
    wanted = request.files or (request.path,)
    if all(any(grant.covers(request, path) for grant in grants) for path in wanted):
        return Decision(PolicyOutcome.ALLOW, "A person's grant covers it.")
    return Decision(PolicyOutcome.ASK, "Nothing allows it yet.")
