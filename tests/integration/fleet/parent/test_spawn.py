"""Starting a child: what reaches it, what waits for it, and what is left when it fails."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from agents.fleet import records
from agents.fleet.parent.errors import DialFailed, SpawnFailed, SpawnTimedOut
from agents.fleet.parent.outcome import Ending, Order
from agents.fleet.parent.process import ChildProcess, child_environment
from agents.fleet.parent.spawn import spawn_child
from agents.fleet.provisioning.codec import read_spec
from agents.fleet.provisioning.spec import Credential, Secrets
from agents.tools.shell.identity import started
from tests.integration.fleet.parent.conftest import launch, make_spec
from tests.integration.fleet.parent.listening import Ears

REPORTER = """
import json, os, sys
json.dump({"argv": sys.argv, "env": dict(os.environ), "stdin": sys.stdin.read(), "pid": os.getpid()},
          open(sys.argv[1], "w"))
"""


async def run(child, text):
    return await child.run(child.assignment(Order(text), listener=Ears().listener))


async def test_a_child_is_reached_and_leaves_nothing(start, tmp_path):
    child = await start()
    assert child.endpoint.startswith("ws://127.0.0.1:")
    assert (await run(child, "a b")).result == "echo: a b"
    pid = child.process.pid
    await child.end()
    await child.end()
    assert child.process.exit_code == 0  # one that serves one connection leaves by itself
    assert started(pid) == ""
    assert records.live_records(tmp_path / "fabric") == []


async def test_a_reusable_child_is_told_to_end_and_its_record_withdrawn(start, tmp_path):
    child = await start(reusable=True)
    await child.end()
    assert child.process.exit_code == -signal.SIGTERM
    assert list((tmp_path / "fabric").iterdir()) == []


async def test_no_secret_is_in_arguments_or_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "s3cret")
    monkeypatch.setenv("DATABASE_URL", "postgres://u:s3cret@x/y")
    script, told = tmp_path / "reporter.py", tmp_path / "told.json"
    script.write_text(REPORTER)
    secrets = Secrets((Credential("p", api_key="s3cret"),))
    spec = make_spec(tmp_path, secrets=secrets, workspace=str(tmp_path))
    with pytest.raises(SpawnFailed):
        await spawn_child(spec, launch((sys.executable, str(script), str(told))))
    seen = json.loads(told.read_text())
    assert "s3cret" not in json.dumps([seen["argv"], seen["env"]])
    assert read_spec(seen["stdin"].encode()) == spec


def test_what_a_program_needs_to_run_is_passed_on(monkeypatch):
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("PATH", "/bin")
    passed = child_environment({"MARK": "x"})
    assert (passed["PATH"], passed["LC_ALL"], passed["MARK"]) == ("/bin", "C.UTF-8", "x")


async def test_a_process_that_ends_early_is_told_with_its_last_words(tmp_path):
    with pytest.raises(SpawnFailed, match=r"ended with code 2 .*no such engine: moon"):
        await spawn_child(make_spec(tmp_path, kind="exits"), launch())


async def test_a_program_that_does_not_exist_is_told(tmp_path):
    with pytest.raises(SpawnFailed, match="FileNotFoundError"):
        await spawn_child(make_spec(tmp_path), launch(("/no/such/program",)))


async def test_a_process_that_is_never_reachable_is_killed(tmp_path):
    pid_file = tmp_path / "pid"
    code = f"import os,time; open({str(pid_file)!r},'w').write(str(os.getpid())); time.sleep(600)"
    command = (sys.executable, "-c", code)  # which does not even read its input
    with pytest.raises(SpawnTimedOut, match=r"within 6 seconds"):
        await spawn_child(make_spec(tmp_path), launch(command, within_seconds=6))
    assert started(int(pid_file.read_text())) == ""


async def test_a_child_that_never_answers_the_handshake_is_killed(tmp_path):
    spec = make_spec(tmp_path, kind="silent")
    with pytest.raises((SpawnTimedOut, DialFailed)):
        await spawn_child(spec, launch(within_seconds=1.5))
    assert list((tmp_path / "fabric").iterdir()) == []


async def test_a_record_that_points_elsewhere_is_refused(tmp_path):
    with pytest.raises(DialFailed, match="not on this machine"):
        await spawn_child(make_spec(tmp_path, kind="elsewhere"), launch())


async def test_a_record_that_an_earlier_process_left_is_not_taken_for_the_new_one(tmp_path):
    spec = make_spec(tmp_path, kind="unreachable")
    stale = records.new_record(spec.identity.child_id, role="r", endpoint="ws://127.0.0.1:9")
    records.publish(Path(spec.fabric_dir), stale)
    with pytest.raises(SpawnTimedOut):
        await spawn_child(spec, launch(within_seconds=1.0))


async def test_a_spawn_that_is_cancelled_leaves_no_process(tmp_path):
    pid_file = tmp_path / "pid"
    code = f"import os,time; open({str(pid_file)!r},'w').write(str(os.getpid())); time.sleep(600)"
    spawning = asyncio.create_task(
        spawn_child(make_spec(tmp_path), launch((sys.executable, "-c", code)))
    )
    async with asyncio.timeout(60):
        while not (pid_file.exists() and pid_file.read_text()):
            await asyncio.sleep(0.01)
    spawning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await spawning
    assert started(int(pid_file.read_text())) == ""


async def test_a_folder_for_records_that_cannot_be_used_is_told(tmp_path):
    (tmp_path / "fabric").write_text("a file")
    with pytest.raises(SpawnFailed, match="folder of the sub-agents' records"):
        await spawn_child(make_spec(tmp_path), launch())


async def test_a_process_that_ignores_the_term_signal_is_killed():
    code = (
        "import signal,time,sys; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "sys.stderr.write('ready'); sys.stderr.flush(); time.sleep(600)"
    )
    process = await ChildProcess.start((sys.executable, "-c", code))
    async with asyncio.timeout(60):
        while not process._stderr:  # its own readiness; nothing else tells
            await asyncio.sleep(0.01)
    await process.end(grace_seconds=0.2)
    assert process.exit_code == -signal.SIGKILL


async def test_a_grandchild_that_holds_the_pipe_holds_nobody_up():
    code = (
        "import subprocess,sys; p=subprocess.Popen([sys.executable,'-c','import time;time.sleep(600)']);"
        "print(p.pid,file=sys.stderr)"
    )
    process = await ChildProcess.start((sys.executable, "-c", code))
    assert await process.wait(within_seconds=60)
    async with asyncio.timeout(60):
        grandchild = int(await process.stderr_end())
        await process.end()
    os.kill(grandchild, signal.SIGKILL)  # it lives, and has the pipe


async def test_the_next_run_after_a_lost_one_is_lost_at_once(start):
    child = await start()
    await run(child, "__die:3")
    outcome = await run(child, "again")
    assert outcome.ending is Ending.LOST
