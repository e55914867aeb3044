"""Which waiting runs get the next places: weights, limits and priorities."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, connection, transaction

from agents.models import Run
from agents.runs.accept import Prompt
from agents.runs.rows import Claimed
from agents.states import Priority
from people.models import Share
from tests.integration.runs.answering import ANN, BOB
from tests.integration.runs.ground import (
    Ground,
    begin,
    claim,
    end,
    held_by,
    open_ground,
    register_worker,
    step,
)
from tests.integration.runs.test_claiming import accept_for, claimed_elsewhere
from workspaces.access import Actor
from workspaces.models import Workspace

MINUTE = 60_000


def keys(claimed: list[Claimed]) -> list[int]:
    return sorted(run.key for run in claimed)


def user_of(actor: Actor) -> User:
    return User.objects.create(pk=actor.user_id, username=actor.name)


def schedule(ground: Ground, actor: Actor, count: int) -> list[int]:
    return [
        ground.accept(session_id=ground.new_session(), actor=actor, priority=Priority.SCHEDULED)
        for _ in range(count)
    ]


def end_one(claimed: list[Claimed]) -> None:
    run = claimed.pop()
    end(begin(held_by(run.key, run)))


def test_a_prompt_passes_the_many_of_another_user_at_the_next_free_place(ground: Ground) -> None:
    accept_for(ground, ANN, 40)
    running = claim(limit=20)
    (bob,) = accept_for(ground, BOB, 1)

    end_one(running)

    assert keys(claim(limit=1)) == [bob]


def test_a_user_with_the_weight_of_two_gets_two_places_for_one(ground: Ground) -> None:
    Share.objects.create(user=user_of(ANN), weight=2)
    bob, ann = accept_for(ground, BOB, 4), accept_for(ground, ANN, 8)

    assert keys(claim(limit=6)) == [*bob[:2], *ann[:4]]
    assert keys(claim(limit=3)) == [bob[2], *ann[4:6]]


def test_a_users_workspace_with_the_weight_of_two_gets_two_places_for_one(ground: Ground) -> None:
    other = open_ground("/other")
    Share.objects.create(workspace=Workspace.objects.get(pk=other.workspace_id), weight=2)
    here, there = accept_for(ground, ANN, 4), accept_for(other, ANN, 4)

    assert keys(claim(limit=3)) == [here[0], *there[:2]]


def test_a_share_belongs_to_a_user_or_to_a_workspace_and_has_a_weight(ground: Ground) -> None:
    ann, workspace = user_of(ANN), Workspace.objects.get(pk=ground.workspace_id)
    for fields in ({}, {"user": ann, "workspace": workspace}, {"user": ann, "weight": 0}):
        with pytest.raises(IntegrityError):
            Share.objects.create(**fields)


# -- priorities


def test_scheduled_prompts_come_after_those_that_somebody_waits_for(ground: Ground) -> None:
    scheduled = schedule(ground, BOB, 2)
    ann, bob = accept_for(ground, ANN, 2), accept_for(ground, BOB, 1)

    assert keys(claim(limit=3)) == [*ann, *bob]
    assert keys(claim(limit=1)) == scheduled[:1]


def test_a_scheduled_prompt_that_has_waited_long_is_one_like_any_other(
    ground: Ground, settings: Any
) -> None:
    settings.CRUSH_SCHEDULED_WAIT_MINUTES = 30
    late, soon = schedule(ground, BOB, 2)
    accept_for(ground, ANN, 2)
    run = Run.objects.get(pk=late)
    Run.objects.filter(pk=late).update(accepted_at=run.accepted_at - 31 * MINUTE)
    Run.objects.filter(pk=soon).update(accepted_at=run.accepted_at - 29 * MINUTE)

    assert keys(claim(limit=1)) == [late]
    assert soon not in keys(claim(limit=2))


def test_a_scheduled_run_that_has_begun_goes_on_before_what_is_new(ground: Ground) -> None:
    schedule(ground, BOB, 2)
    (first,) = claim(limit=1)
    held = begin(held_by(first.key, first))
    step(held, releases=True)
    bob = accept_for(ground, BOB, 2)

    assert keys(claim(limit=1)) == [first.key]
    assert keys(claim(limit=1)) == bob[:1]


def test_the_priority_is_a_part_of_the_request_that_a_run_id_names() -> None:
    prompt = Prompt("s", "go", "r")
    assert prompt.digest() == Prompt("s", "go", "r", priority=Priority.INTERACTIVE).digest()
    assert prompt.digest() != Prompt("s", "go", "r", priority=Priority.SCHEDULED).digest()


# -- limits


def test_a_user_has_no_more_running_runs_than_the_settings_allow(
    ground: Ground, settings: Any
) -> None:
    settings.CRUSH_MAX_RUNNING_PER_USER = 2
    ann, bob = accept_for(ground, ANN, 3), accept_for(ground, BOB, 1)

    claimed = claim(limit=9)
    assert keys(claimed) == [*ann[:2], *bob]
    assert keys(claim(limit=9)) == []

    end_one([run for run in claimed if run.key == ann[0]])
    assert keys(claim(limit=9)) == ann[2:]


def test_a_workspace_has_no_more_running_runs_than_the_settings_allow(
    ground: Ground, settings: Any
) -> None:
    settings.CRUSH_MAX_RUNNING_PER_WORKSPACE = 2
    ann, bob = accept_for(ground, ANN, 2), accept_for(ground, BOB, 2)
    other = accept_for(open_ground("/other"), ANN, 1)

    assert keys(claim(limit=9)) == [ann[0], bob[0], *other]


def test_a_share_has_a_limit_of_its_own(ground: Ground, settings: Any) -> None:
    other = open_ground("/other")
    Share.objects.create(user=user_of(ANN), max_running=3)
    Share.objects.create(workspace=Workspace.objects.get(pk=other.workspace_id), max_running=1)
    ann, there = accept_for(ground, ANN, 4), accept_for(other, BOB, 2)
    assert keys(claim(limit=9)) == [*ann[:3], *there[:1]]

    settings.CRUSH_MAX_RUNNING_PER_USER = 1  # of those without a limit of their own
    bob = accept_for(ground, BOB, 1)
    assert keys(claim(limit=9)) == []
    Share.objects.create(user=user_of(BOB), max_running=2)
    assert keys(claim(limit=9)) == bob


def test_a_run_that_waits_for_a_person_leaves_its_place_to_another(
    ground: Ground, settings: Any
) -> None:
    settings.CRUSH_MAX_RUNNING_PER_USER = 1
    first, second = accept_for(ground, ANN, 2)
    held = begin(held_by(first, *claim(limit=9)))
    assert keys(claim(limit=9)) == []

    step(held, parks=True)

    assert keys(claim(limit=9)) == [second]


def test_two_workers_that_claim_at_the_same_time_keep_a_limit(database: str, settings: Any) -> None:
    settings.CRUSH_MAX_RUNNING_PER_USER = 3
    grounds = [open_ground(f"/project/{number}") for number in range(5)]
    if database == "sqlite":  # its transactions follow one another
        for ground in grounds:
            ground.accept(actor=ANN)
        assert len([*claim("here", limit=2), *claim("there", limit=2)]) == 3
        return
    for ground in grounds:
        ground.accept(actor=ANN)
    here: list[Claimed] = []

    def work() -> None:
        try:
            here.extend(claim("here", limit=2))
        finally:
            connection.close()

    register_worker("elsewhere")
    thread = threading.Thread(target=work)
    with claimed_elsewhere(limit=2) as elsewhere:
        thread.start()
        assert is_waiting_for_a_lock()
        assert unlocked_runs() == 3  # who waits would keep them from the claim that it waits for
    thread.join()

    assert len(elsewhere) == 2
    assert len(here) == 1
    assert Run.objects.filter(state="running").count() == 3


def unlocked_runs() -> int:
    with transaction.atomic():
        return len(Run.objects.select_for_update(skip_locked=True))


def is_waiting_for_a_lock() -> bool:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
            if cursor.fetchone():
                return True
        time.sleep(0.01)
    return False
