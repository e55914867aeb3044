"""Small simulations of hosts that fail and of a network that loses messages: no promise is broken.

`python -m tests.simulation` simulates 50 hosts and 10,000 runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.integration.databases import POSTGRESQL, SQLITE, Databases
from tests.simulation.scenario import Plan, simulate

PLAN = Plan(hosts=5, runs=200, steps=3, pauses=(2, 6), fault_seconds=2)
SMALLER = replace(PLAN, hosts=3, runs=40, arrival_seconds=5)


@pytest.fixture(params=[f"{SQLITE} 1", f"{SQLITE} 2", f"{POSTGRESQL} 3"])
def plan(request: pytest.FixtureRequest, databases: Databases) -> Iterator[Plan]:
    name, seed = request.param.split()
    with databases.get(name).use():
        yield replace(PLAN if name == SQLITE else SMALLER, seed=int(seed))


def test_runs_survive_what_happens_to_hosts_and_to_the_network(plan: Plan) -> None:
    found = simulate(plan)
    assert found.broken == []
    assert found.longest_wait <= 2.0
    assert found.faults


def test_the_same_seed_gives_the_same_simulation(databases: Databases) -> None:
    digests = set()
    for _ in range(2):
        with databases.get(SQLITE).use():
            digests.add(simulate(SMALLER).digest)
    assert len(digests) == 1
