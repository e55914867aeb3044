"""Failed sign-ins slow down."""

from crushsite.admin import FORGET_SECONDS, FREE_FAILURES, KEYS_KEPT, LONGEST_SECONDS, Throttle


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def failing(throttle: Throttle, times: int, *keys: str) -> None:
    for _ in range(times):
        throttle.fail(*keys)


def test_a_few_mistakes_cost_nothing() -> None:
    throttle = Throttle(Clock())
    failing(throttle, FREE_FAILURES - 1, "ann")
    assert throttle.wait_seconds("ann") == 0


def test_each_further_failure_doubles_the_wait_up_to_a_limit() -> None:
    clock = Clock()
    throttle = Throttle(clock)
    failing(throttle, FREE_FAILURES - 1, "ann")
    waits = []
    for _ in range(12):
        throttle.fail("ann")
        waits.append(throttle.wait_seconds("ann"))
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]
    assert LONGEST_SECONDS == 300


def test_an_attempt_may_be_made_when_the_wait_is_over() -> None:
    clock = Clock()
    throttle = Throttle(clock)
    failing(throttle, FREE_FAILURES + 2, "ann")
    assert throttle.wait_seconds("ann") == 4
    clock.now += 3.5
    assert throttle.wait_seconds("ann") == 1
    clock.now += 0.5
    assert throttle.wait_seconds("ann") == 0


def test_the_longest_wait_of_account_and_address_counts() -> None:
    throttle = Throttle(Clock())
    failing(throttle, FREE_FAILURES, "account ann", "address x")
    failing(throttle, 3, "account bob", "address x")
    assert throttle.wait_seconds("account bob") == 0
    assert throttle.wait_seconds("account bob", "address x") == 8
    assert throttle.wait_seconds("account cy", "address y") == 0


def test_a_success_clears_the_account_and_an_hour_clears_everything() -> None:
    clock = Clock()
    throttle = Throttle(clock)
    failing(throttle, FREE_FAILURES + 5, "ann", "bob")
    throttle.succeed("ann")
    assert throttle.wait_seconds("ann") == 0
    clock.now += FORGET_SECONDS + 1
    throttle.fail("bob")
    assert throttle.wait_seconds("bob") == 0


def test_memory_is_bounded() -> None:
    throttle = Throttle(Clock())
    failing(throttle, FREE_FAILURES, "first")
    for number in range(KEYS_KEPT):
        throttle.fail(f"name {number}")
    assert throttle.wait_seconds("first") == 0
