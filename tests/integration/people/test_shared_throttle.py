"""Several web processes count failed sign-ins together, in Redis."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from people.sign_in_throttle import FREE_FAILURES, FREE_GUESSES, SharedCounts, SignInThrottle
from tests.acceptance.harness.redis import Redis, redis_binary
from workspaces.log.errors import TooManyAttempts


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if redis_binary() is None:
        reason = "this test needs Redis: install the package redis-server"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    server = Redis(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server.new_url()
    server.stop()


def processes(url: str, *, free: int, prefix: str) -> list[SignInThrottle]:
    return [SignInThrottle(SharedCounts(url, prefix=prefix), free=free) for _ in range(2)]


def test_processes_count_passwords_together(redis_url: str) -> None:
    first, second = processes(redis_url, free=FREE_FAILURES, prefix="a")
    for number in range(FREE_FAILURES):
        (first, second)[number % 2].fail("account ann", "address x")
    assert first.wait_seconds("account ann") == second.wait_seconds("address x") == 1
    first.succeed("account ann")
    assert second.wait_seconds("account ann") == 0
    assert second.wait_seconds("account ann", "address x") == 1


def test_processes_count_guesses_together(redis_url: str) -> None:
    first, second = processes(redis_url, free=FREE_GUESSES, prefix="b")
    for _ in range(FREE_GUESSES):
        first.count_guess("192.0.2.7")
    with pytest.raises(TooManyAttempts):
        second.count_guess("192.0.2.7")


def test_redis_keeps_no_names_and_forgets_within_an_hour(redis_url: str) -> None:
    import redis

    (throttle, _) = processes(redis_url, free=FREE_FAILURES, prefix="c")
    throttle.fail("account a-mistyped-password")
    with redis.Redis.from_url(redis_url) as client:
        (key,) = client.scan_iter("c.*")
        assert b"mistyped" not in key
        assert 0 < client.ttl(key) <= 3600
