"""A project's folder, and a desk that works in it."""

from pathlib import Path

import pytest

from tests.doubles.tool_context import Desk, make_desk


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = (tmp_path / "project").resolve()
    folder.mkdir()
    return folder


@pytest.fixture
def desk(root: Path) -> Desk:
    return make_desk(root)
