"""A child's runs over real sockets: their order, cancel, supersede, steering, approvals."""

import asyncio
import uuid

import pytest

from tests.integration.fleet.children import Parent, dialled, terminal, tokens
from tests.integration.fleet.conftest import StartChild


@pytest.fixture
async def parent(start_child: StartChild):
    async with dialled(await start_child(reusable=True).endpoint()) as parent:
        yield parent


async def test_the_echo_says_every_word_and_then_its_end(start_child: StartChild) -> None:
    child = start_child("echo")
    async with dialled(await child.endpoint()) as parent:
        await parent.run("alpha  __sleep_ms:1 beta __sleep_ms:2\ngamma")
        frames = await parent.frames()
    assert tokens(frames) == ["alpha ", "beta ", "__sleep_ms:2 ", "gamma "]
    assert frames[-2:] == [
        {"kind": "event", "event": {"type": "complete"}},
        terminal("completed", result="echo: alpha beta __sleep_ms:2 gamma"),
    ]
    assert await child.ended() == 0
    assert child.said() == ""


async def test_ten_thousand_events_come_in_order_before_their_terminal(parent: Parent) -> None:
    await parent.run("__stream:10000:0")
    frames = await parent.frames()
    assert tokens(frames) == [f"tick{number} " for number in range(10_000)]
    assert [frame["kind"] for frame in frames].count("terminal") == 1
    # And nothing after it.
    stats = await parent.hears_nothing_but_stats()
    assert stats["result"] == "echo: stats: started=2 finished=1 cancelled=0 active=1"


async def test_a_cancel_during_a_flood_ends_it_at_once(parent: Parent) -> None:
    await parent.run("__stream:100000000:0")
    await parent.frame()
    begun = asyncio.get_running_loop().time()
    await parent.send({"kind": "cancel"})
    frames = await parent.frames()
    assert frames[-1] == terminal("cancelled")
    assert asyncio.get_running_loop().time() - begun < 30
    assert (await parent.outcome("next"))["result"] == "echo: next"


async def test_a_cancel_reaches_a_run_whose_events_nobody_reads(parent: Parent) -> None:
    await parent.run("__stream:100000000:0")
    await parent.frame()
    await asyncio.sleep(0.5)  # its sends are full by now: it waits for room
    await parent.send({"kind": "cancel"})
    frames = await parent.frames()
    assert frames[-1] == terminal("cancelled")
    # What stood in the buffers, and not what a run makes that nothing holds back.
    assert len(frames) < 500_000


async def test_a_cancel_while_idle_has_no_effect(parent: Parent) -> None:
    await parent.send({"kind": "cancel"})
    assert (await parent.outcome("one"))["status"] == "completed"
    await parent.send({"kind": "cancel"})
    assert (await parent.outcome("two"))["status"] == "completed"


async def test_a_cancel_during_an_approval_ends_the_run(parent: Parent) -> None:
    await parent.run("__approve:Write")
    request = await parent.frame()
    await parent.send({"kind": "cancel"})
    assert await parent.frame() == terminal("cancelled")
    # Its answer comes too late and is nobody's.
    await parent.send({"kind": "approval_reply", "id": request["id"], "approved": True})
    assert (await parent.outcome("next"))["result"] == "echo: next"


async def test_an_approval_waits_for_the_reply_with_its_id(parent: Parent) -> None:
    await parent.run("__approve:Write __approve:Bash done")
    first = await parent.frame()
    assert first["kind"] == "approval_request"
    assert first["body"]["tool_name"] == "Write"
    assert set(first["body"]) == {"tool_name", "permission_type", "resource", "question"}
    kind, _, name = first["id"].partition("-")
    assert kind == "sa"
    assert uuid.UUID(name).version == 4
    await parent.send({"kind": "approval_reply", "id": "sa-unknown", "approved": True})
    await parent.send({"kind": "approval_reply", "id": first["id"], "approved": "yes"})
    await parent.send({"kind": "approval_reply", "id": first["id"], "approved": False})
    await parent.send({"kind": "approval_reply", "id": first["id"], "approved": True})
    second = await parent.frame()
    assert second["id"] != first["id"]
    await parent.send({"kind": "approval_reply", "id": second["id"], "approved": True})
    assert (await parent.frames())[-1]["result"] == "echo: approved=false approved=true done"


