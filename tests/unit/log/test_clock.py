"""The clock of a process: of its host, until a reading of the database's clock is known."""

from __future__ import annotations

import pytest

from workspaces.log.timestamps import SharedClock

MS = 1_000_000
SECOND = 1000 * MS


class Times:
    """A host's two clocks, set by hand."""

    def __init__(self) -> None:
        self.wall = 5_000 * SECOND
        self.steady = 100 * SECOND
        self.clock = SharedClock(wall_ns=lambda: self.wall, steady_ns=lambda: self.steady)

    def go_on(self, nanoseconds: int) -> None:
        self.wall += nanoseconds
        self.steady += nanoseconds

    def read(self, database: int, *, took: int = 0) -> None:
        self.clock.adjust(
            database, before_ns=self.steady - took // 2, after_ns=self.steady + took // 2
        )


@pytest.fixture
def times() -> Times:
    return Times()


def test_without_a_reading_the_host_counts(times: Times) -> None:
    assert times.clock.now_ns() == times.wall


def test_the_databases_time_counts_and_goes_on_with_the_steady_clock(times: Times) -> None:
    times.read(6_000 * SECOND)
    times.go_on(3 * SECOND)
    assert times.clock.now_ns() == 6_003 * SECOND
    times.wall -= 45 * SECOND  # somebody sets the host's clock
    assert times.clock.now_ns() == 6_003 * SECOND


def test_a_reading_corrects_no_less_than_it_is_uncertain_itself(times: Times) -> None:
    times.read(6_000 * SECOND, took=2 * MS)
    times.read(6_000 * SECOND + 40 * MS, took=100 * MS)
    assert times.clock.now_ns() == 6_000 * SECOND
    times.read(6_000 * SECOND + 60 * MS, took=100 * MS)
    assert times.clock.now_ns() == 6_000 * SECOND + 60 * MS


def test_a_slow_first_reading_is_corrected_by_a_quick_one(times: Times) -> None:
    times.read(6_001 * SECOND, took=4 * SECOND)
    times.read(6_000 * SECOND, took=2 * MS)
    assert times.clock.now_ns() == 6_000 * SECOND


def test_a_step_of_the_databases_clock_is_known_for_a_while(times: Times) -> None:
    times.read(6_000 * SECOND)
    assert not times.clock.has_stepped_within(5)
    times.read(6_000 * SECOND + 20 * MS)
    assert not times.clock.has_stepped_within(5), "a small correction is no step"
    times.read(6_045 * SECOND)
    assert times.clock.has_stepped_within(5)
    times.go_on(6 * SECOND)
    assert not times.clock.has_stepped_within(5)
