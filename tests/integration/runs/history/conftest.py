"""Every test of the history has a writer, and a folder for its workspace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.runs.ground import (
    Ground,
)
from workspaces.log.writer import writer
from workspaces.models import (
    Workspace,
)


@pytest.fixture(autouse=True)
def running_writer(_database: None) -> Iterator[None]:
    writer.start()
    yield
    writer.stop()


@pytest.fixture
def project(ground: Ground, tmp_path: Path) -> Path:
    """The folder of the workspace."""
    folder = tmp_path / "project"
    folder.mkdir()
    Workspace.objects.filter(pk=ground.workspace_id).update(path=str(folder))
    return folder
