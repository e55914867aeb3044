"""A seed decides everything that a chaos run does; what it draws can be carried out."""

import dataclasses

from tests.chaos.plan import (
    FARTHEST_CLOCK_SECONDS,
    PROCESSES,
    WEBS,
    WORKERS,
    FaultKind,
    Plan,
    RunSort,
    Service,
    draw_plan,
)

SEEDS = range(30)
PLACES, SESSIONS = 3, 8
SERVICES = {
    FaultKind.RESTART_REDIS: "Redis",
    FaultKind.FREEZE_REDIS: "Redis",
    FaultKind.RESTART_POSTGRES: "PostgreSQL",
    FaultKind.STOP_POSTGRES: "PostgreSQL",
    FaultKind.CRASH_POSTGRES: "PostgreSQL",
    FaultKind.FREEZE_POSTGRES: "PostgreSQL",
}
LINKS = {
    FaultKind.REFUSE_LINKS,
    FaultKind.SILENCE_LINKS,
    FaultKind.STRAND_LINKS,
    FaultKind.DELAY_LINKS,
    FaultKind.CUT_COMMITS,
}


def plan_of(seed: int, *, runs: int = 600, minutes: float = 10) -> Plan:
    return draw_plan(seed, runs=runs, minutes=minutes, places=PLACES, sessions=SESSIONS)


def test_the_same_seed_gives_the_same_plan_and_others_give_others() -> None:
    assert plan_of(7) == plan_of(7)
    assert len({str(plan_of(seed)) for seed in SEEDS}) == len(SEEDS)


def test_each_kind_of_fault_and_of_run_is_drawn() -> None:
    for seed in SEEDS:
        plan = plan_of(seed)
        assert {fault.kind for fault in plan.faults} == set(FaultKind)
        assert {fault.target for fault in plan.faults} >= {*PROCESSES, *Service}
        assert {run.sort for run in plan.runs} == set(RunSort)
        assert any(run.cancel_after is not None for run in plan.runs)
        assert any(fault.overlaps for fault in plan.faults)


def test_the_faults_take_the_time_that_was_asked_for() -> None:
    for minutes in (1.0, 10.0, 120.0):
        faults = plan_of(3, minutes=minutes).faults
        seconds = sum(f.pause + (0 if f.overlaps else f.seconds) for f in faults)
        assert minutes * 60 <= seconds <= minutes * 60 + 40


def test_each_fault_has_a_target_that_it_fits() -> None:
    for seed in SEEDS:
        for fault in plan_of(seed).faults:
            targets = {SERVICES[fault.kind]} if fault.kind in SERVICES else {*WEBS, *WORKERS}
            assert fault.target in targets
            assert (fault.service is not None) == (fault.kind in LINKS)
            assert 0 <= fault.seconds <= 35
            if fault.kind is FaultKind.STEP_CLOCK:
                assert abs(fault.amount) <= FARTHEST_CLOCK_SECONDS


def test_runs_are_numbered_and_lie_in_the_places_that_exist() -> None:
    plan = plan_of(5)
    assert [run.number for run in plan.runs] == list(range(1, 601))
    assert {run.place for run in plan.runs} == set(range(PLACES))
    assert {run.session for run in plan.runs} == set(range(SESSIONS))
    more = plan_of(5, runs=700)
    assert more.runs[:600] == plan.runs
    assert dataclasses.replace(more, runs=plan.runs) == plan
