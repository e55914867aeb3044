"""A context that may reach the given hosts, and the result of `fetch` for a page."""

from __future__ import annotations

import dataclasses
from typing import Any

from agents.tools.web.fetch import Fetch
from tests.doubles.tool_context import ToolDoubles
from tests.integration.tools.calling import call


def allowed(doubles: ToolDoubles, *hosts: str) -> ToolDoubles:
    return dataclasses.replace(
        doubles, context=dataclasses.replace(doubles.context, web_allowed_hosts=hosts)
    )


async def fetch(doubles: ToolDoubles, url: str, form: str = "markdown", **more: Any) -> str:
    return (await call(Fetch(), doubles, url=url, format=form, **more)).content
