"""Conversations with executors that misbehave: deaf, broken, talkative."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from agents.fleet.child.conversation import ParentConversation, RunCounts
from agents.fleet.child.run_context import RunCancelled, RunContext
from agents.fleet.wire.frames import Status, Terminal

PATIENCE = 0.2
Perform = Callable[[RunContext], Awaitable[Terminal]]


class Sender:
    """Takes what is sent; has room as long as it is told so."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.has_room = True
        self._room = asyncio.Event()
        self._came = asyncio.Event()

    def write(self, payload: bytes) -> None:
        self.sent.append(json.loads(payload))
        self._came.set()

    async def wait_for_room(self) -> None:
        await self._room.wait()

    def give_room(self) -> None:
        self.has_room = True
        self._room.set()

    async def terminals(self, count: int) -> list[dict[str, Any]]:
        async with asyncio.timeout(60):
            while len(found := [f for f in self.sent if f["kind"] == "terminal"]) < count:
                self._came.clear()
                await self._came.wait()
        return found


class Executor:
    def __init__(self, perform: Perform) -> None:
        self.run = perform

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


def conversation(perform: Perform) -> tuple[ParentConversation, Sender, RunCounts, list[str]]:
    sender, counts, dropped = Sender(), RunCounts(), []
    made = ParentConversation(
        sender,
        Executor(perform),
        counts,
        drop=lambda: dropped.append("dropped"),
        cancel_seconds=PATIENCE,
    )
    return made, sender, counts, dropped


def run(assignment: str) -> str:
    return json.dumps({"kind": "run", "assignment": assignment})


CANCEL = '{"kind":"cancel"}'
CANCELLED = {"kind": "terminal", "status": "cancelled"}


async def deaf(context: RunContext) -> Terminal:
    """Hears neither its cancel nor the first abort."""
    if context.run.assignment != "deaf":
        return Terminal(Status.COMPLETED, result=context.run.assignment)
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        await asyncio.sleep(60)
    return Terminal(Status.COMPLETED)


async def test_a_deaf_run_is_aborted_after_a_while() -> None:
    talk, sender, counts, _ = conversation(deaf)
    begun = asyncio.get_running_loop().time()
    talk.take(run("deaf"))
    await asyncio.sleep(0)
    talk.take(CANCEL)
    assert await sender.terminals(1) == [CANCELLED]
    assert PATIENCE <= asyncio.get_running_loop().time() - begun < 5
    assert (counts.started, counts.cancelled, counts.active) == (1, 1, 0)


async def test_a_new_run_begins_only_after_the_deaf_one_has_its_terminal() -> None:
    talk, sender, _, _ = conversation(deaf)
    talk.take(run("deaf"))
    await asyncio.sleep(0)
    talk.take(run("next"))
    ends = await sender.terminals(2)
    assert ends == [CANCELLED, {"kind": "terminal", "status": "completed", "result": "next"}]


async def test_a_superseding_run_may_be_cancelled_before_it_begins() -> None:
    talk, sender, counts, _ = conversation(deaf)
    talk.take(run("deaf"))
    await asyncio.sleep(0)
    talk.take(run("never"))
    talk.take(CANCEL)
    assert await sender.terminals(2) == [CANCELLED, CANCELLED]
    assert counts.started == 1


async def test_what_an_aborted_run_says_later_goes_nowhere() -> None:
    released = asyncio.Event()
    late: list[str] = []

    async def stubborn(context: RunContext) -> Terminal:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue
        try:
            await context.emit({"late": True})
        except RunCancelled:
            late.append("refused")
        return Terminal(Status.COMPLETED)

    talk, sender, _, _ = conversation(stubborn)
    talk.take(run("x"))
    await asyncio.sleep(0)
    talk.take(CANCEL)
    await sender.terminals(1)
    released.set()
    for _ in range(5):
        await asyncio.sleep(0)
    assert late == ["refused"]
    assert sender.sent == [CANCELLED]


