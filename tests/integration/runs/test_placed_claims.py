"""Workers claim runs only of workspaces that they serve, and others show why they wait."""

from __future__ import annotations

from agents.runs.rows import Claimed
from agents.runs.transitions import claim_runs
from agents.stuck_runs import WAIT_MS, stuck_runs
from tests.integration.runs.ground import Ground, open_ground, register_worker, write
from workspaces.actions.processes import ProcessFacts, add_root, register, renew_registration
from workspaces.log.timestamps import now_ms
from workspaces.models import RegisteredProcess, Workspace
from workspaces.placement.roots import Root, WorkerScope
from workspaces.queries.processes import known_roots, needed_labels, worker_offers

CODE, DATA = Root("code", "/srv/co_de"), Root("data", "/mnt/data")


def placement(
    *served: Root,
    has_roots: bool = True,
    labels: tuple[str, ...] = (),
    satisfied: tuple[str, ...] = (),
) -> WorkerScope:
    return WorkerScope(has_roots, served, (CODE, DATA), frozenset(labels), satisfied)


def claim(placed: WorkerScope, *, limit: int = 9) -> list[str]:
    """The workspaces whose runs were claimed."""
    register_worker("worker")
    claimed: list[Claimed] = write(
        lambda tx: claim_runs(tx, worker="worker", limit=limit, scope=placed)
    )
    return [run.path for run in claimed]


def accept_in(path: str, *, labels: str = "", runs: int = 1) -> Ground:
    ground = open_ground(path)
    Workspace.objects.filter(pk=ground.workspace_id).update(labels=labels)
    for _ in range(runs):
        ground.accept(session_id=ground.new_session())
    return ground


def test_a_worker_claims_what_lies_below_its_roots() -> None:
    for path in ("/srv/co_de", "/srv/co_de/shop", "/srv/coXde/shop", "/srv/co_de2", "/mnt/data/x"):
        accept_in(path)

    assert claim(placement()) == []
    assert claim(placement(CODE)) == ["/srv/co_de", "/srv/co_de/shop"]
    assert claim(placement(CODE)) == []


def test_a_worker_without_roots_claims_what_lies_below_no_root() -> None:
    accept_in("/srv/co_de/shop")
    accept_in("/home/ann")

    assert claim(placement(has_roots=False)) == ["/home/ann"]


def test_a_worker_claims_runs_whose_labels_it_has() -> None:
    accept_in("/srv/co_de/plain")
    accept_in("/srv/co_de/gpu", labels="gpu")
    accept_in("/srv/co_de/both", labels="arm,gpu")
    assert sorted(needed_labels()) == ["arm,gpu", "gpu"]

    assert claim(placement(CODE)) == ["/srv/co_de/plain"]
    assert claim(placement(CODE, labels=("gpu",), satisfied=("gpu",))) == ["/srv/co_de/gpu"]


def test_the_rule_holds_also_where_more_wait_than_there_are_places() -> None:
    accept_in("/mnt/data/one", runs=4)
    accept_in("/srv/co_de/shop", runs=4)

    assert claim(placement(CODE), limit=2) == ["/srv/co_de/shop"] * 2
    assert claim(placement(CODE), limit=3) == ["/srv/co_de/shop"] * 2
    assert claim(placement(CODE), limit=3) == []


def facts(*roots: str, missing: tuple[str, ...] = ()) -> ProcessFacts:
    return ProcessFacts(
        "worker",
        "alpha",
        7,
        "0.1.0",
        started_at=now_ms(),
        most_runs=9,
        roots=roots,
        missing_roots=missing,
    )


def test_a_run_that_no_live_worker_serves_shows_why_it_waits() -> None:
    write(lambda tx: add_root(tx, name="code", path="/srv/co_de", marker=""))
    assert known_roots() == (CODE,)
    ground = accept_in("/srv/co_de/shop")
    later = now_ms() + WAIT_MS + 1_000
    (alone,) = stuck_runs(later)
    assert alone.reason.startswith("no worker claims it: none runs")

    write(lambda tx: register(tx, "w", facts(missing=("code",)), expires_at=later + 60_000))
    (stuck,) = stuck_runs(later)
    assert (stuck.workspace_id, stuck.reason) == (
        ground.workspace_id,
        "no live worker serves the root code of its folder: it is not found on alpha",
    )

    write(
        lambda tx: renew_registration(
            tx, "w", lease_ms=later, runs=0, is_draining=False, roots=("code",)
        )
    )
    assert RegisteredProcess.objects.get(pk="w").roots == ["code"]
    (served,) = stuck_runs(later)
    assert served.reason == alone.reason

    Workspace.objects.filter(pk=ground.workspace_id).update(labels="gpu")
    (labelled,) = stuck_runs(later)
    assert labelled.reason == "no live worker that serves its folder has the labels gpu"


def test_lost_and_expired_processes_and_those_without_runs_offer_nothing() -> None:
    now = now_ms()
    write(lambda tx: register(tx, "live", facts("code"), expires_at=now + 60_000))
    write(lambda tx: register(tx, "expired", facts("code"), expires_at=now - 1))
    write(lambda tx: register(tx, "lost", facts("code"), expires_at=now + 60_000))
    RegisteredProcess.objects.filter(pk="lost").update(is_lost=True)
    write(lambda tx: register(tx, "web", facts("code"), expires_at=now + 60_000))
    RegisteredProcess.objects.filter(pk="web").update(most_runs=0)

    assert len(worker_offers(now)) == 1
