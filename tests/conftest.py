"""Rules for every test: an isolated home, and the marker that the folder implies."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.isolation import isolate

isolate()
# The machine is shared: a slow moment is no finding.
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")

_ACCEPTANCE = Path(__file__).parent / "acceptance"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _ACCEPTANCE in item.path.parents:
            item.add_marker(pytest.mark.acceptance)
