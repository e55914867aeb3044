"""``fleet``: from what is written of a role to what a sub-agent of it is."""

from typing import Any

import pytest

from agents.config.problem import Problem
from agents.config.schema import check
from agents.config.sections.roles import (
    DEEPEST,
    IDLE_SECONDS,
    LONGEST_SECONDS,
    MOST_STEPS,
    MOST_STEPS_EVER,
    WALL_CLOCK_SECONDS,
    fleet_roles,
)
from agents.config.settings import FleetRole

VARIABLES = {"TOKEN": "t0ken", "HOST": "agents.example.org", "LINE": "a\nb", "WIDE": "tökén"}


def role(**entry: Any) -> tuple[FleetRole, list[str]]:
    problems: list[Problem] = []
    tree, misfits = check({"fleet": {"r": entry}})
    assert misfits == ()
    (made,) = fleet_roles(tree, lookup=VARIABLES.get, problems=problems).values()
    return made, [str(problem) for problem in problems]


def test_a_role_of_which_nothing_is_said_is_a_turn_of_our_own_within_limits():
    made, problems = role()
    assert problems == []
    assert (made.name, made.executor, made.depth) == ("r", "crush", 1)
    assert (made.endpoint, made.found_role, made.provider, made.model) == ("", "", "", "")
    assert made.wall_clock_seconds == WALL_CLOCK_SECONDS
    assert made.idle_seconds == IDLE_SECONDS
    assert made.most_steps == MOST_STEPS
    assert not made.is_disabled


def test_everything_written_is_taken():
    made, problems = role(
        description="Looks",
        executor="claude_code",
        provider="p",
        model="m",
        disabled_tools=["bash", "write"],
        limits={"wall_clock": 60, "idle": 5, "steps": 7},
        depth=3,
    )
    assert problems == []
    assert (made.description, made.executor) == ("Looks", "claude_code")
    assert (made.provider, made.model) == ("p", "m")
    assert made.disabled_tools == ("bash", "write")
    assert (made.wall_clock_seconds, made.idle_seconds, made.most_steps) == (60, 5, 7)
    assert made.depth == 3


def test_an_endpoint_and_its_token_are_expanded_and_never_shown():
    made, problems = role(endpoint="wss://$HOST/fleet/child", token="${TOKEN}")
    assert problems == []
    assert (made.endpoint, made.token) == ("wss://agents.example.org/fleet/child", "t0ken")
    assert "t0ken" not in repr(made)
    assert "example" not in repr(made)


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ({"endpoint": "https://$HOST"}, "ws://"),
        ({"endpoint": "wss://$MISSING"}, "MISSING"),
        ({"endpoint": "wss://$HOST", "token": "$MISSING"}, "MISSING"),
        ({"endpoint": "wss://$HOST", "token": "$LINE"}, "that a header cannot hold"),
        ({"endpoint": "wss://$HOST", "token": "$WIDE"}, "that a header cannot hold"),
        ({"endpoint": "wss://$HOST", "found_role": "f"}, "one place"),
    ],
)
def test_what_cannot_be_dialled_is_told_and_not_used(written: dict[str, Any], told: str):
    made, problems = role(**written)
    assert made.is_disabled
    assert told in made.fault
    assert len(problems) == 1
    assert "fleet.r." in problems[0]
    assert not any(value in problems[0] for value in VARIABLES.values())


def test_a_disabled_role_may_lack_anything():
    made, problems = role(endpoint="$MISSING", disabled=True)
    assert (made.is_disabled, made.fault, problems) == (True, "", [])


def test_limits_and_depth_are_bounded():
    made, _ = role(
        limits={"wall_clock": 10**9, "idle": 10**9, "steps": 10**9},
        depth=99,
    )
    assert made.wall_clock_seconds == made.idle_seconds == LONGEST_SECONDS
    assert made.most_steps == MOST_STEPS_EVER
    assert made.depth == DEEPEST


def test_a_limit_or_depth_of_nothing_is_the_usual_one():
    made, _ = role(limits={"wall_clock": 0, "idle": 0, "steps": 0}, depth=0)
    assert made.wall_clock_seconds == WALL_CLOCK_SECONDS
    assert (made.idle_seconds, made.most_steps, made.depth) == (IDLE_SECONDS, MOST_STEPS, 1)


@pytest.mark.parametrize(
    "written",
    [{"limits": {"steps": -1}}, {"limits": {"idle": 0.5}}, {"depth": "2"}, {"endpoint": 1}],
)
def test_what_has_the_wrong_shape_is_no_part_of_a_role(written: dict[str, Any]):
    _, misfits = check({"fleet": {"r": written}})
    assert len(misfits) == 1
    assert misfits[0].key.startswith("fleet.r.")
