"""Faults of all kinds under runs with side effects. `python -m tests.chaos` does it for longer."""

import random
import sys
from pathlib import Path

import pytest

from tests.chaos.ordeal import carry_out
from tests.chaos.places import PLACES, SESSIONS
from tests.chaos.plan import draw_plan

SEED = 1
RUNS, MINUTES = 80, 0.8


@pytest.mark.timeout(1_500)
@pytest.mark.usefixtures("services")  # skipped without PostgreSQL and Redis; it starts its own
async def test_nothing_is_lost_doubled_stuck_or_interrupted(tmp_path: Path) -> None:
    plan = draw_plan(SEED, runs=RUNS, minutes=MINUTES, places=PLACES, sessions=SESSIONS)
    findings = await carry_out(plan, tmp_path / "chaos", random.Random(SEED), sys.stdout)
    print(findings.table())
    assert not findings.violations, f"{plan}\n\n{findings.details()}"
    assert findings.counted["runs accepted"] == RUNS
    assert findings.counted["faults"] == len(plan.faults)
