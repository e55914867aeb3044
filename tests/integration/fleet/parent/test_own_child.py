"""Both ends are ours: our parent drives `manage.py runchild` with its scripted executor."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from agents.fleet import records
from agents.fleet.parent.outcome import Ending, Order
from agents.fleet.parent.spawn import reach_recorded
from agents.tools.shell.identity import started
from tests.integration.fleet.parent.conftest import OWN, ROOT
from tests.integration.fleet.parent.listening import Ears, assign, outcome_of


@pytest.fixture
async def child(start):
    return await start(OWN, reusable=True)


async def test_ten_thousand_events_come_in_order(child):
    ears = Ears()
    outcome = await outcome_of(child, "__stream:10000:0", ears)
    assert outcome.ending is Ending.COMPLETED
    assert ears.words == "".join(f"tick{number} " for number in range(10_000))


async def test_cancel_during_a_flood(child):
    ears = Ears()
    assignment, running = assign(child, "__stream:1000000:0", ears)
    await ears.heard(100)
    await assignment.cancel()
    outcome = await running
    assert outcome.ending is Ending.CANCELLED
    assert outcome.is_child_usable
    assert (await outcome_of(child, "after")).result == "echo: after"


async def test_messages_questions_failures_and_suspension(child):
    ears = Ears(answer=False)
    assignment, running = assign(child, "a __await_steer:2 __approve:Write", ears)
    await ears.heard()
    await assignment.steer("left")
    await assignment.steer("right")
    assert (await running).result == "echo: a steer=[left] steer=[right] approved=false"
    failed = await outcome_of(child, "said __fail:boom")
    assert (failed.ending, failed.error, failed.produced) == (Ending.ERROR, "boom", "said ")
    assert (await outcome_of(child, "__suspend")).ending is Ending.SUSPENDED
    assert (await outcome_of(child, "after")).result == "echo: after"


async def test_a_cut_connection_cancels_the_run_and_the_next_parent_is_served(child, tmp_path):
    ears = Ears()
    _, running = assign(child, "__sleep_ms:1 x __sleep_ms:60000", ears)
    await ears.heard()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    again = await reach_recorded(tmp_path / "fabric", agent_id=child.agent_id)
    outcome = await again.run(again.assignment(Order("__stats"), listener=ears.listener))
    assert "cancelled=1" in outcome.result
    await again.end()


async def test_supersede(child):
    ears = Ears()
    assignment, running = assign(child, "old __sleep_ms:60000", ears)
    await ears.heard()
    await assignment.supersede(Order("new"))
    assert (await running).result == "echo: new"
    assert (await outcome_of(child, "after")).result == "echo: after"


async def test_two_hundred_runs_one_after_another_grow_nothing(child):
    folder = Path(f"/proc/{child.process.pid}")
    sizes = []
    for number in range(200):
        assert (await outcome_of(child, f"n{number}")).result == f"echo: n{number}"
        if number in {20, 199}:
            resident = int((folder / "statm").read_text().split()[1]) * 4096
            sizes.append((len(list((folder / "fd").iterdir())), resident))
    assert sizes[1][0] <= sizes[0][0]
    assert sizes[1][1] <= sizes[0][1] + 4 * 1024 * 1024


async def test_it_leaves_in_order_when_it_is_told_to_end(child, tmp_path):
    pid = child.process.pid
    await child.end()
    assert started(pid) == ""
    assert records.live_records(tmp_path / "fabric") == []


async def test_a_child_killed_mid_run_is_told_with_what_it_had_said(child):
    ears = Ears()
    _, running = assign(child, "__stream:100000:2", ears)
    await ears.heard(5)
    os.kill(child.process.pid, signal.SIGKILL)
    outcome = await running
    assert outcome.ending is Ending.LOST
    assert outcome.produced.startswith("tick0 ")


async def test_a_frozen_child_is_deaf(start):
    child = await start(OWN, ping_seconds=1.0)
    ears = Ears()
    _, running = assign(child, "said __sleep_ms:60000", ears)
    await ears.heard()
    os.kill(child.process.pid, signal.SIGSTOP)
    outcome = await running
    assert (outcome.ending, outcome.produced) == (Ending.UNRESPONSIVE, "said ")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_child_outlives_its_parent(tmp_path, number):
    """The parent is a process of its own, with a child at work and one that waits."""
    script = tmp_path / "parent.py"
    script.write_text(
        textwrap.dedent(f"""
        import asyncio, sys
        from pathlib import Path
        sys.path.insert(0, {str(ROOT)!r})
        from agents.fleet.parent.outcome import Order
        from agents.fleet.parent.spawn import spawn_child
        from tests.integration.fleet.parent.conftest import OWN, launch, make_spec
        from tests.integration.fleet.parent.listening import Ears, assign, outcome_of

        async def main():
            folder = Path({str(tmp_path)!r})
            work, wait = [await spawn_child(make_spec(folder, reusable=True), launch(OWN)) for _ in "ab"]
            ears = Ears()
            running = asyncio.create_task(
                work.run(work.assignment(Order("x __sleep_ms:600000"), listener=ears.listener)))
            await ears.heard()
            print(work.process.pid, wait.process.pid, flush=True)
            await running

        asyncio.run(main())
        """)
    )
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE)
    try:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert len(pids) == 2
        starts = {pid: started(pid) for pid in pids}
        assert all(starts.values())
        parent.send_signal(number)
        parent.wait(60)
        handles = []
        for pid in pids:
            try:
                handles.append(os.pidfd_open(pid))
            except ProcessLookupError:
                continue
        wait_for_ends(handles)
        assert not [pid for pid in pids if started(pid) == starts[pid]]
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()


def wait_for_ends(handles):
    import select

    for handle in handles:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        assert poll.poll(15_000)
        os.close(handle)
