"""A running turn is steered, cancelled, superseded, and takes all it started with it."""

import asyncio
from pathlib import Path

import psutil
import pytest

from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.runchild.turns import Spawn, bash
from tests.integration.fleet.children import Parent, dialled, died, terminal


async def test_a_message_steers_the_running_turn(parent: Parent, model: ScriptedModel) -> None:
    gate = model.new_gate()
    await parent.run(f'[[gate={gate}]] [[tool=glob {{"pattern": "*"}}]] [[n=1]]')
    await model.wait_at_gate(gate)
    await parent.send({"kind": "message", "text": "[[n=2 id=steered]]"})
    await asyncio.to_thread(model.open_gate, gate)
    frames = await parent.frames()
    assert frames[-1]["result"].split() == ["steered-0", "steered-1"]
    assert [frame["kind"] for frame in frames].count("terminal") == 1


async def test_a_cancel_ends_a_turn_and_its_processes(parent: Parent, work: Path) -> None:
    await parent.run(bash("echo $$ > pid; sleep 600"))
    request = await parent.until("approval_request")
    await parent.send({"kind": "approval_reply", "id": request["id"], "approved": True})
    pid = await _pid_in(work / "pid")
    await parent.send({"kind": "cancel"})
    assert (await parent.frames())[-1] == terminal("cancelled")
    assert await died(pid)
    assert (await parent.outcome("[[n=1 id=next]]"))["result"].split() == ["next-0"]


@pytest.mark.parametrize("how", ["close", "kill"])
async def test_a_turns_processes_end_with_the_connection_and_with_the_child(
    spawn: Spawn, work: Path, how: str
) -> None:
    child = spawn(capabilities={})
    async with dialled(await child.endpoint()) as parent:
        await parent.run(bash("echo $$ > pid; sleep 600"))
        pid = await _pid_in(work / "pid")
        if how == "kill":
            psutil.Process(child.pid).kill()
    assert await died(pid)
    assert await child.ended() == (0 if how == "close" else -9)


async def _pid_in(path: Path) -> int:
    async with asyncio.timeout(60):
        while not (path.exists() and path.read_text().strip()):
            await asyncio.sleep(0.02)
    return int(path.read_text())


async def test_a_new_run_supersedes_a_turn(parent: Parent, model: ScriptedModel) -> None:
    gate = model.new_gate()
    await parent.run(f"[[gate={gate}]] [[n=1]]")
    await model.wait_at_gate(gate)
    await parent.run("[[n=1 id=second]]")
    assert await parent.frame() == terminal("cancelled")
    assert (await parent.frames())[-1]["result"].split() == ["second-0"]
