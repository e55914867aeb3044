"""Until when a read or a write may wait."""

import time
from collections.abc import Iterator

import pytest

from workspaces.log.deadlines import (
    deadline,
    is_over_for_process,
    limit_for_process,
    wait_at_most,
    wait_without_limit,
)


@pytest.fixture(autouse=True)
def _unlimited() -> Iterator[None]:
    yield
    limit_for_process(None)


def seconds_left() -> float:
    until = deadline()
    assert until is not None
    return until - time.monotonic()


def test_without_a_limit_one_waits_as_long_as_it_takes() -> None:
    assert deadline() is None
    assert not is_over_for_process()


def test_a_limit_counts_from_the_moment_of_asking() -> None:
    with wait_at_most(50.0):
        assert 40 < seconds_left() <= 50
        with wait_at_most(None):
            assert deadline() is None
        wait_without_limit()
        assert deadline() is None
    assert deadline() is None


def test_the_end_of_the_process_limits_everybody() -> None:
    limit_for_process(50.0)
    assert 40 < seconds_left() <= 50
    with wait_at_most(500.0):
        assert 40 < seconds_left() <= 50
    with wait_at_most(5.0):
        assert seconds_left() <= 5
    assert not is_over_for_process()
    limit_for_process(-1.0)
    assert is_over_for_process()
    limit_for_process(None)
    assert deadline() is None
    assert not is_over_for_process()
