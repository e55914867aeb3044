"""Hands the writer's results to those who wait for them, in their own loops and threads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from workspaces.log.transaction import Recorded

logger = logging.getLogger(__name__)

Publish = Callable[[Sequence[Recorded]], None]
AnyFuture = asyncio.Future[Any] | Future[Any]


class Answered(Protocol):
    """A write of which somebody awaits the value."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None: ...

    @property
    def answer(self) -> AnyFuture: ...


def answer_all(
    results: Sequence[tuple[Answered, Any]],
    recorded: Sequence[Recorded],
    *,
    publish: Publish | None,
    loop: asyncio.AbstractEventLoop | None,
) -> None:
    """Publishes in ``loop`` and then sets each write's value.

    One wake-up of the loop for the whole batch. First the events, so that whoever awaited a
    write finds it already published.
    """
    if loop is None or loop.is_closed():
        _resolve(results)
        return

    def publish_and_resolve() -> None:
        try:
            if publish is not None and recorded:
                publish(recorded)
        except Exception:
            # It is committed: whoever asked must not wait because telling others failed.
            logger.exception("committed events could not be published")
        _resolve(results)

    if not _call_in(loop, publish_and_resolve):
        _resolve(results)


def answer_error(write: Answered, error: Exception) -> None:
    def set_exception() -> None:
        if not write.answer.done():
            write.answer.set_exception(error)

    if write.loop is None:
        set_exception()
    else:
        _call_in(write.loop, set_exception)


def _resolve(results: Sequence[tuple[Answered, Any]]) -> None:
    for write, value in results:
        if write.answer.done():
            continue
        if write.loop is None or write.loop is _running_loop():
            write.answer.set_result(value)
        else:
            _call_in(write.loop, _setter(write.answer, value))


def _setter(answer: AnyFuture, value: Any) -> Callable[[], None]:
    def set_result() -> None:
        if not answer.done():
            answer.set_result(value)

    return set_result


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _call_in(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> bool:
    try:
        loop.call_soon_threadsafe(call)
    except RuntimeError:
        logger.debug("the loop that waited is closed")
        return False
    return True


def as_exception(error: BaseException) -> Exception:
    """A future takes no ``StopIteration``, and a job's exit is not its caller's."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    wrapped = RuntimeError(f"a write failed: {type(error).__name__}")
    wrapped.__cause__ = error
    return wrapped