async def test_two_approvals_of_two_parents_are_answered_in_either_order(
    start_child: StartChild,
) -> None:
    endpoint = await start_child(arguments=("--forever",)).endpoint()
    async with dialled(endpoint) as one, dialled(endpoint) as other:
        await one.run("__approve:A")
        await other.run("__approve:B")
        asked_one, asked_other = await one.frame(), await other.frame()
        # The other's id is unknown here, whoever knows it.
        await one.send({"kind": "approval_reply", "id": asked_other["id"], "approved": False})
        await other.send({"kind": "approval_reply", "id": asked_other["id"], "approved": True})
        assert (await other.frames())[-1]["result"] == "echo: approved=true"
        await one.send({"kind": "approval_reply", "id": asked_one["id"], "approved": False})
        assert (await one.frames())[-1]["result"] == "echo: approved=false"


async def test_a_new_run_supersedes_the_running_one(parent: Parent) -> None:
    await parent.run("one __await_steer")
    assert tokens([await parent.frame()]) == ["one "]
    await parent.run("two __await_steer")
    await parent.send({"kind": "message", "text": "for two"})
    # The old run has its terminal first, and nothing of it comes after.
    assert await parent.frame() == terminal("cancelled")
    frames = await parent.frames()
    assert tokens(frames) == ["two "]
    assert frames[-1]["result"] == "echo: two steer=[for two]"


async def test_every_superseded_run_has_a_terminal_of_its_own(parent: Parent) -> None:
    for number in range(20):
        await parent.run(f"run{number} __sleep_ms:{0 if number == 19 else 60_000}")
    terminals = [(await parent.frames())[-1] for _ in range(20)]
    assert [end["status"] for end in terminals] == ["cancelled"] * 19 + ["completed"]
    assert terminals[-1]["result"] == "echo: run19"


async def test_a_superseding_run_may_be_cancelled_at_once(parent: Parent) -> None:
    await parent.run("__sleep_ms:60000")
    await parent.run("__sleep_ms:60000")  # says nothing, whether or not it has begun
    await parent.send({"kind": "cancel"})
    assert [(await parent.frame()) for _ in range(2)] == [terminal("cancelled")] * 2
    assert "active=1" in (await parent.hears_nothing_but_stats())["result"]


async def test_a_new_run_after_a_run_that_has_just_ended_is_no_supersede(parent: Parent) -> None:
    await parent.run("one")
    await parent.run("two")
    ends = [(await parent.frames())[-1] for _ in range(2)]
    # Either order of events on the wire: the first had ended, or was cancelled.
    assert ends[0] in (terminal("completed", result="echo: one"), terminal("cancelled"))
    assert ends[1] == terminal("completed", result="echo: two")


async def test_messages_steer_in_order_and_wait_for_the_executor(parent: Parent) -> None:
    await parent.run("__sleep_ms:100 __await_steer:2 __sleep_ms:100 __drain_steer")
    for text in ("one", "zwei ünïcode", "three", "four"):
        await parent.send({"kind": "message", "text": text})
    end = (await parent.frames())[-1]
    assert end["result"] == "echo: steer=[one] steer=[zwei ünïcode] drained=2"


async def test_a_message_while_idle_is_dropped(parent: Parent) -> None:
    await parent.send({"kind": "message", "text": "lost"})
    assert (await parent.outcome("__drain_steer"))["result"] == "echo: drained=0"
    await parent.send({"kind": "message", "text": "lost"})
    assert (await parent.outcome("__drain_steer"))["result"] == "echo: drained=0"


