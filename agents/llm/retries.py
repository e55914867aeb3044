"""Retries a model request, with pauses.

The policy is pure; ``stream_with_retries`` applies it with a given sleep. The
reply of a failed attempt is void: ``Restarted`` precedes the next attempt.
"""

from __future__ import annotations

import asyncio
import random as _random
from collections.abc import AsyncGenerator, Awaitable, Callable

from agents.llm.contract import ModelEvent, ModelRequest, Provider, Restarted, Stopped
from agents.llm.errors import BrokenStream, ModelError
from workspaces.backoff import pause_after

MOST_TRIES = 6
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
LONGEST_RETRY_AFTER_SECONDS = 120.0  # a longer one is reported to the user instead


def delay_before_retry(
    error: ModelError, attempt: int, random: Callable[[], float]
) -> float | None:
    """Returns the seconds until the next attempt, or ``None`` to give up.

    ``attempt`` counts the failed attempts, from 1; ``random`` returns a number from 0 to 1.
    Pauses double. Each lasts between half and all of its length, so that runs that
    failed together do not retry together. A pause is never shorter than the provider's
    Retry-After.
    """
    if not error.retryable or attempt >= MOST_TRIES:
        return None
    longest = pause_after(
        attempt, first_seconds=FIRST_PAUSE_SECONDS, limit_seconds=LONGEST_PAUSE_SECONDS
    )
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
    """Yields batches of events; ends with ``Stopped`` or raises the last ``ModelError``.

    Before each pause it yields ``[Restarted]``: the events before it are void.
    """
    attempt = 0
    while True:
        stream = provider.stream(request)
        try:
            # One plain loop without a wrapping generator: every event passes here.
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
