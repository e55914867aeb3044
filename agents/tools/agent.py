"""Sends an agent of its own for a task: a child session that only reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agents.llm.contract import ToolSpec
from agents.tools import arguments
from agents.tools.contract import (
    ChildEnded,
    ChildTask,
    ErrandEnd,
    Question,
    ToolContext,
    ToolOutcome,
)
from agents.tools.description import load_description
from agents.tools.limits import MAX_AGENT_ANSWER, MAX_AGENT_PROMPT, cut_middle

TITLE_CHARS = 60


@dataclass(frozen=True, slots=True)
class AgentArgs:
    prompt: str


class AgentTool:
    parallel = True  # several work side by side
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

    async def question(self, _args: AgentArgs, _context: ToolContext) -> Question | None:
        return None  # what its tools need is asked by them

    async def errand(self, args: AgentArgs, context: ToolContext) -> ChildTask:
        first = args.prompt.strip().splitlines()[0]
        title = first if len(first) <= TITLE_CHARS else first[: TITLE_CHARS - 1] + "…"
        if context.agent_role:
            return ChildTask("fleet", title, args.prompt, role=context.agent_role)
        return ChildTask("agent", title, args.prompt)

    def settle(self, _args: AgentArgs, end: ErrandEnd) -> ToolOutcome:
        assert isinstance(end, ChildEnded)  # noqa: S101  it sent for nothing else
        return child_outcome(end)

    async def run(self, _args: AgentArgs, _context: ToolContext) -> ToolOutcome:
        raise AssertionError("an errand is not run")


def child_outcome(end: ChildEnded) -> ToolOutcome:
    """A child's last words as the result of the call that sent for it."""
    text = cut_middle(end.text, MAX_AGENT_ANSWER)
    if end.outcome == "completed" and text.strip():
        return ToolOutcome(text)
    why = {
        "completed": "The agent ended without an answer: what it needed may have been denied.",
        "cancelled": "The agent was cancelled by the user.",
        "interrupted": "The agent was interrupted: the server stopped in the middle of its work.",
    }.get(end.outcome, f"The agent failed: {end.error or 'no reason is known'}.")
    said = f"\n\nIts answer until then:\n{text}" if text.strip() else ""
    return ToolOutcome(why + said, is_error=True)
