"""Which runs a worker may claim, in which order, and how long they stay its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import connection, transaction

from agents.models import RunKind
from agents.runs.lease import Lease, LeaseLost, require_lease
from agents.runs.queries import is_held
from agents.runs.rows import Claimed
from agents.runs.transitions import claim_runs, mark_ready
from tests.integration.runs.answering import ANN, BOB
from tests.integration.runs.ground import (
    Ground,
    begin,
    claim,
    end,
    held_by,
    lose,
    open_ground,
    register_worker,
    run_of,
    say,
    step,
    write,
)
from workspaces.access import Actor
from workspaces.actions.processes import RegistrationLost, mark_lost, renew_registration
from workspaces.actions.sessions import create_session
from workspaces.log.commits import CommitAttempt, Fate, commit, look_up_fate
from workspaces.log.statements import statements
from workspaces.log.transaction import Counters, Transaction
from workspaces.models import NEVER_EXPIRES


def keys(claimed: list[Claimed]) -> list[int]:
    return sorted(run.key for run in claimed)


def park(held: Lease) -> None:
    """The run waits for an answer to a call."""
    say(held, calls=["c"])
    step(held, parks=True)
    assert run_of(held.key).state == "parked"


def test_it_claims_the_first_run_of_each_session(ground: Ground) -> None:
    first, second = ground.accept("first"), ground.accept("second")
    other = ground.accept("other", session_id=ground.new_session())

    assert keys(claim()) == [first, other]
    assert keys(claim()) == []
    assert run_of(second).state == "accepted"


def test_a_sessions_next_run_is_claimed_when_the_first_has_ended(ground: Ground) -> None:
    held = ground.start("first")
    second = ground.accept("second", run_id="r")
    assert claim() == []

    end(held)

    assert keys(claim()) == [second]


def test_nothing_is_claimed_behind_a_parked_run_and_other_sessions_go_on(ground: Ground) -> None:
    held = ground.start()
    park(held)
    behind = ground.accept("behind")
    other = ground.accept("other", session_id=ground.new_session())

    assert keys(claim()) == [other]
    assert run_of(behind).state == "accepted"


def test_a_parked_run_is_claimed_again_before_what_waits_behind_it(ground: Ground) -> None:
    held = ground.start()
    park(held)
    behind = ground.accept("behind")

    write(lambda tx: mark_ready(tx, held.key))

    assert keys(claim()) == [held.key]
    assert run_of(behind).state == "accepted"


def test_nothing_is_claimed_behind_a_run_that_was_handed_over(ground: Ground) -> None:
    held = ground.start()
    step(held, releases=True)
    behind = ground.accept("behind")
    assert run_of(held.key).state == "ready"

    assert keys(claim(limit=1)) == [held.key]
    assert keys(claim()) == []
    assert run_of(behind).state == "accepted"


def test_it_claims_no_more_than_the_limit_the_oldest_first(ground: Ground) -> None:
    accepted = [ground.accept(session_id=ground.new_session()) for _ in range(5)]

    assert keys(claim(limit=2)) == accepted[:2]
    assert keys(claim(limit=9)) == accepted[2:]


def accept_for(ground: Ground, actor: Actor, count: int) -> list[int]:
    return [ground.accept(session_id=ground.new_session(), actor=actor) for _ in range(count)]


def test_if_more_wait_than_there_are_places_users_get_them_in_turns(ground: Ground) -> None:
    ann = accept_for(ground, ANN, 6)
    bob = accept_for(ground, BOB, 2)

    assert keys(claim(limit=3)) == [*ann[:2], bob[0]]
    # Ann has two running runs, and Bob one.
    assert keys(claim(limit=1)) == [bob[1]]
    assert keys(claim(limit=9)) == ann[2:]


def test_a_users_workspaces_get_places_in_turns(ground: Ground) -> None:
    here = accept_for(ground, ANN, 5)
    there = accept_for(open_ground("/other"), ANN, 2)

    assert keys(claim(limit=2)) == [here[0], there[0]]
    assert keys(claim(limit=2)) == [here[1], there[1]]
    assert keys(claim(limit=2)) == here[2:4]


def test_what_has_begun_gets_its_place_before_what_the_same_user_has_queued(
    ground: Ground,
) -> None:
    queued = accept_for(ground, ANN, 3)
    (first,) = claim(limit=1)
    held = begin(held_by(first.key, first))
    step(held, releases=True)

    assert keys(claim(limit=1)) == [held.key]
    assert keys(claim(limit=1)) == [queued[1]]


def test_each_claim_has_a_fence_of_its_own(ground: Ground) -> None:
    held = ground.start()
    step(held, releases=True)

    (again,) = claim("another worker")

    assert again.key == held.key
    assert again.fence > held.fence
    assert not is_held(held.key, held.fence)
    assert is_held(again.key, again.fence)
    with pytest.raises(LeaseLost):
        write(lambda tx: require_lease(tx, held))


def test_a_claim_names_its_worker_and_what_the_run_needs(ground: Ground) -> None:
    key = ground.accept("do it", run_id="r-1")
    (claimed,) = claim("this worker")

    row = run_of(key)
    assert (row.state, row.worker, row.fence) == ("running", "this worker", claimed.fence)
    assert row.lease_expires_at == NEVER_EXPIRES
    assert claimed == Claimed(
        key=key,
        fence=1,
        workspace_id=ground.workspace_id,
        session_id=ground.session_id,
        run_id="r-1",
        accept_number=1,
        kind=RunKind.PROMPT,
        prompt="do it",
        path="/project",
        data_dir="/data",
        is_top_level=True,
        title="The first",
        context_tokens=0,
        parent=None,
        working_dir="",
        role="",
        hook_decisions={},
        author=None,
    )


def test_a_claim_tells_whether_its_session_is_below_another(ground: Ground) -> None:
    child = write(
        lambda tx: create_session(
            tx, ground.workspace_id, title="child", parent_session_id=ground.session_id
        )
    )
    ground.accept(session_id=child["id"])
    (claimed,) = claim()
    assert not claimed.is_top_level


def test_a_process_that_is_not_registered_claims_nothing(ground: Ground) -> None:
    key = ground.accept()
    register_worker("lost")
    lose("lost")
    register_worker("silent")
    write(lambda tx: renew_registration(tx, "silent", lease_ms=-1, runs=0, is_draining=False))

    for worker in ("lost", "silent", "unknown"):
        with pytest.raises(RegistrationLost):
            write(lambda tx, worker=worker: claim_runs(tx, worker=worker, limit=9))

    assert (run_of(key).state, run_of(key).fence) == ("accepted", 0)


def test_two_workers_that_claim_at_the_same_time_share_the_runs(database: str) -> None:
    if database == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    grounds = [open_ground(f"/project/{number}") for number in range(4)]
    accepted = [ground.accept() for ground in grounds]
    register_worker("elsewhere")

    with claimed_elsewhere(limit=2) as elsewhere:
        here = keys(claim("here"))  # does not wait for the other's locks

    assert sorted(elsewhere) == accepted[:2]
    assert here == accepted[2:]
    for key in accepted:
        held_by_one = run_of(key)
        assert (held_by_one.state, held_by_one.fence) == ("running", 1)


@contextmanager
def claimed_elsewhere(*, limit: int) -> Iterator[list[int]]:
    """Runs that another connection has claimed in a transaction that is still open."""

    found: list[int] = []
    claimed, may_commit = threading.Event(), threading.Event()

    def work() -> None:
        try:
            with transaction.atomic(), statements() as cursor:
                tx = Transaction(cursor, Counters(connection.vendor))
                runs = claim_runs(tx, worker="elsewhere", limit=limit)
                found.extend(keys(runs))
                claimed.set()
                may_commit.wait(20)
        finally:
            claimed.set()
            connection.close()

    thread = threading.Thread(target=work)
    thread.start()
    assert claimed.wait(20)
    try:
        yield found
    finally:
        may_commit.set()
        thread.join()


def test_a_run_that_starts_is_told_and_stores_its_prompt(ground: Ground) -> None:
    key = ground.accept("hello", run_id="r")
    begin(held_by(key, *claim()))

    (started,) = ground.events("run.started")
    assert started["run"]["key"] == key
    assert run_of(key).started_at is not None
    (message,) = ground.events("message.created")
    assert message["message"]["role"] == "user"


def test_a_claim_whose_commit_is_in_doubt_can_be_looked_up(ground: Ground, database: str) -> None:
    ground.accept()
    register_worker("w")
    attempt = CommitAttempt()
    commit([("", lambda tx: claim_runs(tx, worker="w", limit=9))], attempt)
    # A claim that is carried out twice would lose the runs of the first one.
    assert attempt.is_in_doubt is (database == "postgresql")  # SQLite's commits never are
    if attempt.is_in_doubt:
        assert look_up_fate(attempt) is Fate.COMMITTED


def test_a_registration_is_not_lost_during_a_claim(database: str) -> None:
    if database == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    open_ground().accept()
    register_worker("elsewhere")

    with claimed_elsewhere(limit=2) as elsewhere:
        assert len(elsewhere) == 1
        assert not write(lambda tx: mark_lost(tx, "elsewhere", renewed_until=10**15))

    assert write(lambda tx: mark_lost(tx, "elsewhere", renewed_until=10**15))


def test_a_commit_that_the_new_server_after_a_failover_does_not_know_has_failed(
    database: str,
) -> None:
    if database == "sqlite":
        pytest.skip("SQLite's commits are never in doubt")
    attempt = CommitAttempt()
    attempt.transaction_id = str(2**62 + 7)
    assert look_up_fate(attempt) is Fate.ABORTED
