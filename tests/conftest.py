"""Rules for every test: an isolated home, no process left behind, the marker that the folder implies."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.acceptance.harness.processes import end_leftovers
from tests.isolation import isolate

isolate()
# The machine is shared: a slow moment is no finding.
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")

_ACCEPTANCE = Path(__file__).parent / "acceptance"


@pytest.fixture(scope="session", autouse=True)
def no_process_is_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fails the last test of this process if a program that a test started with a data folder of
    its own still runs. Torn down after every other fixture of the session, which this one precedes.
    """
    folder = tmp_path_factory.getbasetemp()
    yield
    left = end_leftovers(f"{folder}{os.sep}")
    assert left == [], "tests left these processes behind (ended now)"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _ACCEPTANCE in item.path.parents:
            item.add_marker(pytest.mark.acceptance)
