"""The runs that a client finds when it comes: all that have not ended, oldest first."""

from __future__ import annotations

from agents.models import RunKind
from agents.runs.queries import read_unfinished_runs
from tests.integration.runs.ground import Ground, end, open_ground, run_of, say, step


def test_they_are_shown_as_they_were_accepted_and_with_their_state(ground: Ground) -> None:
    ended = ground.start("ended")
    end(ended)
    held = ground.start("p" * 3_000, run_id="r")
    waiting = ground.accept("waits")
    other = ground.accept("", session_id=ground.new_session(), kind=RunKind.SUMMARY)
    open_ground("/other").accept("elsewhere")

    assert read_unfinished_runs(ground.workspace_id) == {
        "runs": [
            {
                "key": held.key,
                "session_id": ground.session_id,
                "accept_number": 2,
                "run_id": "r",
                "prompt": "p" * 2_000,
                "state": "running",
            },
            {
                "key": waiting,
                "session_id": ground.session_id,
                "accept_number": 3,
                "prompt": "waits",
                "state": "accepted",
            },
            {
                "key": other,
                "session_id": run_of(other).session_id,
                "accept_number": 1,
                "kind": "summary",
                "prompt": "",
                "state": "accepted",
            },
        ]
    }


def test_a_run_that_waits_for_an_answer_has_not_ended(ground: Ground) -> None:
    held = ground.start()
    say(held, calls=["a"])
    step(held, parks=True)
    (shown,) = read_unfinished_runs(ground.workspace_id)["runs"]
    assert (shown["key"], shown["state"]) == (held.key, "parked")
