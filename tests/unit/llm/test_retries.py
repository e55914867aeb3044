from collections.abc import AsyncIterator

import pytest

from agents.llm.contract import ModelEvent, ModelRequest, Restarted, Stopped, TextDelta
from agents.llm.errors import BrokenStream, ModelError, Overloaded, RateLimited, WrongKey
from agents.llm.retries import MOST_TRIES, delay_before_retry, stream_with_retries
from tests.doubles.conversation import request, user
from workspaces.log.parts import FinishReason

DONE = Stopped(FinishReason.END_TURN)


class Scripted:
    """Each try gives its batches; an error among them is raised."""

    def __init__(self, *tries: list[ModelEvent | ModelError]) -> None:
        self.tries = list(tries)
        self.closed = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[list[ModelEvent]]:
        try:
            for item in self.tries.pop(0):
                if isinstance(item, ModelError):
                    raise item
                yield [item]
        finally:
            self.closed += 1


async def play(*tries: list[ModelEvent | ModelError]) -> tuple[list[ModelEvent], list[float]]:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    provider, events = Scripted(*tries), []
    stream = stream_with_retries(provider, request(user("x")), sleep=sleep, random=lambda: 1.0)
    async for batch in stream:
        events += batch
    assert provider.closed == len(tries)
    return events, slept


async def test_a_reply_that_succeeds_is_passed_on() -> None:
    assert await play([TextDelta("a"), DONE]) == ([TextDelta("a"), DONE], [])


async def test_a_broken_reply_is_declared_void_and_begun_again() -> None:
    events, slept = await play([TextDelta("a"), BrokenStream("cut")], [TextDelta("b"), DONE])
    assert events == [TextDelta("a"), Restarted(2, "cut", 0.5), TextDelta("b"), DONE]
    assert slept == [0.5]


async def test_pauses_grow_until_it_gives_up_with_the_last_error() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    provider = Scripted(*([Overloaded(str(number))] for number in range(MOST_TRIES)))
    stream = stream_with_retries(provider, request(user("x")), sleep=sleep, random=lambda: 1.0)
    with pytest.raises(Overloaded, match=r"^5$"):
        async for _ in stream:
            pass
    assert slept == [0.5, 1, 2, 4, 8]
    assert provider.tries == []


async def test_what_cannot_pass_is_not_tried_again() -> None:
    with pytest.raises(WrongKey):
        await play([WrongKey("no")])


async def test_a_stream_that_ends_without_its_end_is_broken() -> None:
    events, _ = await play([TextDelta("a")], [DONE])
    assert events == [TextDelta("a"), Restarted(2, str(BrokenStream()), 0.5), DONE]


async def test_nothing_is_read_behind_the_end() -> None:
    assert await play([DONE, TextDelta("late")]) == ([DONE], [])


async def test_closing_it_closes_the_providers_stream() -> None:
    provider = Scripted([TextDelta("a"), DONE])
    stream = stream_with_retries(provider, request(user("x")))
    async for _ in stream:
        break
    await stream.aclose()  # type: ignore[attr-defined]
    assert provider.closed == 1


def test_a_pause_lies_between_half_and_the_whole_of_its_length() -> None:
    assert delay_before_retry(Overloaded(), 3, lambda: 0.0) == 1.0
    assert delay_before_retry(Overloaded(), 3, lambda: 1.0) == 2.0


def test_a_providers_wish_is_the_least() -> None:
    wished = RateLimited(retry_after=10.0)
    assert delay_before_retry(wished, 1, lambda: 1.0) == 10.5
    assert delay_before_retry(RateLimited(retry_after=0.0), 1, lambda: 1.0) == 0.5


def test_a_wish_beyond_the_bound_is_told_instead_of_kept() -> None:
    assert delay_before_retry(RateLimited(retry_after=121.0), 1, lambda: 1.0) is None
