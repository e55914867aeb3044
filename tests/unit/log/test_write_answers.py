"""Answers reach whoever waits: in a loop, in a thread, or nowhere any more."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from workspaces.log.transaction import RecordedEvent
from workspaces.log.write_answers import AnsweredWrite, Answers, AnyFuture, Publish, answer_error

EVENT = RecordedEvent("w", 1, "run.started", "s", {}, b"{}", 0)


@dataclass
class Asked:
    loop: asyncio.AbstractEventLoop | None
    answer: AnyFuture
    is_answered_first: bool = False


def in_this_loop() -> Asked:
    loop = asyncio.get_running_loop()
    return Asked(loop, loop.create_future())


def from_thread(call: Any, *args: Any, **named: Any) -> None:
    """As the writer's thread calls it; this thread waits meanwhile."""
    thread = threading.Thread(target=call, args=args, kwargs=named)
    thread.start()
    thread.join()


def answer_all(
    results: Sequence[tuple[AnsweredWrite, Any]],
    recorded: Sequence[RecordedEvent],
    *,
    publish: Publish | None,
    loop: asyncio.AbstractEventLoop | None,
) -> None:
    Answers(publish, loop).answer_all(results, recorded)


class OtherLoop:
    """A loop that runs in a thread of its own."""

    def __enter__(self) -> asyncio.AbstractEventLoop:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()
        return self.loop

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


async def test_events_are_published_in_the_loop_before_the_answers() -> None:
    asked, thread = in_this_loop(), Asked(None, Future())
    seen: list[Any] = []

    def publish(recorded: Sequence[RecordedEvent]) -> None:
        seen.append((threading.get_ident(), list(recorded), asked.answer.done()))

    from_thread(
        answer_all,
        [(asked, 5), (thread, 6)],
        [EVENT],
        publish=publish,
        loop=asyncio.get_running_loop(),
    )
    assert seen == []

    assert await asyncio.wait_for(asked.answer, 60) == 5
    assert thread.answer.result(10) == 6
    assert seen == [(threading.get_ident(), [EVENT], False)]


async def test_who_comes_first_continues_before_the_readers() -> None:
    first, last = in_this_loop(), in_this_loop()
    first.is_answered_first = True
    loop = asyncio.get_running_loop()
    seen: list[str] = []

    def publish(_: Sequence[RecordedEvent]) -> None:
        seen.append("the rooms have the events")
        loop.call_soon(seen.append, "the readers have the events")

    async def wait(asked: Asked, name: str) -> None:
        await asked.answer
        seen.append(name)

    waiting = [asyncio.create_task(wait(first, "first")), asyncio.create_task(wait(last, "last"))]
    await asyncio.sleep(0)
    results = [(last, 5), (first, 6)]
    from_thread(answer_all, results, [EVENT], publish=publish, loop=loop)
    await asyncio.gather(*waiting)

    assert seen == ["first", "the rooms have the events", "the readers have the events", "last"]


async def test_commits_are_published_in_their_order_whoever_comes_first() -> None:
    first, last = in_this_loop(), in_this_loop()
    first.is_answered_first = True
    published: list[RecordedEvent] = []
    answers = Answers(published.extend, asyncio.get_running_loop())
    second = replace(EVENT, number=2)

    def answer_both() -> None:
        answers.answer_all([(first, 1)], [EVENT])
        answers.answer_all([(last, 2)], [second])

    from_thread(answer_both)  # both wait for the same turn of the loop
    assert await asyncio.wait_for(asyncio.gather(first.answer, last.answer), 60) == [1, 2]

    assert published == [EVENT, second]


async def test_without_events_nothing_is_published() -> None:
    asked = in_this_loop()
    published: list[Any] = []

    from_thread(
        answer_all,
        [(asked, 5)],
        [],
        publish=published.append,
        loop=asyncio.get_running_loop(),
    )

    assert await asyncio.wait_for(asked.answer, 60) == 5
    assert published == []


async def test_without_a_publisher_answers_come_all_the_same() -> None:
    asked = in_this_loop()
    loop = asyncio.get_running_loop()

    from_thread(answer_all, [(asked, 5)], [EVENT], publish=None, loop=loop)

    assert await asyncio.wait_for(asked.answer, 60) == 5


async def test_without_a_loop_each_is_answered_where_it_waits() -> None:
    closed = asyncio.new_event_loop()
    closed.close()
    for loop in (None, closed):
        asked, thread = in_this_loop(), Asked(None, Future())
        results = [(asked, 5), (thread, 6)]

        from_thread(answer_all, results, [], publish=None, loop=loop)

        assert thread.answer.result(10) == 6
        assert await asyncio.wait_for(asked.answer, 60) == 5


async def test_another_loop_is_answered_in_its_own_thread() -> None:
    with OtherLoop() as other:

        async def ask() -> Asked:
            return in_this_loop()

        asked = asyncio.run_coroutine_threadsafe(ask(), other).result(10)
        threads: list[int] = []
        asked.answer.add_done_callback(lambda _: threads.append(threading.get_ident()))
        loop = asyncio.get_running_loop()
        from_thread(answer_all, [(asked, 5)], [], publish=None, loop=loop)

        async def result() -> Any:
            return await asked.answer

        waiting = asyncio.run_coroutine_threadsafe(result(), other)
        assert await asyncio.wait_for(asyncio.wrap_future(waiting), 60) == 5
        assert threads != [threading.get_ident()]


async def test_who_has_gone_keeps_nobody_else_from_an_answer() -> None:
    gone, asked = in_this_loop(), in_this_loop()
    gone.answer.cancel()
    loop = asyncio.get_running_loop()

    from_thread(answer_all, [(gone, 4), (asked, 5)], [], publish=None, loop=loop)

    assert await asyncio.wait_for(asked.answer, 60) == 5
    assert gone.answer.cancelled()


async def test_an_error_reaches_a_loop_and_a_thread() -> None:
    asked, thread, gone = in_this_loop(), Asked(None, Future()), in_this_loop()
    gone.answer.cancel()
    error = ValueError("no")

    for each in (gone, asked, thread):
        from_thread(answer_error, each, error)

    assert thread.answer.exception(10) is error
    (found,) = await asyncio.gather(asked.answer, return_exceptions=True)
    assert found is error


def test_a_loop_that_closed_meanwhile_harms_nobody() -> None:
    loop = asyncio.new_event_loop()
    future = loop.create_future()
    loop.close()
    thread = Asked(None, Future())

    answer_error(Asked(loop, future), ValueError("no"))
    answer_all([(Asked(loop, future), 1), (thread, 2)], [EVENT], publish=None, loop=loop)

    assert thread.answer.result(10) == 2
    assert not future.done()
