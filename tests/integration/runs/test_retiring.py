"""A client that leaves for good takes its own runs with a ``run_id`` along, and no others."""

from __future__ import annotations

from typing import Any

import pytest

from agents.models import RunKind
from agents.runs.accept import Prompt, accept_prompt
from agents.runs.queries import busy_sessions
from agents.runs.teardown import retire_everywhere
from agents.states import RunOutcome
from agents.turn.notes import CANCELLED_RESULT
from tests.integration.runs.ground import (
    Ground,
    begin,
    cancelled_of,
    claim,
    end,
    held_by,
    results_of,
    run_of,
    say,
    step,
    write,
)
from workspaces.log.errors import ClientRetired
from workspaces.models import ClientClaim, Workspace


def retire(client_id: str) -> list[int]:
    return write(lambda tx: retire_everywhere(tx, client_id))


def attach(ground: Ground, client_id: str, **more: Any) -> None:
    ClientClaim.objects.create(
        workspace_id=ground.workspace_id, client_id=client_id, expires_at=10**15, **more
    )


def accept(ground: Ground, text: str, *, client_id: str, **more: Any) -> int:
    prompt = Prompt(more.pop("session_id", ground.session_id), text, **more)
    return write(lambda tx: accept_prompt(tx, ground.workspace_id, prompt, client_id=client_id))


def test_a_prompt_belongs_to_the_only_client(ground: Ground) -> None:
    key = ground.accept(run_id="r")
    assert run_of(key).client_id == "c"
    assert retire("c") == []
    assert run_of(key).outcome == "cancelled"
    (event,) = ground.events("run.finished")
    assert event["run"]["outcome"] == "cancelled"
    assert not Workspace.objects.get(pk=ground.workspace_id).is_open


def test_with_several_clients_nobody_is_guessed_and_the_run_goes_on(ground: Ground) -> None:
    attach(ground, "other")
    key = ground.accept(run_id="r")
    retire("c")
    retire("other")
    assert run_of(key).state == "accepted"
    assert run_of(key).client_id == ""


def test_a_prompt_without_a_run_id_goes_on(ground: Ground) -> None:
    key = ground.accept()
    retire("c")
    assert run_of(key).state == "accepted"


def test_of_several_clients_the_one_that_sent_the_prompt_is_meant(ground: Ground) -> None:
    attach(ground, "other")
    key = accept(ground, "go", client_id="other", run_id="r")
    retire("c")
    assert run_of(key).state == "accepted"
    retire("other")
    assert run_of(key).outcome == "cancelled"


def test_what_a_worker_holds_is_left_to_it_and_it_is_told(ground: Ground) -> None:
    attach(ground, "tui")
    behind = accept(ground, "mine", client_id="c", run_id="r")
    held = begin(held_by(behind, *claim()))
    assert retire("c") == [held.key]
    assert run_of(held.key).state == "running"
    # A worker that misses the nudge finds it, and nothing is written after it.
    assert cancelled_of("worker") == [(held.key, held.fence)]
    end(held, RunOutcome.CANCELLED)
    assert run_of(held.key).outcome == "cancelled"


def test_other_runs_of_its_session_go_on(ground: Ground) -> None:
    attach(ground, "tui")
    first = accept(ground, "first", client_id="tui", run_id="1")
    held = begin(held_by(first, *claim()))
    mine = accept(ground, "mine", client_id="c", run_id="2")
    last = accept(ground, "last", client_id="tui", run_id="3")
    assert retire("c") == []
    assert run_of(mine).state == "accepted"  # it ends in its turn
    say(held, "done")
    end(held)
    assert [run_of(key).outcome for key in (first, mine)] == ["completed", "cancelled"]
    assert [one.key for one in claim()] == [last]


def test_a_prompt_of_a_retired_client_that_comes_late_is_refused(ground: Ground) -> None:
    attach(ground, "tui")
    retire("c")
    with pytest.raises(ClientRetired):
        accept(ground, "late", client_id="c", run_id="r")


def test_a_client_is_busy_with_the_session_it_looks_at(ground: Ground) -> None:
    other = ground.new_session()
    attach(ground, "viewer", current_session_id=other)
    attach(ground, "fresh")
    busy = [{"id": ground.session_id, "title": "The first"}]
    accept(ground, "go", client_id="c")
    assert busy_sessions(ground.workspace_id, "c") == busy  # it sent the prompt
    assert busy_sessions(ground.workspace_id, "viewer") == []
    assert busy_sessions(ground.workspace_id, "fresh") == []
    assert busy_sessions(ground.workspace_id) == busy  # whoever it is
    ClientClaim.objects.filter(client_id="viewer").update(current_session_id=ground.session_id)
    assert busy_sessions(ground.workspace_id, "viewer") == busy


def test_an_only_client_needs_not_say_who_it_is(ground: Ground) -> None:
    other = ground.new_session()
    ground.accept()
    assert busy_sessions(ground.workspace_id) != []
    ClientClaim.objects.filter(client_id="c").update(current_session_id=other)
    assert busy_sessions(ground.workspace_id) == []


def test_a_run_of_its_own_that_waits_for_an_answer_ends(ground: Ground) -> None:
    attach(ground, "tui")
    key = accept(ground, "mine", client_id="c", run_id="r")
    held = begin(held_by(key, *claim()))
    say(held, calls=["a"])
    step(held, parks=True)
    behind = accept(ground, "behind", client_id="tui", run_id="2")

    assert retire("c") == []

    assert run_of(key).outcome == "cancelled"
    assert results_of(held) == {"a": (CANCELLED_RESULT, True)}
    assert [one.key for one in claim()] == [behind]


def test_a_late_prompt_without_a_run_id_of_a_client_that_left_is_accepted(ground: Ground) -> None:
    """Nobody waits for its end, so it may go on without its client."""
    attach(ground, "tui")
    retire("c")
    key = accept(ground, "late", client_id="c")
    assert run_of(key).state == "accepted"


def test_a_summary_belongs_to_no_client(ground: Ground) -> None:
    other = ground.new_session()
    first = ground.start(session_id=other)
    say(first, "words")
    end(first)
    key = ground.accept("", session_id=other, kind=RunKind.SUMMARY)
    assert run_of(key).client_id == ""
    assert busy_sessions(ground.workspace_id, "c") == []
