"""When a server that failed is started again."""

from agents.tools.mcp.limits import McpTimeouts
from agents.tools.mcp.supervisor import Pauses

PATIENCE = McpTimeouts(
    first_pause_seconds=1,
    longest_pause_seconds=6,
    stable_seconds=60,
    most_failures=5,
    retry_seconds=30,
)


def test_pauses_double_to_a_limit_and_then_it_is_left_alone() -> None:
    pauses = Pauses(PATIENCE)
    seen = []
    for now in range(6):
        pauses.failed(now, connected_seconds=0)
        seen.append(pauses.seconds)
    assert seen == [1, 2, 4, 6, None, None]


def test_who_lived_long_begins_anew() -> None:
    pauses = Pauses(PATIENCE)
    for now in range(5):
        pauses.failed(now, connected_seconds=0)
    pauses.failed(100, connected_seconds=60)
    assert pauses.seconds == 1
    assert pauses.is_short


def test_asking_for_it_forgets_the_failures() -> None:
    pauses = Pauses(PATIENCE)
    for now in range(5):
        pauses.failed(now, connected_seconds=0)
    assert not pauses.is_short
    pauses.reset()
    assert pauses.is_short


def test_one_left_alone_may_be_tried_once_in_a_while() -> None:
    pauses = Pauses(PATIENCE)
    pauses.failed(100, connected_seconds=0)
    assert not pauses.may_be_tried(129)
    assert pauses.may_be_tried(130)
