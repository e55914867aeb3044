"""A job that fails fails alone, and is told its own error."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from django.db import IntegrityError, OperationalError

from agents.runs.lease import LeaseLost
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
from workspaces.backoff import FIRST_SECONDS
from workspaces.log.commits import RETRIES
from workspaces.log.errors import Refusal, SessionUnknown, WorkspaceUnknown
from workspaces.log.transaction import RecordedEvent, Transaction
from workspaces.models import Workspace


@pytest.mark.parametrize("place", [0, 7, 19])
async def test_a_failing_job_fails_alone(
    new_writer: NewWriter, gate: Gate, workspaces: list[str], place: int
) -> None:
    told: list[RecordedEvent] = []
    writer = start(new_writer, told)
    jobs: list[tuple[str, Any]] = [(w, appending(w, "kept")) for w in workspaces]

    def fail(tx: Transaction) -> None:
        append(tx, workspaces[place], "lost")
        tx.execute("UPDATE workspaces_workspace SET path = 'x' WHERE id = %s", [workspaces[place]])
        raise SessionUnknown

    jobs.insert(place, (workspaces[place], fail))
    answers = await gathered(writer, gate, jobs)

    assert isinstance(answers.pop(place), SessionUnknown)
    assert answers == [1] * len(workspaces)
    for workspace in workspaces:
        assert await in_thread(logged, workspace) == [(1, "kept")]
    assert [event.session_id for event in told] == ["kept"] * len(workspaces)
    assert not await in_thread(Workspace.objects.filter(path="x").exists)


async def test_many_failing_jobs_are_each_told_their_own_error(
    new_writer: NewWriter, gate: Gate, workspaces: list[str]
) -> None:
    writer = start(new_writer)
    workspace = workspaces[0]

    def refuse(tx: Transaction, number: int) -> None:
        raise Refusal(f"refused {number}")

    jobs: list[tuple[str, Any]] = []
    for number in range(100):
        refused = number % 3 == 0
        jobs.append(
            (
                workspace,
                partial(refuse, number=number) if refused else appending(workspace, str(number)),
            )
        )
    answers = await gathered(writer, gate, jobs)

    refusals = {n: str(a) for n, a in enumerate(answers) if isinstance(a, Exception)}
    assert refusals == {number: f"refused {number}" for number in range(0, 100, 3)}
    kept = [str(number) for number in range(100) if number % 3]
    assert [name for _, name in await in_thread(logged, workspace)] == kept


async def test_an_unknown_workspace_fails_alone(
    new_writer: NewWriter, gate: Gate, workspaces: list[str]
) -> None:
    writer = start(new_writer)

    answers = await gathered(
        writer,
        gate,
        [("nowhere", appending("nowhere", "a")), (workspaces[0], appending(workspaces[0], "b"))],
    )

    assert isinstance(answers[0], WorkspaceUnknown)
    assert answers[1] == 1


async def test_a_broken_constraint_is_told_to_the_one_who_broke_it(
    new_writer: NewWriter, workspaces: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    writer = start(new_writer)

    def collide(tx: Transaction) -> None:
        tx.execute(
            "UPDATE workspaces_workspace SET path = '/project/1' WHERE id = %s", [workspaces[0]]
        )

    with pytest.raises(IntegrityError):
        await writer.write(workspaces[0], collide)

    assert await writer.write(workspaces[0], appending(workspaces[0], "after")) == 1
    assert "a write failed" in caplog.text


@pytest.mark.parametrize("error", [StopIteration("x"), SystemExit(3), asyncio.CancelledError()])
async def test_no_error_of_a_job_ends_the_writer_or_its_caller(
    new_writer: NewWriter, error: BaseException
) -> None:
    writer = start(new_writer)

    def fail(tx: Transaction) -> None:
        raise error

    async with asyncio.timeout(60):
        with pytest.raises(RuntimeError, match=f"a write failed: {type(error).__name__}"):
            await writer.write("", fail)
        assert await writer.write("", lambda tx: 5) == 5


async def test_a_refusal_is_not_logged_as_a_fault(
    new_writer: NewWriter, caplog: pytest.LogCaptureFixture
) -> None:
    writer = start(new_writer)

    with pytest.raises(WorkspaceUnknown):
        await writer.write("nowhere", lambda tx: None)

    assert not [record for record in caplog.records if record.levelno > logging.INFO]


async def test_a_job_that_comes_too_late_is_not_logged_as_a_fault(
    new_writer: NewWriter, caplog: pytest.LogCaptureFixture
) -> None:
    writer = start(new_writer)

    def lose(tx: Transaction) -> None:
        raise LeaseLost

    with pytest.raises(LeaseLost):
        await writer.write("", lose)

    assert not [record for record in caplog.records if record.levelno > logging.INFO]


async def test_a_job_may_run_again_and_counts_once(
    new_writer: NewWriter, gate: Gate, workspaces: list[str]
) -> None:
    told: list[RecordedEvent] = []
    writer = start(new_writer, told)
    tries: Counter[str] = Counter()
    workspace = workspaces[0]

    def counted(tx: Transaction, name: str) -> int:
        tries[name] += 1
        return append(tx, workspace, name)

    def fail(tx: Transaction) -> None:
        raise SessionUnknown

    names = [str(number) for number in range(8)]
    jobs: list[tuple[str, Any]] = [(workspace, partial(counted, name=name)) for name in names]
    answers = await gathered(writer, gate, [*jobs, (workspace, fail)])

    assert max(tries.values()) > 1
    assert answers[:-1] == list(range(1, 9))
    assert await in_thread(logged, workspace) == [(n + 1, name) for n, name in enumerate(names)]
    assert [event.session_id for event in told] == names


async def test_a_job_that_was_in_anothers_way_is_tried_again(new_writer: NewWriter) -> None:
    writer = start(new_writer)
    tries: list[float] = []

    def locked_at_first(tx: Transaction) -> str:
        tries.append(time.monotonic())
        if len(tries) < 3:
            raise OperationalError("database is locked")
        return "done"

    assert await writer.write("", locked_at_first) == "done"
    assert all(after - before >= 0.75 * FIRST_SECONDS for before, after in pairwise(tries))


@pytest.mark.parametrize("failing", [1, 2])
async def test_an_error_that_nothing_is_known_about_may_pass_and_is_told_when_it_stays(
    new_writer: NewWriter, failing: int
) -> None:
    writer = start(new_writer)
    tries: list[int] = []

    def fail(tx: Transaction, times: int) -> str:
        tries.append(1)
        if len(tries) <= times:
            raise OperationalError("nobody knows")
        return "done"

    assert await writer.write("", partial(fail, times=failing)) == "done"

    tries.clear()
    with pytest.raises(OperationalError, match="nobody knows"):
        await writer.write("", partial(fail, times=99))
    assert len(tries) == RETRIES


async def test_only_an_error_of_the_database_is_worth_a_second_try(
    new_writer: NewWriter, gate: Gate
) -> None:
    writer = start(new_writer)
    tries: list[str] = []

    def fail(tx: Transaction, error: Exception) -> None:
        tries.append(type(error).__name__)
        raise error

    with pytest.raises(ValueError, match="a mistake"):
        await writer.write("", partial(fail, error=ValueError("a mistake")))
    assert tries == ["ValueError"]

    # In a batch it is not known whose error it is: the job is tried alone first.
    jobs = [("", partial(fail, error=OperationalError("x"))), ("", lambda tx: 5)]
    answers = await gathered(writer, gate, jobs)
    assert isinstance(answers[0], OperationalError)
    assert answers[1] == 5
    assert tries.count("OperationalError") == 1 + RETRIES
