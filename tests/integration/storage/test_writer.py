"""The one writer: batches, numbers, and what becomes of whoever asked."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from django.db import IntegrityError, OperationalError, connection

from agents.actions.holding import LeaseLost
from tests.integration.storage.conftest import NewWriter, logged
from workspaces.models import Event, Workspace
from workspaces.storage.errors import Refusal, SessionUnknown, ShuttingDown, WorkspaceUnknown
from workspaces.storage.transaction import Recorded, Transaction
from workspaces.storage.writer import BATCH_LIMIT, Writer, run_alone


def append(tx: Transaction, workspace_id: str, name: str) -> int:
    return tx.append(workspace_id, "test.appended", {"name": name}, session_id=name)


def appending(workspace_id: str, name: str) -> Callable[[Transaction], int]:
    return partial(append, workspace_id=workspace_id, name=name)


class Gate:
    """A job that holds the writer until it is opened, so that a batch gathers."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.opened = threading.Event()

    def __call__(self, tx: Transaction) -> None:
        self.entered.set()
        assert self.opened.wait(20)

    async def hold(self, writer: Writer) -> asyncio.Task[None]:
        task = asyncio.create_task(writer.write("", self))
        await asyncio.to_thread(self.entered.wait, 20)
        return task


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.opened.set()


async def gathered(writer: Writer, gate: Gate, jobs: Sequence[tuple[str, Any]]) -> list[Any]:
    """The answers to jobs that were all asked while the writer was busy."""
    held = await gate.hold(writer)
    tasks = [asyncio.create_task(writer.write(workspace, job)) for workspace, job in jobs]
    await asyncio.sleep(0)  # each has asked now
    gate.opened.set()
    await held
    return await asyncio.gather(*tasks, return_exceptions=True)


def start(new_writer: NewWriter, told: list[Recorded] | None = None) -> Writer:
    writer = new_writer()
    publish = told.extend if told is not None else None
    writer.start(publish=publish, loop=asyncio.get_running_loop())
    return writer


async def in_thread(query: Callable[..., Any], *args: Any) -> Any:
    def run() -> Any:
        try:
            return query(*args)
        finally:
            connection.close()

    return await asyncio.to_thread(run)


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
    batches: list[Any] = []

    def mark(tx: Transaction) -> None:
        if all(tx._counters is not seen for seen in batches):
            batches.append(tx._counters)  # kept, so that no other gets its place

    await gathered(writer, gate, [("", mark)] * (2 * BATCH_LIMIT + 1))

    assert len(batches) == 3


@pytest.mark.parametrize("place", [0, 7, 19])
async def test_a_failing_job_fails_alone(
    new_writer: NewWriter, gate: Gate, workspaces: list[str], place: int
) -> None:
    told: list[Recorded] = []
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

    async with asyncio.timeout(20):
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
    told: list[Recorded] = []
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
    tries: list[int] = []

    def locked_at_first(tx: Transaction) -> str:
        tries.append(1)
        if len(tries) < 3:
            raise OperationalError("database is locked")
        return "done"

    assert await writer.write("", locked_at_first) == "done"


async def test_numbers_have_no_gaps_under_two_thousand_writes(
    new_writer: NewWriter, workspaces: list[str]
) -> None:
    told: list[Recorded] = []
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
    told: list[Recorded] = []
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
    def publish(recorded: Sequence[Recorded]) -> None:
        raise ValueError("no subscriber can be told")

    writer = new_writer()
    writer.start(publish=publish, loop=asyncio.get_running_loop())

    async with asyncio.timeout(20):
        assert await writer.write(workspaces[0], appending(workspaces[0], "a")) == 1

    assert "could not be published" in caplog.text


async def test_a_job_is_carried_out_though_its_caller_is_gone(
    new_writer: NewWriter, gate: Gate, workspaces: list[str]
) -> None:
    told: list[Recorded] = []
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


def test_one_job_alone_returns_its_events(workspaces: list[str]) -> None:
    value, recorded = run_alone(workspaces[0], appending(workspaces[0], "a"))

    assert value == 1
    assert [event.number for event in recorded] == [1]


def test_a_job_sees_the_number_that_its_next_event_gets(workspaces: list[str]) -> None:
    def twice(tx: Transaction) -> list[int]:
        return [
            tx.next_number(workspaces[0]),
            append(tx, workspaces[0], "a"),
            tx.next_number(workspaces[0]),
        ]

    assert run_alone(workspaces[0], twice)[0] == [1, 1, 2]


def test_a_payload_that_is_no_json_fails_and_leaves_nothing(workspaces: list[str]) -> None:
    with pytest.raises(TypeError):
        run_alone(workspaces[0], appending(workspaces[0], "\ud800"))

    assert logged(workspaces[0]) == []


def test_a_job_reads_and_counts_rows(workspaces: list[str]) -> None:
    def look(tx: Transaction) -> tuple[int, int]:
        found = tx.fetch("SELECT id FROM workspaces_workspace WHERE data_dir = %s", ["/data"])
        return len(found), tx.execute("UPDATE workspaces_workspace SET debug = %s", [True])

    assert run_alone("", look)[0] == (20, 20)
