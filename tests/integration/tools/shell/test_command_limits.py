"""Commands that use too much: each ends with all it started, and its result names the limit."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.tools.shell.command import Finished, Running, run
from agents.tools.shell.output import BoundedOutput
from agents.tools.shell.process import SUPERVISOR
from agents.tools.shell.tree_limits import MIB, TreeLimits
from tests.integration.tools.shell.marked_processes import Word, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is measured")
LIMITS = TreeLimits(memory_bytes=200 * MIB, processes=60, file_bytes=MIB)
# A program that takes this many MiB and holds them.
TAKE = "import sys, time; held = bytearray({size} << 20); held[::4096] = b'x' * len(held[::4096]); {then}"


@pytest.fixture(autouse=True)
def limits() -> Iterator[TreeLimits]:
    """The next supervisor starts with these."""
    before = SUPERVISOR.limits
    SUPERVISOR.close()
    SUPERVISOR.limits = LIMITS
    yield LIMITS
    SUPERVISOR.close()
    SUPERVISOR.limits = before


async def result(argv: list[str], folder: Path) -> tuple[Finished, str]:
    output = BoundedOutput(10_000)
    env = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    argv = [shutil.which(argv[0]) or argv[0], *argv[1:]]
    finished = await run(argv, cwd=folder, env=env, sink=output, timeout_seconds=60)
    return finished, output.text()


def taking(size: int, then: str = "time.sleep(60)") -> str:
    return f'{sys.executable} -S -c "{TAKE.format(size=size, then=then)}"'


async def test_a_command_that_takes_too_much_memory_is_ended(tmp_path: Path) -> None:
    finished, _ = await result(["bash", "-c", f"{taking(400)}; echo went on"], tmp_path)
    assert finished.exit_code == 137
    assert "more than 200 MiB of memory" in finished.exceeded


async def test_its_processes_are_counted_together(tmp_path: Path) -> None:
    word = Word()
    one = taking(80, "time.sleep(60)")
    command = f"setsid {word.sleeper} & setsid --fork {one}; {one} & {one} & wait"
    finished, _ = await result(["bash", "-c", command], tmp_path)
    assert "memory" in finished.exceeded
    until(lambda: not word.pids())


async def test_memory_that_processes_share_counts_once(tmp_path: Path) -> None:
    share = (
        "import os; [os.fork() or (time.sleep(2), os._exit(0)) for _ in range(4)]; time.sleep(2)"
    )
    finished, _ = await result(["bash", "-c", taking(120, share)], tmp_path)
    assert finished == Finished(0)


async def test_a_command_that_starts_too_many_processes_is_ended(tmp_path: Path) -> None:
    command = "for i in $(seq 100); do sleep 60 & done; wait"
    finished, _ = await result(["bash", "-c", command], tmp_path)
    assert finished.exit_code == 137
    assert "60 processes" in finished.exceeded


async def test_a_command_cannot_write_a_larger_file(tmp_path: Path) -> None:
    finished, _ = await result(["head", "-c", "5000000", "/dev/zero"], tmp_path)
    assert finished == Finished(0)  # a pipe is no file
    finished, output = await result(["bash", "-c", "head -c 5000000 /dev/zero >big"], tmp_path)
    assert (tmp_path / "big").stat().st_size == MIB
    assert "limit exceeded" in output or "larger than 1 MiB" in finished.exceeded
    finished, _ = await result(["dd", "if=/dev/zero", "of=big", "bs=1M", "count=3"], tmp_path)
    assert "larger than 1 MiB" in finished.exceeded


async def test_a_command_that_stopped_its_supervisor_is_ended_all_the_same(tmp_path: Path) -> None:
    command = f"kill -STOP $PPID; {taking(400)} & wait"
    finished, _ = await result(["bash", "-c", command], tmp_path)
    assert finished.exit_code == 137
    assert "memory" in finished.exceeded


@pytest.mark.parametrize("number", ["KILL", "STOP"])
async def test_a_command_that_ends_who_watches_it_ends_too(number: str, tmp_path: Path) -> None:
    word = Word()
    starter = "$(ps -o ppid= -p $PPID)"
    command = f"setsid --fork {word.sleeper}; kill -{number} {starter}; sleep 60; echo went on"
    finished, output = await result(["bash", "-c", command], tmp_path)
    assert (finished.exit_code, output) == (137, "")
    until(lambda: not word.pids())
    assert await result(["echo", "next"], tmp_path) == (Finished(0), "next\n")


async def test_memory_in_files_that_nobody_has_mapped_counts(tmp_path: Path) -> None:
    take = (
        "import os, time; block = bytes(1 << 20)\n"
        "files = [os.memfd_create('x') for _ in range(400)]\n"
        "for file in files: os.write(file, block)\n"
        "time.sleep(60)"
    )
    finished, _ = await result([sys.executable, "-S", "-c", take], tmp_path)
    assert "more than 200 MiB of memory" in finished.exceeded


async def test_whoever_reads_the_output_finds_the_reason_there(tmp_path: Path) -> None:
    output = BoundedOutput(10_000)
    running = await Running.start(
        ["/bin/bash", "-c", f"echo before; {taking(400)}"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"]},
        sink=output,
    )
    assert await running.finish() == 137
    assert output.text().startswith("before\n\nThe command was ended: it used more than 200 MiB")


async def test_a_command_within_its_limits_is_left_alone(tmp_path: Path) -> None:
    finished, output = await result(
        ["bash", "-c", taking(100, "time.sleep(1.5); print(1)")], tmp_path
    )
    assert (finished, output) == (Finished(0), "1\n")


@pytest.mark.parametrize(
    ("program", "arguments", "printed"),
    [
        ("node", ["-e", "console.log(new Array(1e6).fill(7).length)"], "1000000"),
        ("java", ["-version"], "version"),
        (
            "chromium",
            [
                *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
                *("--dump-dom", "data:text/html,<p>drawn</p>"),
            ],
            "<p>drawn</p>",
        ),
    ],
)
async def test_large_runtimes_start_under_the_defaults(
    program: str, arguments: list[str], printed: str, tmp_path: Path
) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    SUPERVISOR.close()
    SUPERVISOR.limits = TreeLimits()
    finished, output = await result([program, *arguments], tmp_path)
    assert finished.exceeded == ""
    assert finished.exit_code == 0
    assert printed in output
