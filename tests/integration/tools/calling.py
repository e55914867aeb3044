"""Calls a tool as a run does: parses its arguments, requests permission, runs it."""

from __future__ import annotations

from typing import Any

from agents.tools.contract import RequiredPermission, ToolOutcome
from agents.tools.files.view import View
from tests.doubles.tool_context import ToolDoubles


async def call(tool: Any, doubles: ToolDoubles, **given: Any) -> ToolOutcome:
    outcome: ToolOutcome = await tool.run(tool.parse(given), doubles.context)
    return outcome


async def view(doubles: ToolDoubles, path: object) -> None:
    await call(View(), doubles, file_path=str(path))


async def required_permission(
    tool: Any, doubles: ToolDoubles, **given: Any
) -> RequiredPermission | None:
    required: RequiredPermission | None = await tool.required_permission(
        tool.parse(given), doubles.context
    )
    return required
