"""What waiting can cure is no failure of a write: locks, lost connections, lost commits."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from tests.doubles.tcp_proxy import Cut, Mode, TcpProxy
from tests.integration.databases import POSTGRESQL, Databases
from tests.integration.log.writing import (
    Gate,
    NewWriter,
    append,
    appending,
    gathered,
    in_thread,
    logged,
    other_session,
    start,
)
from workspaces.log.commits import run_alone
from workspaces.log.deadlines import wait_at_most
from workspaces.log.errors import DatabaseLocked, DatabaseUnreachable, ShuttingDown
from workspaces.log.outage import outage
from workspaces.log.reader import read
from workspaces.log.transaction import RecordedEvent, Transaction
from workspaces.log.writer import Writer
from workspaces.models import Workspace

QUICK_SECONDS = 8.0  # with the second that the first look at a locked row takes


@pytest.fixture
def database(databases: Databases) -> Iterator[str]:
    """PostgreSQL alone: these are faults of a server and of the way to it."""
    with databases.get(POSTGRESQL).use():
        yield POSTGRESQL
    outage.report_end()


@contextmanager
def locked(workspace_id: str) -> Iterator[None]:
    """Another process, which has all the time in the world, holds the workspace's row."""
    with other_session() as session:
        session.execute(
            "SELECT 1 FROM workspaces_workspace WHERE id = %s FOR UPDATE", [workspace_id]
        )
        yield


async def test_a_locked_workspace_holds_up_no_other_and_keeps_its_order(
    new_writer: NewWriter, gate: Gate, workspaces: list[str]
) -> None:
    writer = start(new_writer)
    with locked(workspaces[3]):
        names = ("first", "second", "third")
        waiting = [
            asyncio.create_task(writer.write(workspaces[3], appending(workspaces[3], name)))
            for name in names[:2]
        ]
        for _ in range(3):
            began = time.monotonic()
            jobs = [(w, appending(w, "x")) for w in workspaces if w != workspaces[3]]
            answers = await asyncio.gather(*(writer.write(w, job) for w, job in jobs))
            assert time.monotonic() - began < QUICK_SECONDS
            assert len(set(answers)) == 1, answers
        waiting.append(
            asyncio.create_task(writer.write(workspaces[3], appending(workspaces[3], names[2])))
        )
        await asyncio.sleep(0)
        assert not any(task.done() for task in waiting)
    async with asyncio.timeout(60):
        assert await asyncio.gather(*waiting) == [1, 2, 3]
    assert [name for _, name in await in_thread(logged, workspaces[3])] == list(names)


async def test_many_locked_workspaces_are_not_waited_for_one_after_the_other(
    new_writer: NewWriter, gate: Gate, workspaces: list[str]
) -> None:
    writer = start(new_writer)
    with other_session() as session:
        held = workspaces[:12]
        session.execute("SELECT 1 FROM workspaces_workspace WHERE id = ANY(%s) FOR UPDATE", [held])
        began = time.monotonic()
        holding = await gate.hold(writer)
        tasks = {w: asyncio.create_task(writer.write(w, appending(w, "x"))) for w in workspaces}
        await asyncio.sleep(0)
        gate.opened.set()
        await holding
        await asyncio.gather(*(tasks[w] for w in workspaces[12:]))
        assert time.monotonic() - began < QUICK_SECONDS
        assert not any(tasks[w].done() for w in held)
    async with asyncio.timeout(60):
        await asyncio.gather(*tasks.values())


async def test_a_request_is_refused_at_its_deadline(
    new_writer: NewWriter, workspaces: list[str]
) -> None:
    writer = start(new_writer)
    with locked(workspaces[0]):
        began = time.monotonic()
        with wait_at_most(0.5), pytest.raises(DatabaseLocked):
            await writer.write(workspaces[0], appending(workspaces[0], "refused"))
        assert time.monotonic() - began < 0.5 + QUICK_SECONDS
    assert await writer.write(workspaces[0], appending(workspaces[0], "after")) == 1
    assert await in_thread(logged, workspaces[0]) == [(1, "after")]


async def test_a_batch_whose_session_was_ended_is_done_again_as_a_whole(
    new_writer: NewWriter, gate: Gate, workspaces: list[str]
) -> None:
    told: list[RecordedEvent] = []
    writer = start(new_writer, told)
    tries: list[int] = []

    def end_own_session(tx: Transaction) -> int:
        tries.append(1)
        if len(tries) == 1:
            ((pid,),) = tx.fetch("SELECT pg_backend_pid()", [])
            with other_session() as session:
                session.execute("SELECT pg_terminate_backend(%s)", [pid])
        return append(tx, workspaces[5], "ended")

    jobs: list[tuple[str, Any]] = [(w, appending(w, "kept")) for w in workspaces]
    answers = await gathered(writer, gate, [*jobs, (workspaces[5], end_own_session)])

    assert answers == [1] * len(workspaces) + [2]
    assert len(tries) == 2
    for workspace in workspaces:
        names = ["kept", "ended"] if workspace == workspaces[5] else ["kept"]
        assert [name for _, name in await in_thread(logged, workspace)] == names
    assert len(told) == len(workspaces) + 1


