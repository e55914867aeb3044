"""Nothing is ended by its number alone."""

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator

import pytest

from agents.tools.shell import identity
from agents.tools.shell.identity import PROCESS_MARK

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


@pytest.fixture
def mark() -> str:
    return str(uuid.uuid4())


@pytest.fixture
def sleeper(mark: str) -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(["sleep", "600"], env={**os.environ, PROCESS_MARK: mark})
    yield process
    process.kill()
    process.wait()


def test_what_is_recorded_is_ended(sleeper: "subprocess.Popen[bytes]", mark: str) -> None:
    begun = identity.started(sleeper.pid)
    assert identity.end_recorded(sleeper.pid, begun, mark)
    assert sleeper.wait(60) == -9
    assert not identity.end_recorded(sleeper.pid, begun, mark)


def test_another_with_its_number_is_left_alone(sleeper: "subprocess.Popen[bytes]") -> None:
    begun = identity.started(sleeper.pid)
    other = str(uuid.uuid4())
    assert not identity.end_recorded(sleeper.pid, begun, other)  # another's mark
    assert not identity.end_recorded(sleeper.pid, begun, "")
    assert not identity.end_recorded(sleeper.pid, "elsewhen/1", other)
    assert not identity.end_recorded(0, "", other)
    assert sleeper.poll() is None


def test_a_process_is_killed_by_number_and_start_time_only(
    sleeper: "subprocess.Popen[bytes]",
) -> None:
    assert not identity.kill_exactly(sleeper.pid, "another/1")
    assert not identity.kill_exactly(sleeper.pid, "")
    assert not identity.kill_exactly(1, identity.started(1))
    assert sleeper.poll() is None
    assert identity.kill_exactly(sleeper.pid, identity.started(sleeper.pid))
    assert sleeper.wait(60) == -9


def test_what_it_started_is_ended_by_the_mark_when_it_is_gone_itself(mark: str) -> None:
    parent = subprocess.Popen(
        ["sh", "-c", "sleep 600 & echo $!"],
        env={**os.environ, PROCESS_MARK: mark},
        stdout=subprocess.PIPE,
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.stdout.close()
    parent.wait()
    assert identity.started(child) != ""
    assert identity.end_recorded(parent.pid, "gone", mark)
    assert identity.started(child) == ""


def test_a_server_is_known_by_more_than_its_number() -> None:
    here = identity.this_server()
    assert identity.is_server_alive(here)
    assert len(here) <= 64
    pid, _, begun = here.partition("@")
    assert begun
    for other in ("", pid, f"{pid}@", f"{pid}@other", f"1@{begun}", "x@y", f"-1@{begun}"):
        assert not identity.is_server_alive(other)
    assert len(identity.this_host()) <= 255


def test_what_has_ended_and_is_not_collected_yet_counts_as_gone() -> None:
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert identity.started(process.pid) == ""
    process.wait()
