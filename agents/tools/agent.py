"""Starts a delegation: a child session that only reads, or a sub-agent of a role."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agents.llm.contract import ToolSpec
from agents.states import RunOutcome
from agents.tools import arguments
from agents.tools.contract import (
    ChildResult,
    ChildTask,
    DelegationResult,
    Repetition,
    RequiredPermission,
    ToolContext,
    ToolOutcome,
    load_description,
)
from agents.tools.limits import MAX_AGENT_ANSWER, MAX_AGENT_PROMPT, cut_middle

TITLE_CHARS = 60


@dataclass(frozen=True, slots=True)
class AgentArgs:
    prompt: str


class AgentTool:
    repetition = Repetition.PURE  # several delegations may run at the same time
    spec = ToolSpec(
        name="agent",
        description=load_description(__file__),
        schema={
            "type": "object",
            "properties": {
                "prompt": {
                    "type": "string",
                    "description": "The whole task: the agent sees nothing else.",
                }
            },
            "required": ["prompt"],
        },
    )

    def parse(self, given: Mapping[str, Any]) -> AgentArgs:
        return AgentArgs(
            arguments.text(given, "prompt", max_bytes=MAX_AGENT_PROMPT, blank=False),
        )

    async def required_permission(
        self, _args: AgentArgs, _context: ToolContext
    ) -> RequiredPermission | None:
        return None  # the child's tools send their own permission requests

    async def delegate(self, args: AgentArgs, context: ToolContext) -> ChildTask:
        first = args.prompt.strip().splitlines()[0]
        title = first if len(first) <= TITLE_CHARS else first[: TITLE_CHARS - 1] + "…"
        if context.agent_role:
            return ChildTask("fleet", title, args.prompt, role=context.agent_role)
        return ChildTask("agent", title, args.prompt)

    def settle(self, _args: AgentArgs, end: DelegationResult) -> ToolOutcome:
        assert isinstance(end, ChildResult)  # noqa: S101  the tool starts nothing else
        return child_outcome(end)

    async def run(self, _args: AgentArgs, _context: ToolContext) -> ToolOutcome:
        raise AssertionError("A delegating tool is never run.")


def child_outcome(end: ChildResult) -> ToolOutcome:
    """Returns a child's final reply as the result of the tool call that started it."""
    text = cut_middle(end.text, MAX_AGENT_ANSWER)
    if end.outcome == RunOutcome.COMPLETED and text.strip():
        return ToolOutcome(text)
    reasons: dict[str, str] = {
        RunOutcome.COMPLETED: "The agent ended without an answer. A permission that it needed may have been denied.",
        RunOutcome.CANCELLED: "The agent was cancelled by the user.",
        RunOutcome.INTERRUPTED: "The agent was interrupted: the server stopped in the middle of its work.",
    }
    why = reasons.get(end.outcome, f"The agent failed: {end.error or 'the reason is unknown'}.")
    partial = f"\n\nIts answer so far:\n{text}" if text.strip() else ""
    return ToolOutcome(why + partial, is_error=True)
