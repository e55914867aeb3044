"""When a model is asked again, and after what pause.

The policy is pure; ``stream_with_retries`` performs it with a given sleep. The
reply of a try that failed is void: ``Restarted`` says so before the next begins.
"""

from __future__ import annotations

import asyncio
import random as _random
from collections.abc import AsyncGenerator, Awaitable, Callable

from agents.llm.contract import ModelEvent, ModelRequest, Provider, Restarted, Stopped
from agents.llm.errors import BrokenStream, ModelError

MOST_TRIES = 6
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
LONGEST_RETRY_AFTER_SECONDS = 120.0  # who asks for more is told to the user instead


def delay_before_retry(
    error: ModelError, attempt: int, random: Callable[[], float]
) -> float | None:
    """Seconds until the next try, ``None`` to give up.

    ``attempt`` counts the tries that failed, from 1; ``random`` draws from 0 to 1.
    The pauses double, each between half and the whole of its length, so that many
    runs that failed together do not return together. A provider's Retry-After is
    the least, never shortened.
    """
    if not error.retryable or attempt >= MOST_TRIES:
        return None
    longest = min(FIRST_PAUSE_SECONDS * 2.0 ** (attempt - 1), LONGEST_PAUSE_SECONDS)
    pause = longest * (0.5 + random() / 2)
    if error.retry_after is None:
        return pause
    if error.retry_after > LONGEST_RETRY_AFTER_SECONDS:
        return None
    return error.retry_after + pause if error.retry_after else pause


async def stream_with_retries(
    provider: Provider,
    request: ModelRequest,
    *,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    random: Callable[[], float] = _random.random,
) -> AsyncGenerator[list[ModelEvent], None]:
    """Ends with ``Stopped`` or raises the last try's ``ModelError``.

    Before each pause it yields ``[Restarted]``: what came before is void.
    """
    attempt = 0
    while True:
        stream = provider.stream(request)
        try:
            # One loop and no generator around this one: each word passes here.
            async for batch in stream:
                yield batch
                if batch and type(batch[-1]) is Stopped:
                    return  # nothing comes after it
            raise BrokenStream
        except ModelError as error:
            attempt += 1
            delay = delay_before_retry(error, attempt, random)
            if delay is None:
                raise
            restarted = Restarted(attempt + 1, error.sentence, delay)
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()
        yield [restarted]
        await sleep(delay)
