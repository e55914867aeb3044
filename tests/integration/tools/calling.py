"""Calls a tool as a run does: parsed, asked about, carried out."""

from __future__ import annotations

from typing import Any

from agents.tools.contract import Question, ToolOutcome
from tests.doubles.tool_context import Desk


async def call(tool: Any, desk: Desk, **given: Any) -> ToolOutcome:
    outcome: ToolOutcome = await tool.run(tool.parse(given), desk.context)
    return outcome


async def ask(tool: Any, desk: Desk, **given: Any) -> Question | None:
    question: Question | None = await tool.question(tool.parse(given), desk.context)
    return question
