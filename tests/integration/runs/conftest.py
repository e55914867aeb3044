"""Every test of the actions runs on both databases."""

from __future__ import annotations

import pytest

from tests.integration.runs.ground import Ground, open_ground


@pytest.fixture(autouse=True)
def _database(database: str) -> None:
    """On each of them."""


@pytest.fixture
def ground(_database: None) -> Ground:
    return open_ground()
