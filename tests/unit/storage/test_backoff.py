"""Waits grow to a limit, and differ between processes."""

from workspaces.log.retries import Backoff


def test_each_wait_is_longer_until_the_limit() -> None:
    backoff = Backoff(first_seconds=1, limit_seconds=8)
    waits = [backoff.next_seconds() for _ in range(6)]
    for wait, limit in zip(waits, [1, 2, 4, 8, 8, 8], strict=True):
        assert 0.75 * limit <= wait <= limit


def test_two_processes_do_not_try_again_at_the_same_moment() -> None:
    assert len({Backoff(first_seconds=1).next_seconds() for _ in range(10)}) > 1
