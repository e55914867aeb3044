"""The one writer commits what gathers together, and numbers it without gaps."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from tests.integration.log.writing import (
    Gate,
    NewWriter,
    append,
    appending,
    gathered,
    in_thread,
    logged,
    start,
)
from workspaces.log.errors import SessionUnknown
from workspaces.log.transaction import RecordedEvent, Transaction
from workspaces.log.writer import BATCH_LIMIT
from workspaces.models import Event


async def test_it_returns_the_jobs_value_after_the_commit(
    new_writer: NewWriter, workspaces: list[str]
) -> None:
    writer = start(new_writer)

    number = await writer.write(workspaces[0], appending(workspaces[0], "a"))

    assert number == 1
    assert await in_thread(logged, workspaces[0]) == [(1, "a")]


async def test_what_gathers_is_committed_together(
    new_writer: NewWriter, gate: Gate, workspaces: list[str]
) -> None:
    writer = start(new_writer)
    marks: list[int] = []

    def mark(tx: Transaction) -> None:
        marks.append(id(tx._counters))  # one object a batch

    answers = await gathered(writer, gate, [(workspace, mark) for workspace in workspaces])

    assert answers == [None] * len(workspaces)
    assert len(marks) == len(workspaces)
    assert len(set(marks)) == 1


async def test_a_batch_has_a_limit(new_writer: NewWriter, gate: Gate) -> None:
    writer = start(new_writer)
    batches: list[tuple[Any, int]] = []  # kept, so that no other gets its place

    def mark(tx: Transaction) -> None:
        if not batches or batches[-1][0] is not tx._counters:
            batches.append((tx._counters, 0))
        batches[-1] = tx._counters, batches[-1][1] + 1

    await gathered(writer, gate, [("", mark)] * (2 * BATCH_LIMIT + 1))

    sizes = [size for _, size in batches]
    assert sum(sizes) == 2 * BATCH_LIMIT + 1
    assert max(sizes) <= BATCH_LIMIT
    assert sizes[0] > 1


async def test_numbers_have_no_gaps_under_two_thousand_writes(
    new_writer: NewWriter, workspaces: list[str]
) -> None:
    told: list[RecordedEvent] = []
    writer = start(new_writer, told)

    def refuse_odd(tx: Transaction, workspace: str, number: int) -> int:
        given = append(tx, workspace, str(number))
        if number % 97 == 0:
            raise SessionUnknown
        return given

    async def ask(number: int) -> tuple[str, int | None]:
        workspace = workspaces[number % 20]
        job = partial(refuse_odd, workspace=workspace, number=number)
        try:
            if number % 50 == 1:
                return workspace, await asyncio.to_thread(writer.write_and_wait, workspace, job)
            return workspace, await writer.write(workspace, job)
        except SessionUnknown:
            return workspace, None

    answers = await asyncio.gather(*(ask(number) for number in range(2000)))

    refused = len(range(0, 2000, 97))
    numbers = [answer for answer in answers if answer[1] is not None]
    assert len(numbers) == len(set(numbers)) == 2000 - refused
    assert len(told) == 2000 - refused
    for workspace in workspaces:
        rows = await in_thread(logged, workspace)
        ours = [event for event in told if event.workspace_id == workspace]
        assert [(event.number, event.session_id) for event in ours] == rows
        assert sorted(number for where, number in numbers if where == workspace) == [
            n for n, _ in rows
        ]


async def test_two_writers_share_one_count(new_writer: NewWriter, workspaces: list[str]) -> None:
    writers = [start(new_writer), start(new_writer)]
    workspace = workspaces[0]

    numbers = await asyncio.gather(
        *(writers[n % 2].write(workspace, appending(workspace, str(n))) for n in range(200))
    )

    assert sorted(numbers) == list(range(1, 201))
    assert len(await in_thread(logged, workspace)) == 200


async def test_events_are_told_before_the_answer_and_as_they_are_stored(
    new_writer: NewWriter, workspaces: list[str]
) -> None:
    told: list[RecordedEvent] = []
    writer = start(new_writer, told)

    await writer.write(workspaces[0], appending(workspaces[0], "a"))

    stored = await in_thread(Event.objects.get)
    (event,) = told
    assert (event.workspace_id, event.number, event.kind) == (workspaces[0], 1, "test.appended")
    assert event.payload_json.decode() == stored.payload == '{"name":"a"}'
    assert event.created_at == stored.created_at


async def test_an_answer_comes_though_telling_others_fails(
    new_writer: NewWriter, workspaces: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    def publish(recorded: Sequence[RecordedEvent]) -> None:
        raise ValueError("no subscriber can be told")

    writer = new_writer()
    writer.start(publish=publish, loop=asyncio.get_running_loop())

    async with asyncio.timeout(60):
        assert await writer.write(workspaces[0], appending(workspaces[0], "a")) == 1

    assert "could not be published" in caplog.text


async def test_a_job_is_carried_out_though_its_caller_is_gone(
    new_writer: NewWriter, gate: Gate, workspaces: list[str]
) -> None:
    told: list[RecordedEvent] = []
    writer = start(new_writer, told)
    held = await gate.hold(writer)
    task = asyncio.create_task(writer.write(workspaces[0], appending(workspaces[0], "a")))
    failing = asyncio.create_task(writer.write("nowhere", appending("nowhere", "b")))
    await asyncio.sleep(0)
    task.cancel()
    failing.cancel()
    await asyncio.gather(task, failing, return_exceptions=True)
    gate.opened.set()
    await held
    await writer.write(workspaces[0], lambda tx: None)  # behind it in its workspace's order

    assert task.cancelled()
    assert await in_thread(logged, workspaces[0]) == [(1, "a")]
    assert [event.session_id for event in told] == ["a"]


async def test_a_batch_locks_workspaces_in_the_same_order_in_every_process(
    new_writer: NewWriter, gate: Gate, workspaces: list[str]
) -> None:
    """Two batches that lock in different orders would wait for each other."""
    writer = start(new_writer)
    ran: list[tuple[str, int]] = []
    asked = [workspaces[place] for place in (7, 3, 11, 3, 7, 0)]
    jobs = [
        (workspace, lambda tx, mark=(workspace, place): ran.append(mark))
        for place, workspace in enumerate(asked)
    ]

    await gathered(writer, gate, jobs)

    assert ran == sorted(ran)  # those of one workspace stay in the order of their requests
    assert len(ran) == len(asked)


async def test_a_caller_that_was_cancelled_keeps_nobody_else_waiting(
    new_writer: NewWriter, gate: Gate, workspaces: list[str]
) -> None:
    writer = start(new_writer)
    held = await gate.hold(writer)
    tasks = [
        asyncio.create_task(writer.write(workspace, appending(workspace, "a")))
        for workspace in sorted(workspaces)
    ]
    await asyncio.sleep(0)  # each has asked now
    tasks[3].cancel()
    gate.opened.set()

    async with asyncio.timeout(60):
        await held
        answers = await asyncio.gather(*tasks, return_exceptions=True)

    assert isinstance(answers.pop(3), asyncio.CancelledError)
    assert answers == [1] * (len(workspaces) - 1)
    cancelled = sorted(workspaces)[3]
    assert await in_thread(logged, cancelled) == [(1, "a")]  # it was carried out all the same
