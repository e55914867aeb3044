"""Random command lines: what the policy calls read-only runs in bash and changes nothing.

``FUZZ_SECONDS`` and ``FUZZ_SEED`` make each search longer, or another one; so does
``python -m tests.integration.permissions.fuzzing``.
"""

from __future__ import annotations

import os
import re
import shutil

import pytest

from permissions.policy.commands import is_read_only
from tests.integration.permissions.fuzzing.sandbox import Sandbox
from tests.integration.permissions.fuzzing.search import search

pytestmark = [
    pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed"),
    pytest.mark.timeout(float(os.environ.get("FUZZ_SECONDS", "0")) + 300),
]

SECONDS = float(os.environ.get("FUZZ_SECONDS", "25"))
SEED = int(os.environ.get("FUZZ_SEED", "1"))


@pytest.fixture
def sandbox():
    made = Sandbox()
    yield made
    made.close()


@pytest.mark.parametrize("seed", [SEED, SEED + 1])
def test_what_the_policy_lets_pass_changes_nothing(seed, sandbox):
    result = search(is_read_only, seed=seed, seconds=SECONDS, sandbox=sandbox)
    assert not result.findings, str(result)
    assert result.run >= 100, str(result)  # else the search was idle


# Each was a hole of the policy. The judge below still has it: it is shown another line than
# bash, one that hides the difference.
HOLES = {
    "a descriptor that bash stores in a variable": lambda line: re.sub(
        r"(?<=\})(?=[<>])", " ", line
    ),
    "digits that only Unicode calls digits": lambda line: re.sub("[²³٣௧]", "1", line),
}


@pytest.mark.parametrize("hole", list(HOLES))
def test_it_finds_what_a_weaker_policy_would_let_pass(hole, sandbox):
    weaken = HOLES[hole]
    result = search(lambda line: is_read_only(weaken(line)), seed=3, seconds=60, sandbox=sandbox)
    assert result.findings, str(result)


def test_the_traps_work(sandbox):
    """Whatever the search relies on is seen: files, traps behind a changed PATH, subscripts."""
    for line in (
        "touch x/y",
        "rm a.txt",
        "PATH=10; ls",
        "echo $((x))",
        "echo a > $TMPDIR/a",
        "mkdir ~/a",
    ):
        assert sandbox.effects([line]), line
    assert sandbox.effects(["ls", "cat a.txt"]) == []
