"""Several processes write to one workspace as fast as they can: every request gets its turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from functools import partial

import pytest

from tests.doubles.tcp_proxy import Cut, TcpProxy
from tests.integration.databases import POSTGRESQL, Databases
from tests.integration.log.writing import (
    Gate,
    NewWriter,
    append,
    appending,
    in_thread,
    logged,
    other_session,
    start,
)
from workspaces.log.commits import HOLD_SECONDS
from workspaces.log.deadlines import wait_at_most
from workspaces.log.transaction import Transaction

BUSY = 3  # writers, each of which stands for a process
JOBS = 600  # of each


@pytest.fixture
def database(databases: Databases) -> Iterator[str]:
    """PostgreSQL alone: SQLite has one writing process."""
    with databases.get(POSTGRESQL).use():
        yield POSTGRESQL


async def load(new_writer: NewWriter, workspace_id: str) -> asyncio.Future[list[int]]:
    """Returns when all writers are busy with their jobs."""

    def slow(tx: Transaction) -> int:
        time.sleep(0.004)  # as a permission request takes on a busy machine
        return append(tx, workspace_id, "slow")

    writers = [start(new_writer) for _ in range(BUSY)]
    jobs = [
        asyncio.create_task(writer.write(workspace_id, slow))
        for writer in writers
        for _ in range(JOBS)
    ]
    await asyncio.wait(jobs, return_when=asyncio.FIRST_COMPLETED)
    return asyncio.gather(*jobs)


async def test_a_request_gets_its_turn_between_large_batches_of_others(
    new_writer: NewWriter, workspaces: list[str]
) -> None:
    workspace_id, mine = workspaces[0], start(new_writer)
    others = await load(new_writer, workspace_id)
    answered = 0
    with wait_at_most(5):
        while not others.done():
            await mine.write(workspace_id, appending(workspace_id, "mine"))
            answered += 1
    await others
    assert answered >= 3
    assert len(await in_thread(logged, workspace_id)) == BUSY * JOBS + answered


async def test_a_request_that_was_blocked_gets_its_turn_among_others(
    new_writer: NewWriter, workspaces: list[str]
) -> None:
    workspace_id, mine = workspaces[0], start(new_writer)
    with other_session() as session:
        lock = "SELECT 1 FROM workspaces_workspace WHERE id = %s FOR UPDATE"
        session.execute(lock, [workspace_id])
        with wait_at_most(6):
            blocked = asyncio.create_task(mine.write(workspace_id, appending(workspace_id, "x")))
            await asyncio.sleep(1.5)  # it waits a second for the lock, and then only briefly
    others = await load(new_writer, workspace_id)
    await blocked
    assert not others.done()
    await others


@pytest.mark.parametrize("cut", Cut)
async def test_a_lost_commit_of_a_part_of_a_batch_counts_each_job_once(
    proxy: TcpProxy, new_writer: NewWriter, gate: Gate, workspaces: list[str], cut: Cut
) -> None:
    workspace_id, count = workspaces[0], 12
    writer = start(new_writer)
    await writer.write("", lambda tx: None)  # it is connected

    def slow(tx: Transaction, name: str) -> int:
        time.sleep(HOLD_SECONDS / 4)
        return append(tx, workspace_id, name)

    held = await gate.hold(writer)
    jobs = [
        asyncio.create_task(writer.write(workspace_id, partial(slow, name=str(number))))
        for number in range(count)
    ]
    await asyncio.sleep(0)
    gate.opened.set()
    await held
    proxy.cut_next_commits(1, cut)
    async with asyncio.timeout(60):
        assert await asyncio.gather(*jobs) == list(range(1, count + 1))
    assert proxy.cut_commits == 1
    names = [(number + 1, str(number)) for number in range(count)]
    assert await in_thread(logged, workspace_id) == names
