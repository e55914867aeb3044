"""A workspace lives in one worker at a time. Only on PostgreSQL: SQLite has one process."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import pytest
from django.db import connection, transaction

from agents.models import Run
from agents.runs.claims.claim_order import PATIENCE_MS, ClaimedHomes
from agents.runs.rows import Claimed
from agents.runs.transitions import claim_runs
from agents.stuck_runs import NO_WORKER, WAIT_MS, stuck_runs
from tests.integration.databases import POSTGRESQL, Databases
from tests.integration.runs.ground import (
    Ground,
    claim,
    lose,
    open_ground,
    register_worker,
    write,
)
from workspaces.actions.processes import (
    RegistrationLost,
    end_registration,
    forget_process,
    leave_homes,
    renew_registration,
    take_home,
)
from workspaces.log.statements import statements
from workspaces.log.timestamps import now_ms
from workspaces.log.transaction import Counters, Transaction
from workspaces.models import RegisteredProcess, Workspace, WorkspaceHome
from workspaces.queries.processes import home_of, homes_elsewhere


@pytest.fixture
def database(databases: Databases) -> Iterator[str]:
    with databases.get(POSTGRESQL).use():
        yield POSTGRESQL


def claim_at_home(
    worker: str, *, peers: Sequence[str] = (), held: frozenset[str] = frozenset(), limit: int = 9
) -> list[Claimed]:
    return claim(worker, limit=limit, homes=ClaimedHomes(worker, held, peers))


def paths(claimed: list[Claimed]) -> list[str]:
    return sorted(run.path for run in claimed)


def add_run(ground: Ground) -> int:
    return ground.accept(session_id=ground.new_session())


def test_all_runs_of_a_workspace_go_to_the_worker_that_had_the_first(database: str) -> None:
    shop, shed = open_ground("/shop"), open_ground("/shed")
    add_run(shop)
    assert paths(claim_at_home("one")) == ["/shop"]
    assert home_of(shop.workspace_id) == "one"

    add_run(shop)
    add_run(shed)

    assert paths(claim_at_home("two")) == ["/shed"]
    assert claim_at_home("two") == []
    assert paths(claim_at_home("one")) == ["/shop"]
    assert homes_elsewhere("one", [shop.workspace_id, shed.workspace_id]) == [shed.workspace_id]


def test_a_worker_that_remembers_its_home_claims_without_storing_it(database: str) -> None:
    shop = open_ground("/shop")
    add_run(shop)
    held = frozenset({shop.workspace_id})

    assert paths(claim_at_home("one", held=held)) == ["/shop"]

    assert not WorkspaceHome.objects.exists()


@pytest.mark.parametrize("end", ["drains", "is lost", "stops", "is forgotten", "leaves"])
def test_the_home_moves_when_its_worker_leaves(database: str, end: str) -> None:
    shop = open_ground("/shop")
    add_run(shop)
    assert paths(claim_at_home("one")) == ["/shop"]
    Run.objects.update(state="finished")
    add_run(shop)
    assert claim_at_home("two") == []

    if end == "drains":
        write(lambda tx: renew_registration(tx, "one", lease_ms=9_000, runs=0, is_draining=True))
    elif end == "is lost":
        lose("one")
    elif end == "leaves":
        write(lambda tx: leave_homes(tx, "one", None))
    else:
        write(lambda tx: end_registration(tx, "one"))
    if end == "is forgotten":
        write(lambda tx: forget_process(tx, "one"))
        assert not WorkspaceHome.objects.exists()

    assert home_of(shop.workspace_id) == ""
    assert paths(claim_at_home("two")) == ["/shop"]
    assert home_of(shop.workspace_id) == "two"
    if end == "leaves":  # and it does not take it back
        add_run(shop)
        assert claim_at_home("one") == []


def test_a_home_whose_process_renews_late_has_not_moved(database: str) -> None:
    shop = open_ground("/shop")
    add_run(shop)
    claim_at_home("one")
    RegisteredProcess.objects.filter(pk="one").update(expires_at=0)
    add_run(shop)

    assert claim_at_home("two") == []
    write(lambda tx: renew_registration(tx, "one", lease_ms=9_000, runs=1, is_draining=False))
    assert paths(claim_at_home("one")) == ["/shop"]


def test_two_workers_that_claim_at_once_never_both_get_runs_of_a_workspace(database: str) -> None:
    grounds = [open_ground(f"/shop/{number}") for number in range(12)]
    for ground in grounds:
        for _ in range(4):
            add_run(ground)
    ready = threading.Barrier(2)
    found: dict[str, set[str]] = {"one": set(), "two": set()}
    register_worker("one")
    register_worker("two")

    def work(worker: str) -> None:
        held: set[str] = set()
        try:
            ready.wait(20)
            for _ in range(40):
                homes = ClaimedHomes(worker, held)
                with transaction.atomic(), statements() as cursor:
                    tx = Transaction(cursor, Counters(connection.vendor))
                    claimed = claim_runs(tx, worker=worker, limit=2, homes=homes)
                held.update(run.workspace_id for run in claimed)
                found[worker] |= held
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=[worker]) for worker in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found["one"] & found["two"] == set()
    assert found["one"] | found["two"] == {ground.workspace_id for ground in grounds}
    for worker, held in found.items():
        assert set(Run.objects.filter(worker=worker).values_list("workspace_id", flat=True)) == held
    assert not Run.objects.exclude(state="running").exists()


def test_a_worker_with_more_homes_leaves_a_new_workspace_to_the_others_for_a_moment(
    database: str,
) -> None:
    register_worker("two")
    add_run(open_ground("/first"))
    assert paths(claim_at_home("one", peers=["two"])) == ["/first"]

    late = add_run(open_ground("/second"))
    again = add_run(Ground(Workspace.objects.get(path="/first").pk, ""))
    assert [run.key for run in claim_at_home("one", peers=["two"], limit=1)] == [again]

    Run.objects.filter(pk=late).update(accepted_at=now_ms() - PATIENCE_MS)
    assert paths(claim_at_home("one", peers=["two"])) == ["/second"]
    add_run(open_ground("/third"))
    assert claim_at_home("one", peers=["two"]) == []
    assert paths(claim_at_home("two", peers=["one"])) == ["/third"]


def test_no_run_waits_for_a_full_worker(database: str) -> None:
    register_worker("two")
    RegisteredProcess.objects.filter(pk="two").update(runs=500)
    add_run(open_ground("/first"))
    add_run(open_ground("/second"))
    assert len(claim_at_home("one", peers=["two"], limit=1)) == 1

    assert paths(claim_at_home("one", peers=["two"])) == ["/second"]


def test_of_many_new_workspaces_each_worker_takes_its_share(database: str) -> None:
    for number in range(6):
        add_run(open_ground(f"/shop/{number}"))
    register_worker("two")
    homes = ClaimedHomes("one", peers=["two"])

    assert paths(claim("one", homes=homes)) == [f"/shop/{number}" for number in range(3)]
    assert homes.has_dropped
    assert paths(claim_at_home("two", peers=["one"])) == ["/shop/3", "/shop/4"]
    assert paths(claim_at_home("two", peers=["one"])) == ["/shop/5"]


def test_a_request_takes_the_home_only_for_a_registered_worker(database: str) -> None:
    shop = open_ground("/shop").workspace_id
    register_worker("one")
    register_worker("two")

    assert write(lambda tx: take_home(tx, "one", shop))
    assert write(lambda tx: take_home(tx, "one", shop))
    assert not write(lambda tx: take_home(tx, "two", shop))
    lose("one")
    with pytest.raises(RegistrationLost):
        write(lambda tx: take_home(tx, "one", shop))
    assert write(lambda tx: take_home(tx, "two", shop))


def test_a_run_that_waits_for_its_home_shows_which_one(database: str) -> None:
    shop = open_ground("/shop")
    register_worker("one")
    register_worker("two")
    write(lambda tx: take_home(tx, "one", shop.workspace_id))
    add_run(shop)
    later = now_ms() + WAIT_MS + 1_000

    (stuck,) = stuck_runs(later)
    assert stuck.reason.startswith("its workspace has its home in the worker 7 on host")
    lose("one")
    (unclaimed,) = stuck_runs(later)
    assert unclaimed.reason == NO_WORKER
