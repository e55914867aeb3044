"""Failed sign-ins slow down, and right credentials do not."""

import pytest

from people.sign_in_throttle import (
    FORGET_SECONDS,
    FREE_FAILURES,
    FREE_GUESSES,
    KEYS_KEPT,
    LONGEST_SECONDS,
    LocalCounts,
    SharedCounts,
    SignInThrottle,
    keys_of,
    network_of,
)
from workspaces.log.errors import TooManyAttempts


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def failing(throttle: SignInThrottle, times: int, *keys: str) -> None:
    for _ in range(times):
        throttle.fail(*keys)


def test_a_few_mistakes_cost_nothing() -> None:
    throttle = SignInThrottle(LocalCounts(Clock()))
    failing(throttle, FREE_FAILURES - 1, "ann")
    assert throttle.wait_seconds("ann") == 0


def test_each_further_failure_doubles_the_wait_up_to_a_limit() -> None:
    clock = Clock()
    throttle = SignInThrottle(LocalCounts(clock))
    failing(throttle, FREE_FAILURES - 1, "ann")
    waits = []
    for _ in range(12):
        throttle.fail("ann")
        waits.append(throttle.wait_seconds("ann"))
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]
    assert LONGEST_SECONDS == 300


def test_an_attempt_may_be_made_when_the_wait_is_over() -> None:
    clock = Clock()
    throttle = SignInThrottle(LocalCounts(clock))
    failing(throttle, FREE_FAILURES + 2, "ann")
    assert throttle.wait_seconds("ann") == 4
    clock.now += 3.5
    assert throttle.wait_seconds("ann") == 1
    clock.now += 0.5
    assert throttle.wait_seconds("ann") == 0


def test_the_longest_wait_of_account_and_address_counts() -> None:
    throttle = SignInThrottle(LocalCounts(Clock()))
    failing(throttle, FREE_FAILURES, "account ann", "address x")
    failing(throttle, 3, "account bob", "address x")
    assert throttle.wait_seconds("account bob") == 0
    assert throttle.wait_seconds("account bob", "address x") == 8
    assert throttle.wait_seconds("account cy", "address y") == 0


def test_a_success_clears_the_account_and_an_hour_clears_everything() -> None:
    clock = Clock()
    throttle = SignInThrottle(LocalCounts(clock))
    failing(throttle, FREE_FAILURES + 5, "ann", "bob")
    throttle.succeed("ann")
    assert throttle.wait_seconds("ann") == 0
    clock.now += FORGET_SECONDS + 1
    throttle.fail("bob")
    assert throttle.wait_seconds("bob") == 0


def test_memory_is_bounded() -> None:
    throttle = SignInThrottle(LocalCounts(Clock()))
    failing(throttle, FREE_FAILURES, "first")
    for number in range(KEYS_KEPT):
        throttle.fail(f"name {number}")
    assert throttle.wait_seconds("first") == 0


def test_wrong_tokens_of_an_address_are_refused_after_twenty() -> None:
    clock = Clock()
    throttle = SignInThrottle(LocalCounts(clock), free=FREE_GUESSES)
    for _ in range(FREE_GUESSES):
        throttle.count_guess("192.0.2.7")
    with pytest.raises(TooManyAttempts) as refused:
        throttle.count_guess("192.0.2.7")
    assert refused.value.headers == [(b"retry-after", b"1")]
    throttle.count_guess("192.0.2.8")
    clock.now += 1
    throttle.count_guess("192.0.2.7")  # one more
    with pytest.raises(TooManyAttempts) as refused:
        throttle.count_guess("192.0.2.7")
    assert refused.value.headers == [(b"retry-after", b"2")]


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("unix", "unix"),
        ("", ""),
    ],
)
def test_an_ipv6_sender_has_a_whole_network(address: str, network: str) -> None:
    assert network_of(address) == network


def test_an_account_is_one_in_any_case_and_a_long_name_takes_little_memory() -> None:
    assert keys_of("Ann", "x") == keys_of("ann", "x")
    assert len(keys_of("a" * 1_000_000, "x")[0]) < 300


def test_without_redis_each_process_counts_alone() -> None:
    throttle = SignInThrottle(SharedCounts("redis://127.0.0.1:1", prefix="p"))
    failing(throttle, FREE_FAILURES, "ann")
    assert throttle.wait_seconds("ann") == 1
    throttle.succeed("ann")
    assert throttle.wait_seconds("ann") == 0
