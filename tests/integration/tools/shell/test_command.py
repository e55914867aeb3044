"""A command that is held, handed on, and ended, over real processes."""

import asyncio
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import psutil
import pytest

from agents.tools.shell import identity
from agents.tools.shell.command import Running, shell_command
from agents.tools.shell.output import WatchedOutput
from agents.tools.shell.process import ProcessFailed
from tests.integration.tools.shell.marked_processes import Word, daemon_command, until

ENV = {"PATH": os.environ["PATH"]}

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


async def start(
    command: str, folder: Path, *, is_held: bool = False, columns: int = 0
) -> tuple[Running, WatchedOutput]:
    output = WatchedOutput(100_000)
    env: Mapping[str, str] = ENV
    running = await Running.start(
        shell_command(command, env),
        cwd=folder,
        env=env,
        sink=output,
        is_held=is_held,
        columns=columns,
    )
    return running, output


async def test_what_is_held_does_nothing_until_it_is_let_go(tmp_path: Path) -> None:
    running, output = await start("touch made; echo hi; cat; exit 5", tmp_path, is_held=True)
    pid, begun = running.pid, await asyncio.to_thread(identity.started, running.pid)
    assert not await running.wait(0.2)
    assert not (tmp_path / "made").exists()
    running.release()
    running.release()
    assert await running.finish() == 5
    assert output.kept.text() == "hi\n"  # and its input is empty
    assert (tmp_path / "made").exists()
    assert (running.pid, begun != "") == (pid, True)


@linux_only
async def test_the_pid_and_start_time_of_what_was_held_stay_true(tmp_path: Path) -> None:
    running, _ = await start("exec sleep 600", tmp_path, is_held=True)
    before = identity.started(running.pid)
    running.release()
    await asyncio.to_thread(until, lambda: b"sleep" in cmdline(running.pid))
    assert identity.started(running.pid) == before != ""
    running.end()
    assert await running.finish() == 137
    assert identity.started(running.pid) == ""


def cmdline(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]


async def test_what_is_held_is_never_run_when_its_holder_gives_up(tmp_path: Path) -> None:
    running, output = await start("touch made", tmp_path, is_held=True)
    running.end()
    assert await running.finish() != 0
    assert not (tmp_path / "made").exists()
    assert output.kept.total == 0


async def test_it_can_be_waited_for_a_while_and_finished_twice(tmp_path: Path) -> None:
    running, output = await start("echo hi", tmp_path)
    assert await running.wait(20)
    assert running.is_over
    assert (await running.finish(), await running.finish()) == (0, 0)
    assert output.kept.text() == "hi\n"


@linux_only
async def test_its_end_is_the_end_of_a_daemon_too(tmp_path: Path) -> None:
    word = Word()
    running, _ = await start(f"{daemon_command(tmp_path, word)}; sleep 600", tmp_path)
    await asyncio.to_thread(until, word.pids)
    running.end()
    assert await running.finish() == 137
    assert not word.pids()


@linux_only
async def test_a_cancel_of_its_finish_ends_it(tmp_path: Path) -> None:
    word = Word()
    running, _ = await start(word.sleeper, tmp_path)
    await asyncio.to_thread(until, word.pids)
    finishing = asyncio.ensure_future(running.finish())
    await asyncio.sleep(0)
    finishing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await finishing
    assert not word.pids()


async def test_on_a_terminal_it_sees_a_screen_and_nobody_who_types(tmp_path: Path) -> None:
    asked = (
        "test -t 1 && test -t 2 && stty size </dev/stdout; read -r x || echo nobody; printf 'a\\nb'"
    )
    running, output = await start(asked, tmp_path, is_held=True, columns=123)
    running.release()
    assert await running.finish() == 0
    assert output.kept.text() == "50 123\nnobody\na\nb"


async def test_it_says_why_it_could_not_start(tmp_path: Path) -> None:
    running, _ = await start("true", tmp_path)  # what is started once is there from now on
    await running.finish()
    await asyncio.sleep(0)  # its socket is closed by the loop
    descriptors = psutil.Process().num_fds()
    for columns in (0, 80):
        with pytest.raises(ProcessFailed, match="could not be started"):
            await start("true", tmp_path / "nowhere", is_held=True, columns=columns)
    await asyncio.to_thread(until, lambda: psutil.Process().num_fds() <= descriptors)


async def test_who_watches_is_told_of_what_was_printed_before(tmp_path: Path) -> None:
    running, output = await start("echo early", tmp_path)
    assert await running.wait(20)
    await running.finish()
    first: list[str] = []
    output.watch(lambda: first.append("never"), every_seconds=60)
    told = asyncio.Event()
    output.watch(told.set, every_seconds=0)
    await asyncio.wait_for(told.wait(), 60)
    assert first == []


@pytest.mark.parametrize("columns", [0, 80])
async def test_nothing_of_a_flood_is_lost_and_little_of_it_is_kept(
    tmp_path: Path, columns: int
) -> None:
    told: list[int] = []
    running, output = await start(
        "yes 0123456789 | head -c 5000000; echo end", tmp_path, is_held=True, columns=columns
    )
    output.watch(lambda: told.append(output.kept.total), every_seconds=0.1)
    began = time.monotonic()
    running.release()
    assert await running.finish() == 0
    seconds = time.monotonic() - began
    assert output.kept.total == 5_000_004
    assert output.kept.text().endswith("end\n")
    assert len(output.kept.text()) < 101_000
    assert len(told) < 10 * seconds + 10
