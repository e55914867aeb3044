"""Commands as real processes: whatever they start, nothing of it outlives them."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agents.tools.shell.command import Finished, run
from agents.tools.shell.identity import PROCESS_MARK, SERVER_MARK, kill_marked, marked
from agents.tools.shell.output import BoundedOutput
from agents.tools.shell.process import SUPERVISOR, ProcessFailed
from tests.integration.tools.shell.marked_processes import Word, daemon_command, until

LINUX = sys.platform == "linux"
linux_only = pytest.mark.skipif(not LINUX, reason="elsewhere only the process group is ended")
MARK = "0123456789abcdef-{}"

# Each starts the word's sleeper; `{}` is a command that sleeps with the word.
IN_THE_GROUP = ["{}", "{} & wait", "({} & ) ; sleep 600", "nohup {} >/dev/null 2>&1 & wait"]
OUT_OF_IT = [
    "setsid {} & wait",
    "setsid --fork {}; sleep 600",
    "env -i PATH=$PATH setsid {} & wait",
    "env -i PATH=$PATH setsid --fork {}; sleep 600",
    "trap '' TERM HUP INT; env -i PATH=$PATH setsid setsid --fork {}; sleep 600",
]
WAYS = [pytest.param(w) for w in IN_THE_GROUP] + [
    pytest.param(w, marks=linux_only) for w in OUT_OF_IT
]


def shell(command: str, folder: Path, *, timeout: float = 60, limit: int = 10_000) -> "Run":
    return Run(command, folder, timeout, limit)


class Run:
    def __init__(self, command: str, folder: Path, timeout: float, limit: int) -> None:
        self.output = BoundedOutput(limit)
        self.work = run(
            ["/bin/bash", "-c", command],
            cwd=folder,
            env={"PATH": os.environ["PATH"], PROCESS_MARK: MARK.format(id(self))},
            sink=self.output,
            timeout_seconds=timeout,
        )

    async def finish(self) -> tuple[Finished, str]:
        return await self.work, self.output.text()

    async def started(self, word: Word) -> "asyncio.Task[Finished]":
        task = asyncio.ensure_future(self.work)
        await asyncio.to_thread(until, word.pids)
        return task


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def cancel(task: "asyncio.Task[Finished]") -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_it_tells_output_and_exit_code(tmp_path: Path) -> None:
    finished, output = await shell("pwd; echo oops >&2; exit 3", tmp_path).finish()
    assert finished == Finished(3)
    assert output == f"{tmp_path}\noops\n"


async def test_it_tells_a_signal_as_shells_do(tmp_path: Path) -> None:
    finished, _ = await shell("kill -TERM $$", tmp_path).finish()
    assert finished.exit_code == 128 + signal.SIGTERM


async def test_it_gives_no_input_and_no_terminal(tmp_path: Path) -> None:
    _, output = await shell("cat; tty", tmp_path).finish()
    assert output == "not a tty\n"


async def test_it_leaves_no_descriptor_or_ignored_signal_to_the_command(tmp_path: Path) -> None:
    if not LINUX:
        pytest.skip("needs /proc")
    _, output = await shell("ls /proc/self/fd; grep SigIgn /proc/self/status", tmp_path).finish()
    assert output.split() == ["0", "1", "2", "3", "SigIgn:", "0000000000000000"]


async def test_it_says_why_a_command_cannot_start(tmp_path: Path) -> None:
    with pytest.raises(ProcessFailed, match="No such file or directory"):
        await shell("true", tmp_path / "nowhere").finish()
    with pytest.raises(ProcessFailed, match="Argument list too long"):
        await shell("#" * 200_000, tmp_path).finish()
    with pytest.raises(ProcessFailed, match="NUL"):
        await shell("echo \0", tmp_path).finish()


async def test_it_keeps_a_flood_within_bounds(tmp_path: Path) -> None:
    began = time.monotonic()
    work = shell("yes | head -c 300000000; echo the end", tmp_path)
    finished, output = await work.finish()
    assert finished == Finished(0)
    assert work.output.total == 300_000_008
    assert len(output) < 10_100
    assert output.endswith("the end\n")
    assert time.monotonic() - began < 120


async def test_it_lets_the_loop_breathe_during_a_flood(tmp_path: Path) -> None:
    task = asyncio.ensure_future(shell("yes", tmp_path, timeout=3).work)
    turns = 0
    while not task.done():
        await asyncio.sleep(0.001)
        turns += 1
    assert task.result().timed_out
    assert turns > 20


@pytest.mark.parametrize("way", WAYS)
async def test_it_ends_everything_on_cancel(tmp_path: Path, way: str) -> None:
    word = Word()
    task = await shell(way.format(word.sleeper), tmp_path).started(word)
    await cancel(task)
    assert not word.pids()


async def test_it_ends_everything_on_timeout(tmp_path: Path) -> None:
    """All at once: each has the same ten seconds to begin, and takes them."""

    async def run_late(way: str) -> None:
        word = Word()
        finished = await (await shell(way.format(word.sleeper), tmp_path, timeout=10).started(word))
        assert finished.timed_out, way
        assert not word.pids(), way

    ways = IN_THE_GROUP + (OUT_OF_IT if LINUX else [])
    await asyncio.gather(*(run_late(way) for way in ways))


@pytest.mark.parametrize(
    "way",
    [
        "{} &",
        "nohup {} >/dev/null 2>&1 & disown",
        pytest.param("setsid --fork {}", marks=linux_only),
        pytest.param("env -i PATH=$PATH setsid --fork {}", marks=linux_only),
    ],
)
async def test_it_ends_what_a_finished_command_left(tmp_path: Path, way: str) -> None:
    word = Word()
    finished, output = await shell(way.format(word.sleeper) + "\necho ok", tmp_path).finish()
    assert (finished, output) == (Finished(0), "ok\n")
    assert not word.pids()


@linux_only
async def test_it_ends_a_daemon_without_environment(tmp_path: Path) -> None:
    word = Word()
    command = daemon_command(tmp_path, word)
    await cancel(await shell(f"{command}; sleep 600", tmp_path).started(word))
    assert not word.pids()
    assert (await shell(command, tmp_path).finish())[0] == Finished(0)
    assert not word.pids()


@linux_only
async def test_it_ends_what_keeps_forking(tmp_path: Path) -> None:
    word = Word()
    script = tmp_path / "forks.py"
    script.write_text(
        "import os, time\n"
        "while True:\n"  # the parent dies, the child goes on under another number
        "    if os.fork(): os._exit(0)\n"
        "    os.setsid() if os.getpid() != os.getpgid(0) else None\n"
    )
    task = await shell(
        f"python3 -I -S {script} {word.text} & python3 -I -S {script} {word.text}; sleep 600",
        tmp_path,
    ).started(word)
    await cancel(task)
    assert not word.pids()


@linux_only
async def test_it_ends_what_a_killed_supervisor_held(tmp_path: Path) -> None:
    word = Word()
    command = f"env -i PATH=$PATH setsid --fork {word.sleeper}; kill -9 $PPID; sleep 600"
    finished, _ = await shell(command, tmp_path).finish()
    assert finished.exit_code == 137
    await asyncio.to_thread(until, lambda: not word.pids())


@linux_only
async def test_it_ends_what_a_stopped_supervisor_holds(tmp_path: Path) -> None:
    word = Word()
    command = f"kill -STOP $PPID; env -i PATH=$PATH setsid --fork {word.sleeper}; sleep 600"
    await cancel(await shell(command, tmp_path).started(word))
    await asyncio.to_thread(until, lambda: not word.pids())


@linux_only
async def test_it_starts_again_after_its_starter_was_killed(tmp_path: Path) -> None:
    await shell("true", tmp_path).finish()
    assert SUPERVISOR.pid is not None
    os.kill(SUPERVISOR.pid, signal.SIGKILL)
    finished, output = await shell("echo again", tmp_path).finish()
    assert (finished, output) == (Finished(0), "again\n")


async def test_it_lets_a_short_rest_of_the_command_end_by_itself(tmp_path: Path) -> None:
    _, output = await shell("echo kept > >(cat > log; echo written)", tmp_path).finish()
    assert (tmp_path / "log").read_text() == "kept\n"
    assert output == "written\n"


async def test_it_runs_many_at_once(tmp_path: Path) -> None:
    runs = [shell(f"echo {n}", tmp_path).finish() for n in range(60)]
    assert [out for _, out in await asyncio.gather(*runs)] == [f"{n}\n" for n in range(60)]


async def test_a_cancel_at_any_moment_leaves_nothing(tmp_path: Path) -> None:
    word = Word()
    for step in range(40):
        task = asyncio.ensure_future(shell(f"{word.sleeper} & wait", tmp_path).work)
        await asyncio.sleep(step / 1_000)
        await cancel(task)
    await asyncio.to_thread(until, lambda: not word.pids())
    assert SUPERVISOR.running


async def test_it_leaks_no_descriptors(tmp_path: Path) -> None:
    if not LINUX:
        pytest.skip("needs /proc")
    await shell("true", tmp_path).finish()
    before = open_descriptors()
    for _ in range(10):
        await shell("true", tmp_path).finish()
        with pytest.raises(ProcessFailed):
            await shell("true", tmp_path / "nowhere").finish()
        task = asyncio.ensure_future(shell("sleep 600", tmp_path).work)
        await asyncio.sleep(0.005)
        await cancel(task)
    assert open_descriptors() <= before + 1


SERVER = """
import asyncio, os, sys
from pathlib import Path
from agents.tools.shell.output import BoundedOutput
from agents.tools.shell.command import run

