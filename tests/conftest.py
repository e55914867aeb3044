"""Rules for every test: an isolated home, and the marker that the folder implies."""

from pathlib import Path

import pytest

from tests.isolation import isolate

isolate()

_ACCEPTANCE = Path(__file__).parent / "acceptance"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _ACCEPTANCE in item.path.parents:
            item.add_marker(pytest.mark.acceptance)
