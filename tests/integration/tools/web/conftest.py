"""A site on loopback, and a tool's context that may reach it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.doubles.tool_context import ToolDoubles, make_tool_doubles
from tests.doubles.web_site import Site, web_site
from tests.integration.tools.web.calling import allowed


@pytest_asyncio.fixture
async def site() -> AsyncIterator[Site]:
    async with web_site() as running:
        yield running


@pytest.fixture
def doubles(tmp_path: Path, site: Site) -> ToolDoubles:
    """Whose configuration lets it reach the site."""
    return allowed(make_tool_doubles(tmp_path), f"127.0.0.1:{site.port}")
