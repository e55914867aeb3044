"""A desk that may reach what is named, and what `fetch` makes of a page."""

from __future__ import annotations

import dataclasses
from typing import Any

from agents.tools.web.fetch import Fetch
from tests.doubles.tool_context import Desk
from tests.integration.tools.calling import call


def allowed(desk: Desk, *hosts: str) -> Desk:
    return dataclasses.replace(
        desk, context=dataclasses.replace(desk.context, web_allowed_hosts=hosts)
    )


async def fetch(desk: Desk, url: str, form: str = "markdown", **more: Any) -> str:
    return (await call(Fetch(), desk, url=url, format=form, **more)).content
