"""A workspace closes when nobody holds it and nothing runs in it, and not before."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from django.db import OperationalError

from agents.models import Run
from agents.runs.accept import Prompt, accept_prompt
from agents.runs.cancel import mark_deleted
from agents.runs.finish import close_if_left
from agents.runs.teardown import (
    cancel_and_wait,
    release_all_and_wait,
    release_workspace,
    retire_everywhere,
    start_alone,
    sweep_lapsed,
)
from agents.states import RunOutcome
from agents.turn.effects import End
from tests.integration.runs.ground import (
    Ground,
    claim,
    end,
    open_ground,
    run_of,
    say,
    step,
    write,
)
from workspaces.log.errors import ClientRetired, SessionUnknown, WorkspaceUnknown
from workspaces.log.outage import outage
from workspaces.log.timestamps import now_ms
from workspaces.models import ClientClaim, RetiredClient, Session, Workspace

FAR = 10**15


def attach(ground: Ground, client_id: str, *, expires_at: int = FAR) -> None:
    ClientClaim.objects.create(
        workspace_id=ground.workspace_id, client_id=client_id, expires_at=expires_at
    )


def is_open(ground: Ground) -> bool:
    return Workspace.objects.get(pk=ground.workspace_id).is_open


def release(ground: Ground, client_id: str) -> None:
    write(lambda tx: release_workspace(tx, ground.workspace_id, client_id))


@pytest.fixture
def ended_outage() -> Iterator[None]:
    outage.report(OperationalError("gone"))
    outage.report_end()
    yield
    outage.forget()


@pytest.mark.usefixtures("ended_outage")
def test_after_an_outage_clients_and_their_processes_can_return(ground: Ground) -> None:
    ClientClaim.objects.update(expires_at=now_ms() - 1)
    write(partial(sweep_lapsed, is_alone=False))  # another process may have to renew the claim
    assert is_open(ground)
    write(partial(sweep_lapsed, is_alone=True))
    assert not is_open(ground)


def test_the_last_client_closes_the_workspace(ground: Ground) -> None:
    attach(ground, "d")
    release(ground, "c")
    assert is_open(ground)
    release(ground, "d")
    assert not is_open(ground)
    assert len(ground.events("workspace.closed")) == 1
    open_ground("/other")
    with pytest.raises(WorkspaceUnknown):
        release(ground, "d")


@pytest.mark.parametrize("state", ["accepted", "running", "ready"])
def test_a_workspace_with_work_closes_after_it(ground: Ground, state: str) -> None:
    if state == "accepted":
        key = ground.accept()
    else:
        held = ground.start()
        key = held.key
        if state == "ready":
            step(held, releases=True)
    release(ground, "c")
    assert is_open(ground)
    assert run_of(key).state == state
    if state == "running":
        end(held)
    else:
        cancel_and_wait(ground.workspace_id, ground.session_id)
    assert not is_open(ground)


def test_a_parked_run_holds_no_workspace_open(ground: Ground) -> None:
    held = ground.start()
    say(held, calls=["a"])
    step(held, parks=True)
    release(ground, "c")
    assert not is_open(ground)
    assert run_of(held.key).state == "parked"


def test_a_claim_of_another_workspace_holds_only_that_one(ground: Ground) -> None:
    other = open_ground("/other")
    release(ground, "c")
    assert not is_open(ground)
    assert is_open(other)
    assert write(lambda tx: close_if_left(tx, other.workspace_id)) is False
    release(other, "c")
    assert write(lambda tx: close_if_left(tx, ground.workspace_id)) is False  # it is closed already
    ClientClaim.objects.all().delete()
    third = open_ground("/third")
    ClientClaim.objects.all().delete()
    assert write(lambda tx: close_if_left(tx, third.workspace_id)) is True


def test_a_retired_client_leaves_every_workspace_and_comes_back_to_none(ground: Ground) -> None:
    other = open_ground("/other")
    kept = open_ground("/kept")
    attach(kept, "d")
    assert write(lambda tx: retire_everywhere(tx, "c")) == []
    assert [is_open(one) for one in (ground, other, kept)] == [False, False, True]
    assert RetiredClient.objects.get().client_id == "c"
    assert ClientClaim.objects.get().client_id == "d"
    with pytest.raises(ClientRetired):
        write(
            lambda tx: accept_prompt(
                tx, kept.workspace_id, Prompt(kept.session_id, "x", "r"), client_id="c"
            )
        )


def test_the_unfinished_runs_with_a_run_id_of_a_retired_client_end(ground: Ground) -> None:
    attach(ground, "d")

    def accept(client_id: str, run_id: str | None) -> int:
        prompt = Prompt(ground.new_session(), "go", run_id)
        return write(lambda tx: accept_prompt(tx, ground.workspace_id, prompt, client_id=client_id))

    running = accept("c", "running")
    claim()
    waiting, without, others = accept("c", "waiting"), accept("c", None), accept("d", "others")

    assert write(lambda tx: retire_everywhere(tx, "c")) == [running]

    assert run_of(waiting).outcome == "cancelled"
    assert not Session.objects.get(pk=run_of(waiting).session_id).is_busy
    assert run_of(without).state == run_of(others).state == "accepted"
    assert run_of(running).state == "running"  # its worker ends it


def test_claims_whose_time_is_over_are_swept(ground: Ground) -> None:
    other = open_ground("/other")
    ClientClaim.objects.filter(workspace_id=ground.workspace_id).update(expires_at=now_ms() - 1)
    write(sweep_lapsed)
    assert [is_open(ground), is_open(other)] == [False, True]
    assert ClientClaim.objects.get().workspace_id == other.workspace_id


def test_a_server_that_is_alone_begins_without_clients(ground: Ground) -> None:
    busy = open_ground("/busy")
    busy.accept()
    write(start_alone)
    assert [is_open(ground), is_open(busy)] == [False, True]
    assert not ClientClaim.objects.exists()


def test_an_operator_releases_every_client(ground: Ground) -> None:
    attach(ground, "b")
    held = ground.start()
    assert release_all_and_wait(ground.workspace_id) == (["b", "c"], False)
    end(held)
    assert not is_open(ground)
    other = open_ground("/other")
    third = open_ground("/third")
    assert release_all_and_wait(other.workspace_id) == (["c"], True)
    assert is_open(third)


def test_an_operator_cancels_what_was_accepted(ground: Ground) -> None:
    ground.accept("first")
    ground.accept("second", run_id="r")
    assert cancel_and_wait(ground.workspace_id, ground.session_id) == 2
    assert cancel_and_wait(ground.workspace_id, ground.session_id) == 0
    assert set(Run.objects.values_list("outcome", flat=True)) == {"cancelled"}
    with pytest.raises(SessionUnknown):
        cancel_and_wait(ground.workspace_id, "unknown")


def test_a_deleted_session_goes_with_those_below_it_when_its_last_run_has_ended(
    ground: Ground,
) -> None:
    held = ground.start()
    other = ground.new_session()
    Session.objects.create(
        id="below", workspace_id=ground.workspace_id, parent_session_id=ground.session_id
    )
    assert write(lambda tx: mark_deleted(tx, ground.workspace_id, ground.session_id)) == 1
    assert Session.objects.count() == 3

    step(held, end=End(RunOutcome.CANCELLED))

    assert Session.objects.get().pk == other
    deleted = [event["session"]["id"] for event in ground.events("session.deleted")]
    assert deleted == [ground.session_id, "below"]
    assert not Run.objects.exists()
    with pytest.raises(SessionUnknown):
        write(lambda tx: mark_deleted(tx, ground.workspace_id, ground.session_id))
