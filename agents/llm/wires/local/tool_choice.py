"""Which tool a prompt asks for. Pure.

A model of this size cannot judge that: shown tools, it calls one at every word.
So the choice is made here, from a tool that is named or a plain request; what the
tool is called with, the model writes itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from agents.llm.contract import ToolSpec
from agents.llm.wires.offline_plans import plan_for

PROMPT_LIMIT = 4_000  # characters that are looked at


def tool_asked_for(
    prompt: str, tools: Sequence[ToolSpec], *, working_dir: str = ""
) -> ToolSpec | None:
    by_name = {tool.name: tool for tool in tools}
    if (named := _named(prompt[:PROMPT_LIMIT], by_name)) is not None:
        return by_name[named]
    plan = plan_for(prompt, working_dir)
    return by_name.get(plan.steps[0].tool) if plan is not None and plan.steps else None


def _named(prompt: str, names: Sequence[str] | dict[str, ToolSpec]) -> str | None:
    """The first that is called a tool, or stands in backticks behind "use" or "call"."""
    shapes = (
        r"\btool\s{1,3}[`\"']?([A-Za-z0-9_-]{1,64})",
        r"([A-Za-z0-9_-]{1,64})[`\"']?\s{1,3}tool\b",
        r"\b(?:use|call|run)\s{1,3}`([A-Za-z0-9_-]{1,64})`",
    )
    found = [
        (match.start(), match[1])
        for shape in shapes
        for match in re.finditer(shape, prompt, re.IGNORECASE)
        if match[1] in names
    ]
    return min(found)[1] if found else None
