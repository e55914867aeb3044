"""A writer starts, stops, and answers whoever asks from any thread or loop."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.integration.log.writing import Gate, NewWriter, appending, in_thread, logged, start
from workspaces.log.errors import SessionUnknown, ShuttingDown, WorkspaceUnknown
from workspaces.log.transaction import Transaction
from workspaces.log.writer import BATCH_LIMIT


async def test_stopping_commits_what_was_asked(
    new_writer: NewWriter, gate: Gate, workspaces: list[str]
) -> None:
    writer = start(new_writer)
    workspace = workspaces[0]
    held = await gate.hold(writer)
    count = BATCH_LIMIT + 10
    tasks = [
        asyncio.create_task(writer.write(workspace, appending(workspace, str(n))))
        for n in range(count)
    ]
    await asyncio.sleep(0)
    stopping = [asyncio.create_task(asyncio.to_thread(writer.stop)) for _ in range(2)]
    while writer.is_running:
        await asyncio.sleep(0.001)
    with pytest.raises(ShuttingDown):
        await writer.write(workspace, appending(workspace, "late"))
    gate.opened.set()
    await asyncio.gather(held, *stopping)

    assert await asyncio.gather(*tasks) == list(range(1, count + 1))
    assert len(await in_thread(logged, workspace)) == count


async def test_it_starts_again_after_a_stop(new_writer: NewWriter, workspaces: list[str]) -> None:
    writer = start(new_writer)
    for number in (1, 2):
        assert await writer.write(workspaces[0], appending(workspaces[0], "a")) == number
        await asyncio.gather(*(asyncio.to_thread(writer.stop) for _ in range(3)))
        writer.start(loop=asyncio.get_running_loop())


async def test_it_refuses_to_start_twice(new_writer: NewWriter) -> None:
    writer = start(new_writer)

    with pytest.raises(RuntimeError, match="runs already"):
        writer.start()


async def test_a_writer_that_never_started_keeps_nobody_waiting(new_writer: NewWriter) -> None:
    with pytest.raises(ShuttingDown):
        await new_writer().write("", lambda tx: None)


async def test_threads_wait_for_their_own_answers(
    new_writer: NewWriter, workspaces: list[str]
) -> None:
    writer = start(new_writer)

    def ask(number: int) -> str:
        workspace = workspaces[number % 20]
        if number % 10 == 0:
            with pytest.raises(SessionUnknown):
                writer.write_and_wait(workspace, fail)
            return ""
        writer.write_and_wait(workspace, appending(workspace, str(number)))
        return str(number)

    def fail(tx: Transaction) -> None:
        raise SessionUnknown

    with ThreadPoolExecutor(8) as threads:
        loop = asyncio.get_running_loop()
        names = await asyncio.gather(
            *(loop.run_in_executor(threads, ask, number) for number in range(200))
        )

    found = [name for workspace in workspaces for _, name in await in_thread(logged, workspace)]
    assert sorted(found) == sorted(name for name in names if name)


def test_a_thread_is_answered_without_any_loop(
    new_writer: NewWriter, workspaces: list[str]
) -> None:
    writer = new_writer()
    writer.start()

    assert writer.write_and_wait(workspaces[0], appending(workspaces[0], "a")) == 1
    with pytest.raises(WorkspaceUnknown):
        writer.write_and_wait("nowhere", appending("nowhere", "a"))


def test_a_thread_is_answered_after_the_loop_has_closed(
    new_writer: NewWriter, workspaces: list[str]
) -> None:
    loop = asyncio.new_event_loop()
    writer = new_writer()
    writer.start(publish=lambda recorded: None, loop=loop)
    loop.close()

    assert writer.write_and_wait(workspaces[0], appending(workspaces[0], "a")) == 1


def test_without_a_running_writer_it_writes_right_here(
    new_writer: NewWriter, workspaces: list[str]
) -> None:
    writer = new_writer()

    assert writer.write_and_wait(workspaces[0], appending(workspaces[0], "a")) == 1
    assert logged(workspaces[0]) == [(1, "a")]


def test_another_loop_than_the_publishers_is_answered(
    new_writer: NewWriter, workspaces: list[str]
) -> None:
    writer = new_writer()
    publishers = asyncio.new_event_loop()
    thread = threading.Thread(target=publishers.run_forever)
    thread.start()
    writer.start(publish=lambda recorded: None, loop=publishers)
    try:
        number = asyncio.run(writer.write(workspaces[0], appending(workspaces[0], "a")))
    finally:
        publishers.call_soon_threadsafe(publishers.stop)
        thread.join()
        publishers.close()

    assert number == 1
