"""Pauses grow to a limit, and differ between processes."""

from __future__ import annotations

import pytest

from workspaces.backoff import Backoff, pause_after


@pytest.mark.parametrize(
    ("failures", "seconds"), [(1, 0.5), (2, 1), (3, 2), (6, 16), (7, 30), (8, 30), (10_000, 30)]
)
def test_pauses_double_up_to_the_limit(failures: int, seconds: float) -> None:
    assert pause_after(failures, first_seconds=0.5, limit_seconds=30) == seconds


def test_each_wait_is_longer_until_the_limit() -> None:
    backoff = Backoff(first_seconds=1, limit_seconds=8)
    waits = [backoff.next_seconds() for _ in range(6)]
    for wait, limit in zip(waits, [1, 2, 4, 8, 8, 8], strict=True):
        assert 0.75 * limit <= wait <= limit


def test_two_processes_do_not_try_again_at_the_same_moment() -> None:
    assert len({Backoff(first_seconds=1).next_seconds() for _ in range(10)}) > 1
