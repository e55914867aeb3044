"""Moments in milliseconds, as the wires show them."""

import time

from workspaces.log.timestamps import as_rfc3339, as_seconds, now_ms


def test_now_is_in_milliseconds_since_1970() -> None:
    assert time.time() * 1000 - 60_000 < now_ms() <= time.time() * 1000 + 1


def test_seconds_are_whole() -> None:
    assert [as_seconds(moment) for moment in (999, 1_000, 1_999_999)] == [0, 1, 1_999]


def test_a_moment_is_shown_in_utc() -> None:
    assert as_rfc3339(0) == "1970-01-01T00:00:00Z"
    assert as_rfc3339(1_700_000_000_250) == "2023-11-14T22:13:20.250000Z"
