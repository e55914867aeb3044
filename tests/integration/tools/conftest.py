"""A project's folder, and the doubles of a tool's context."""

from pathlib import Path

import pytest

from tests.doubles.tool_context import ToolDoubles, make_tool_doubles


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = (tmp_path / "project").resolve()
    folder.mkdir()
    return folder


@pytest.fixture
def doubles(root: Path) -> ToolDoubles:
    return make_tool_doubles(root)