async def test_a_failing_executor_is_an_error_terminal(parent: Parent) -> None:
    await parent.run("before __fail:boom after")
    frames = await parent.frames()
    assert tokens(frames) == ["before "]
    assert frames[-1] == terminal("error", error="boom")
    assert (await parent.outcome("next"))["status"] == "completed"


async def test_a_run_may_suspend_with_its_transcript(parent: Parent) -> None:
    assert await parent.outcome("__suspend") == terminal(
        "suspended",
        transcript=[
            {"content": "__suspend", "role": "user"},
            {"content": "waiting on children", "role": "assistant"},
        ],
    )


async def test_the_run_frame_reaches_the_executor_whole(parent: Parent) -> None:
    messages = [{"role": "user", "content": "x"}, 1, None]
    end = await parent.outcome("__spec", reasoning_effort="high", messages=messages)
    assert end["result"] == "echo: spec: messages=3 effort=high chars=6"


async def test_malformed_frames_are_ignored_idle_and_in_a_run(parent: Parent) -> None:
    nonsense = ("", "hello", "{}", "[]", '{"kind":"nope"}', '{"kind":"Cancel"}', "\ufeff{}")
    for text in nonsense:
        await parent.send(text)
    await parent.socket.send_bytes(b'{"kind":"run","assignment":"binary"}')
    await parent.run("__await_steer")
    for text in nonsense:
        await parent.send(text)
    await parent.socket.send_bytes(b'{"kind":"cancel"}')
    await parent.send({"kind": "message", "text": "on"})
    assert (await parent.frames())[-1]["result"] == "echo: steer=[on]"


async def test_two_megabytes_go_each_way(parent: Parent) -> None:
    text = "ü" * 1_000_000
    await parent.run(text)
    frames = await parent.frames()
    assert tokens(frames) == [f"{text} "]
    assert frames[-1]["result"] == f"echo: {text}"


async def test_fifteen_megabytes_fit_into_one_frame(parent: Parent) -> None:
    words = "x" * (15 * 1024 * 1024)
    await parent.run("__spec", messages=[words])
    assert "messages=1" in (await parent.frames())[-1]["result"]


async def test_a_result_that_fits_into_no_frame_is_an_error(parent: Parent) -> None:
    word = "x" * (16 * 1024 * 1024 - 40)
    end = await parent.outcome(word)
    assert end["status"] == "error"
    assert "larger than one frame may be" in end["error"]
    assert (await parent.outcome("next"))["status"] == "completed"


async def test_fifty_parents_of_one_child_hear_only_their_own(start_child: StartChild) -> None:
    endpoint = await start_child(arguments=("--forever",)).endpoint()

    async def drive(number: int) -> None:
        async with dialled(endpoint) as parent:
            for turn in range(3):
                name = f"p{number}t{turn}"
                await parent.run(f"{name} __stream:20:1 __await_steer {name}")
                await parent.send({"kind": "message", "text": name})
                frames = await parent.frames()
                ticks = [f"tick{tick} " for tick in range(20)]
                assert tokens(frames) == [f"{name} ", *ticks, f"{name} "]
                assert frames[-1]["result"] == f"echo: {name} steer=[{name}] {name}"

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        for number in range(50):
            group.create_task(drive(number))
    async with dialled(endpoint) as parent:
        end = await parent.outcome("__stats")
    assert end["result"] == "echo: stats: started=151 finished=150 cancelled=0 active=1"


@pytest.mark.parametrize("how", ["close", "cut"])
async def test_a_lost_connection_cancels_its_run(start_child: StartChild, how: str) -> None:
    endpoint = await start_child(arguments=("--forever",)).endpoint()
    async with dialled(endpoint) as watcher:
        async with dialled(endpoint) as parent:
            await parent.run("__stream:100000000:5")
            await parent.frame()
            if how == "cut":
                parent.cut()
        # Bounded: the loss is noticed within moments.
        for _ in range(100):
            end = await watcher.outcome("__stats")
            if "cancelled=1" in end["result"]:
                break
            await asyncio.sleep(0.05)
        assert "cancelled=1" in end["result"]
        assert "active=1" in end["result"]  # the one that asks