async def test_a_process_that_was_frozen_in_a_transaction_does_its_batch_again(
    new_writer: NewWriter, workspaces: list[str]
) -> None:
    writer = start(new_writer)
    tries: list[int] = []

    def freeze_at_first(tx: Transaction) -> int:
        tries.append(1)
        number = append(tx, workspaces[0], "once")
        if len(tries) == 1:
            tx.fetch("SELECT set_config('idle_in_transaction_session_timeout', '100ms', true)", [])
            time.sleep(2)
        return number

    assert await writer.write(workspaces[0], freeze_at_first) == 1
    assert len(tries) == 2
    assert await in_thread(logged, workspaces[0]) == [(1, "once")]


@pytest.mark.parametrize("cut", Cut)
async def test_a_commit_whose_answer_is_lost_counts_once(
    proxy: TcpProxy, new_writer: NewWriter, gate: Gate, workspaces: list[str], cut: Cut
) -> None:
    told: list[RecordedEvent] = []
    writer = start(new_writer, told)
    await writer.write("", lambda tx: None)  # it is connected
    tries: list[int] = []

    def count(tx: Transaction, name: str) -> int:
        tries.append(1)
        return append(tx, workspaces[0], name)

    held = await gate.hold(writer)
    tasks = [
        asyncio.create_task(writer.write(workspaces[0], partial(count, name=name)))
        for name in ("a", "b")
    ]
    await asyncio.sleep(0)
    gate.opened.set()
    await held
    proxy.cut_next_commits(1, cut)
    async with asyncio.timeout(60):
        assert await asyncio.gather(*tasks) == [1, 2]
    assert proxy.cut_commits == 1
    assert len(tries) == (2 if cut is Cut.ANSWER else 4)
    assert await in_thread(logged, workspaces[0]) == [(1, "a"), (2, "b")]
    assert [event.session_id for event in told] == ["a", "b"]


@pytest.mark.parametrize("cut", Cut)
async def test_a_job_alone_counts_once_as_well(
    proxy: TcpProxy, workspaces: list[str], cut: Cut
) -> None:
    def run() -> int:
        run_alone("", lambda tx: None)
        proxy.cut_next_commits(1, cut)
        return run_alone(workspaces[0], appending(workspaces[0], "a"))[0]

    assert await in_thread(run) == 1
    assert proxy.cut_commits == 1
    assert await in_thread(logged, workspaces[0]) == [(1, "a")]


async def test_runs_wait_for_the_database_and_requests_are_refused(
    proxy: TcpProxy, new_writer: NewWriter, workspaces: list[str]
) -> None:
    writer = start(new_writer)
    count = Workspace.objects.count
    assert await read(count) == len(workspaces)
    proxy.set_mode(Mode.REFUSE)
    patient = asyncio.create_task(writer.write(workspaces[0], appending(workspaces[0], "kept")))
    reading = asyncio.create_task(read(count))
    with wait_at_most(0.5), pytest.raises(DatabaseUnreachable):
        await writer.write(workspaces[1], appending(workspaces[1], "refused"))
    with wait_at_most(0.5), pytest.raises(DatabaseUnreachable):
        await read(count)
    assert not patient.done()
    assert not reading.done()
    proxy.set_mode(Mode.PASS)
    async with asyncio.timeout(60):
        assert await patient == 1
        assert await reading == len(workspaces)
    assert await in_thread(logged, workspaces[1]) == []


async def test_a_stop_ends_while_the_database_is_away(
    proxy: TcpProxy, new_writer: NewWriter, workspaces: list[str]
) -> None:
    writer = start(new_writer)
    await writer.write("", lambda tx: None)
    proxy.set_mode(Mode.REFUSE)
    patient = asyncio.create_task(writer.write(workspaces[0], appending(workspaces[0], "lost")))
    await asyncio.sleep(0)
    began = time.monotonic()
    await asyncio.to_thread(writer.stop)
    assert time.monotonic() - began < 30
    with pytest.raises(ShuttingDown):
        await patient


async def test_a_request_whose_write_has_not_begun_is_answered_although_the_database_hangs(
    gate: Gate, workspaces: list[str]
) -> None:
    writer = Writer(hangs_seconds=0.2)
    writer.start(loop=asyncio.get_running_loop())
    ran = threading.Event()
    held = await gate.hold(writer)  # as a statement without an answer would
    async with asyncio.timeout(60):
        with wait_at_most(0.1), pytest.raises(DatabaseUnreachable):
            await writer.write(workspaces[0], lambda tx: ran.set())
    gate.opened.set()
    await held
    await writer.write("", lambda tx: None)
    assert not ran.is_set()
    await asyncio.to_thread(writer.stop)