async def test_a_run_that_ends_in_time_after_its_cancel_says_how_it_ended() -> None:
    async def finishing(context: RunContext) -> Terminal:
        await context.cancelled.wait()
        return Terminal(Status.COMPLETED, result="all the same")

    talk, sender, _, _ = conversation(finishing)
    talk.take(run("x"))
    talk.take(CANCEL)
    await asyncio.sleep(0)
    talk.take(run("y"))
    talk.take(CANCEL)
    first, second = await sender.terminals(2)
    assert first["status"] in {"completed", "cancelled"}
    assert second["status"] in {"completed", "cancelled"}


async def test_an_executor_that_breaks_is_an_error_terminal_without_its_secrets() -> None:
    async def broken(context: RunContext) -> Terminal:
        raise RuntimeError("the key is sk-secret")

    talk, sender, counts, _ = conversation(broken)
    talk.take(run("x"))
    (end,) = await sender.terminals(1)
    assert end["status"] == "error"
    assert "sk-secret" not in end["error"]
    assert counts.finished == 1


async def test_an_executor_waits_while_the_parent_does_not_read() -> None:
    async def flood(context: RunContext) -> Terminal:
        for number in range(1_000_000):
            await context.emit(number)
        return Terminal(Status.COMPLETED)

    talk, sender, _, _ = conversation(flood)
    sender.has_room = False
    talk.take(run("x"))
    for _ in range(50):
        await asyncio.sleep(0)
    assert sender.sent == []
    # Its cancel is not queued behind what waits.
    talk.take(CANCEL)
    await asyncio.sleep(0.01)
    sender.give_room()
    assert await sender.terminals(1) == [CANCELLED]
    assert sender.sent == [CANCELLED]


async def test_two_approvals_of_one_run_are_answered_apart() -> None:
    async def asking(context: RunContext) -> Terminal:
        answers = await asyncio.gather(context.approve({"n": 1}), context.approve({"n": 2}))
        return Terminal(Status.COMPLETED, result=str(answers))

    talk, sender, _, _ = conversation(asking)
    talk.take(run("x"))
    while len(sender.sent) < 2:
        await asyncio.sleep(0)
    first, second = sender.sent
    assert first["id"] != second["id"]
    for frame, approved in ((second, False), (first, True)):
        reply = {"kind": "approval_reply", "id": frame["id"], "approved": approved}
        talk.take(json.dumps(reply))
    (end,) = await sender.terminals(1)
    assert end["result"] == "[True, False]"


async def test_a_parent_that_floods_a_run_with_messages_is_dropped() -> None:
    async def idle(context: RunContext) -> Terminal:
        await context.sleep(60)
        return Terminal(Status.COMPLETED)

    talk, _, _, dropped = conversation(idle)
    talk.take(run("x"))
    message = json.dumps({"kind": "message", "text": "x" * 1_000_000})
    for _ in range(70):
        talk.take(message)
    assert dropped
    talk.on_disconnect()
    await talk.finish()


async def test_nothing_works_after_the_parent_has_hung_up() -> None:
    ended: list[str] = []

    async def working(context: RunContext) -> Terminal:
        try:
            await context.sleep(60)
        finally:
            ended.append(context.run.assignment)
        return Terminal(Status.COMPLETED)

    talk, _, counts, _ = conversation(working)
    talk.take(run("one"))
    await asyncio.sleep(0.01)
    talk.take(run("two"))
    talk.on_disconnect()
    await talk.finish()
    talk.take(run("three"))
    await asyncio.sleep(0.01)
    assert ended == ["one"]
    assert (counts.started, counts.active) == (1, 0)


@pytest.mark.parametrize("text", ["", "{", '{"kind":"run"}', '["nope"]', "\x00"])
async def test_what_is_no_frame_is_ignored(text: str) -> None:
    talk, sender, _, _ = conversation(deaf)
    talk.take(text)
    talk.take(run("fine"))
    await sender.terminals(1)
    assert len(sender.sent) == 1
