"""One line a second about the same trouble."""

from workspaces.log.log_throttle import KEYS_LIMIT, LogThrottle


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_it_leaves_out_what_comes_within_a_second_and_counts_it() -> None:
    clock = Clock()
    throttle = LogThrottle(clock=clock)
    assert throttle.admit("a") == 0
    clock.now += 0.5
    assert [throttle.admit("a") for _ in range(3)] == [None, None, None]
    clock.now += 0.5
    assert throttle.admit("a") == 3
    clock.now += 1
    assert throttle.admit("a") == 0


def test_each_trouble_has_its_own_lines() -> None:
    throttle = LogThrottle(clock=Clock())
    assert [throttle.admit(key) for key in ("a", "b", "a")] == [0, 0, None]


def test_it_remembers_a_bounded_number_of_troubles() -> None:
    throttle = LogThrottle(clock=Clock())
    for number in range(KEYS_LIMIT * 3):
        assert throttle.admit(number) == 0
    assert len(throttle._lines) <= KEYS_LIMIT