async def main():
    await asyncio.gather(*(
        run(["/bin/bash", "-c", command], cwd=Path("/"), env={"PATH": os.environ["PATH"]},
            sink=BoundedOutput(1000), timeout_seconds=600)
        for command in sys.argv[1:]
    ))

asyncio.run(main())
"""


LEAVES_NO_WAIT = ["{}", "{} & wait", "env -i PATH=$PATH setsid --fork {}; sleep 600"]
STOPS_ITS_SUPERVISOR = "kill -STOP $PPID; {}"  # which is waited for, in vain


@pytest.mark.parametrize(
    ("number", "ways"),
    [
        (signal.SIGTERM, LEAVES_NO_WAIT),
        (signal.SIGKILL, [*LEAVES_NO_WAIT, STOPS_ITS_SUPERVISOR]),
    ],
)
def test_everything_ends_with_the_server(
    tmp_path: Path, number: signal.Signals, ways: list[str]
) -> None:
    if not LINUX:
        ways = ways[:2]
    words = [Word() for _ in ways]
    commands = [way.format(w.sleeper) for way, w in zip(ways, words, strict=True)]
    server = subprocess.Popen([sys.executable, "-c", SERVER, *commands], cwd=Path.cwd())
    try:
        until(lambda: all(word.pids() for word in words), seconds=20)
    finally:
        server.send_signal(number)
        server.wait()
    until(lambda: not any(word.pids() for word in words))


@linux_only
@pytest.mark.parametrize("name", [PROCESS_MARK, SERVER_MARK])
def test_marked_processes_are_found_and_killed(name: str) -> None:
    mark = f"mark-{Word().text}"
    with subprocess.Popen(["sleep", "600"], env={name: mark}) as one:
        until(lambda: marked(mark) == {one.pid})
        assert marked(mark[:-1]) == set()
        assert kill_marked(mark) == 1
        assert one.wait() == -signal.SIGKILL
    assert kill_marked(mark) == 0


def test_a_short_mark_is_refused() -> None:
    with pytest.raises(ValueError, match="long random"):
        kill_marked("")
