"""Calls a web tool as a run does, and a desk that may reach what is named."""

from __future__ import annotations

import dataclasses
from typing import Any

from agents.tools.contract import Question, ToolOutcome
from agents.tools.fetch import Fetch
from tests.doubles.tool_context import Desk


def allowed(desk: Desk, *hosts: str) -> Desk:
    return dataclasses.replace(
        desk, context=dataclasses.replace(desk.context, web_allowed_hosts=hosts)
    )


async def call(tool: Any, desk: Desk, **given: Any) -> ToolOutcome:
    outcome: ToolOutcome = await tool.run(tool.parse(given), desk.context)
    return outcome


async def ask(tool: Any, desk: Desk, **given: Any) -> Question | None:
    question: Question | None = await tool.question(tool.parse(given), desk.context)
    return question


async def fetch(desk: Desk, url: str, form: str = "markdown", **more: Any) -> str:
    return (await call(Fetch(), desk, url=url, format=form, **more)).content
