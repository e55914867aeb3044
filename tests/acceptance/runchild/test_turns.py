"""A child that works: its words, its conversation, its limits and its failures."""

import asyncio
import json
import uuid
from pathlib import Path

import pytest

from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.runchild.turns import KEY, Spawn, events, last_request
from tests.integration.fleet.children import Parent, dialled, terminal, tokens


@pytest.mark.parametrize("kind", ["crush", "bamboo_runtime"])
async def test_a_turns_words_become_events_and_its_answer_the_result(
    spawn: Spawn, kind: str
) -> None:
    child = spawn(kind)
    async with dialled(await child.endpoint()) as parent:
        await parent.run("[[reason=2 n=3 id=w]]")
        frames = await parent.frames()
    assert "".join(event["content"] for event in events(frames, "reasoning_token")).split() == [
        "think0",
        "think1",
    ]
    assert "".join(tokens(frames)).split() == ["w-0", "w-1", "w-2"]
    assert frames[-2]["event"] == {"type": "complete"}
    assert frames[-1]["status"] == "completed"
    assert frames[-1]["result"].split() == ["w-0", "w-1", "w-2"]
    assert await child.ended() == 0
    assert child.said() == ""


async def test_the_limit_of_rounds_ends_a_turn_with_an_error(spawn: Spawn) -> None:
    child = spawn(limits={"max_rounds": 3})
    async with dialled(await child.endpoint()) as parent:
        await parent.run('[[loop=glob {"pattern": "*"}]]')
        frames = await parent.frames()
    assert frames[-1] == terminal("error", error="The run reached its limit of 3 rounds.")
    assert len(events(frames, "tool_start")) == 3


async def test_the_limit_of_time_ends_a_turn_with_an_error(spawn: Spawn) -> None:
    child = spawn(limits={"run_timeout_secs": 10})
    async with dialled(await child.endpoint()) as parent:
        await parent.run("[[n=1000 d=100]]")
        frames = await parent.frames()
    assert frames[-1] == terminal("error", error="The run took longer than its limit of 10 s.")
    assert tokens(frames)


async def test_a_failing_model_is_an_error_terminal(parent: Parent) -> None:
    end = await parent.outcome("[[status=400]]")
    assert end["status"] == "error"
    assert end["error"]
    assert KEY not in end["error"]


async def test_a_model_without_a_provider_is_an_error_terminal(spawn: Spawn) -> None:
    child = spawn(model={"provider": "nobody", "model": "none"})
    async with dialled(await child.endpoint()) as parent:
        end = await parent.outcome("[[n=1]]")
    assert end["status"] == "error"
    assert "nobody" in end["error"]


async def test_a_missing_workspace_is_an_error_terminal(spawn: Spawn, tmp_path: Path) -> None:
    child = spawn(workspace=str(tmp_path / "gone"))
    async with dialled(await child.endpoint()) as parent:
        end = await parent.outcome("[[n=1]]")
    assert end == terminal("error", error="The folder of the workspace does not exist.")


async def test_the_model_receives_the_conversation_so_far(
    parent: Parent, model: ScriptedModel
) -> None:
    mark = uuid.uuid4().hex
    messages = [
        {"role": "user", "content": "my name is Ada"},
        {"role": "assistant", "content": [{"type": "text", "text": "hello Ada"}]},
        {"role": "tool", "content": "left out"},
        {"role": "user", "content": f"{mark} [[n=1]]"},
    ]
    assert (await parent.outcome(f"{mark} [[n=1]]", messages=messages))["status"] == "completed"
    received = [
        (message["role"], json.dumps(message["content"]))
        for message in last_request(model, mark)["body"]["messages"]
        if message["role"] != "system"
    ]
    assert [role for role, _ in received] == ["user", "assistant", "user"]
    assert "my name is Ada" in received[0][1]
    assert "hello Ada" in received[1][1]


async def test_many_parents_of_one_child_receive_only_their_own_turns(spawn: Spawn) -> None:
    endpoint = await spawn(arguments=("--forever",)).endpoint()

    async def drive(number: int) -> None:
        async with dialled(endpoint) as parent:
            await parent.run(f"[[n=20 d=2 id=p{number}]]")
            frames = await parent.frames()
        words = [f"p{number}-{word}" for word in range(20)]
        assert "".join(tokens(frames)).split() == words
        assert frames[-1]["result"].split() == words

    async with asyncio.timeout(120), asyncio.TaskGroup() as group:
        for number in range(10):
            group.create_task(drive(number))
