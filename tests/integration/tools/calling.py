"""Calls a tool as a run does: parsed, asked about, carried out."""

from __future__ import annotations

from typing import Any

from agents.tools.contract import Question, ToolOutcome
from agents.tools.files.view import View
from tests.doubles.tool_context import Desk


async def call(tool: Any, desk: Desk, **given: Any) -> ToolOutcome:
    outcome: ToolOutcome = await tool.run(tool.parse(given), desk.context)
    return outcome


async def view(desk: Desk, path: object) -> None:
    await call(View(), desk, file_path=str(path))


async def ask(tool: Any, desk: Desk, **given: Any) -> Question | None:
    question: Question | None = await tool.question(tool.parse(given), desk.context)
    return question
