"""Processes are found by their mark and ended, except those that this one descends from."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator

import pytest

from agents.tools.shell.identity import PROCESS_MARK, SERVER_MARK, kill_marked, marked

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

_KILLS = "import sys; from agents.tools.shell.identity import *; print(kill_marked(sys.argv[1]))"
# Has the mark, and so has all that it starts.
_ANCESTOR = f"""
import subprocess, sys
sleeper = subprocess.Popen(["sleep", "600"])
killed = subprocess.run([sys.executable, "-c", {_KILLS!r}, sys.argv[1]], capture_output=True)
print("alive", killed.stdout.decode().strip(), sleeper.wait(60))
"""


@pytest.fixture
def mark() -> str:
    return str(uuid.uuid4())


@pytest.fixture
def sleeper(mark: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "600"], env={**os.environ, PROCESS_MARK: mark})
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize("name", [PROCESS_MARK, SERVER_MARK])
def test_the_ancestors_of_the_one_that_kills_are_spared(name: str, mark: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _ANCESTOR, mark],
        env={**os.environ, name: mark},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert ended.stdout.split() == [b"alive", b"1", b"-9"]


def test_a_process_that_the_first_look_misses_is_found_by_the_next(
    sleeper: subprocess.Popen[bytes], mark: str
) -> None:
    """While a folder is read, one process may start another and end: neither is seen."""
    looks: list[set[int]] = []

    def look(mark: str) -> set[int]:
        looks.append(marked(mark) if looks else set())
        return looks[-1]

    assert kill_marked(mark, look=look) == 1

    assert sleeper.wait(60) == -9
    assert looks[1] == {sleeper.pid}


def test_it_ends_in_time_though_processes_keep_coming(mark: str) -> None:
    began = time.monotonic()
    kill_marked(mark, within_seconds=0.2, look=lambda mark: {2**22 + 1})  # no such process
    assert time.monotonic() - began < 30


def test_a_short_mark_is_refused() -> None:
    with pytest.raises(ValueError, match="long random text"):
        kill_marked("short")
