"""States of runs and jobs are strings in one module, and columns of runs in few."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

import pytest

from agents.states import JobState, RunOutcome, RunState
from tests.house import measures
from tests.house.__main__ import PACKAGES, ROOT
from tests.house.measures import Module

STATES = frozenset({*RunState, *RunOutcome, *JobState})
# The same words with another meaning: a call's progress, a protocol's status, a list's item.
OTHERS = {
    "agents/admin_pages/runs.py": {"accepted", "over_budget"},  # labels of columns
    "agents/fleet/": {"completed", "cancelled", "lost"},
    "agents/models.py": {"folded"},  # the name of a relation
    "agents/runs/nudges.py": {"lost"},
    "agents/tools/lsp/peer.py": {"failed"},
    "agents/tools/shell/job_output.py": {"running", "killed"},  # for the model
    "agents/tools/shell/process.py": {"ready", "ended", "failed"},
    "agents/tools/todos.py": {"completed"},
    "agents/turn/state.py": {"running", "ended"},
}
IN_SQL = re.compile(f"'({'|'.join(sorted(STATES))})'")
TABLE = re.compile(r"\bagents_run\b")
HOME = "agents/states.py"
HOMES_OF_COLUMNS = {
    "agents/runs/rows.py",
    "agents/runs/transitions.py",
    "agents/runs/claims/claim_order.py",
    "agents/runs/queries.py",
}


@pytest.fixture(scope="module")
def modules() -> list[Module]:
    return measures.read_modules(ROOT, PACKAGES)


def strings_of(source: str) -> Iterator[str]:
    """The strings of a module ; of an f-string the constant parts."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def states_in(module: Module) -> set[str]:
    found: set[str] = set()
    for value in strings_of(module.text):
        found |= {value} & STATES | set(IN_SQL.findall(value))
    for place, words in OTHERS.items():
        if str(module.path).startswith(place):
            found -= words
    return found


def test_the_states_of_runs_and_jobs_are_strings_only_where_they_are_defined(
    modules: list[Module],
) -> None:
    agents = [m for m in modules if m.path.parts[0] == "agents" and str(m.path) != HOME]
    assert {str(m.path): found for m in agents if (found := states_in(m))} == {}


def test_the_columns_of_runs_are_named_only_in_the_modules_of_rows(modules: list[Module]) -> None:
    naming = {str(m.path) for m in modules if any(map(TABLE.search, strings_of(m.text)))}
    assert naming == HOMES_OF_COLUMNS


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('"""A running job."""\nx = 1\n', set()),
        ('x = "running"\n', {"running"}),
        ("sql = \"SELECT 1 WHERE r.state = 'running' LIMIT 1\"\n", {"running"}),
        ("sql = \"SELECT 1 WHERE state IN ('parked', 'ready')\"\n", {"parked", "ready"}),
        ("sql = f\"SELECT 1 WHERE r.state = '{RUNNING}' LIMIT 1\"\n", set()),
    ],
)
def test_what_counts_as_a_state(source: str, expected: set[str]) -> None:
    assert states_in(Module(PurePosixPath("agents/x.py"), source)) == expected
