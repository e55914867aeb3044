"""Distant MCP servers, and the server that hosts what a workspace names."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.harness.shapes import Server, Shape
from tests.acceptance.mcp.servers import Distant
from tests.acceptance.mcp.sitting import MakeDistant


@pytest.fixture
def distant(tmp_path: Path) -> Iterator[MakeDistant]:
    """`distant("http")`: a started server, ended after the test."""
    made: list[Distant] = []

    def make(kind: str, *args: str, **options: Any) -> Distant:
        server = Distant(kind, tmp_path, *args, **options)
        made.append(server)
        server.start()
        return server

    yield make
    for server in made:
        server.kill9()


@pytest.fixture
def hosting(kept_servers: Callable[[Shape], Server]) -> Server:
    """The embedded server that tests share: it hosts by itself what a workspace names."""
    return kept_servers(Shape.EMBEDDED)
