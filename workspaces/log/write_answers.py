"""Sends the writer's results to the callers, in their own loops and threads."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from workspaces.log.blocked_writes import QueuedWrite
from workspaces.log.errors import DatabaseUnreachable
from workspaces.log.transaction import RecordedEvent

logger = logging.getLogger(__name__)

Publish = Callable[[Sequence[RecordedEvent]], None]
AnyFuture = asyncio.Future[Any] | Future[Any]


class AnsweredWrite(Protocol):
    """A write whose caller waits for the value."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None: ...

    @property
    def answer(self) -> AnyFuture: ...

    @property
    def is_answered_first(self) -> bool: ...


def answer_all(
    results: Sequence[tuple[AnsweredWrite, Any]],
    recorded: Sequence[RecordedEvent],
    *,
    publish: Publish | None,
    loop: asyncio.AbstractEventLoop | None,
) -> None:
    """Publishes in ``loop`` and sets each write's value.

    Wakes the loop once for the whole batch. Rooms have the events when a caller in this loop
    continues, in a later turn of the loop. They write them to their readers in a later turn, too:
    first come the callers that wish it, then the readers, then the other callers.
    """
    if loop is None or loop.is_closed():
        _resolve(results)
        return

    def publish_and_resolve() -> None:
        _resolve([result for result in results if result[0].is_answered_first])
        try:
            if publish is not None and recorded:
                publish(recorded)
        except Exception:
            # The batch is committed: callers must get their values even if publishing failed.
            logger.exception("committed events could not be published")
        _resolve(results)

    if not _call_in(loop, publish_and_resolve):
        _resolve(results)


def answer_error(write: AnsweredWrite, error: Exception) -> None:
    def set_exception() -> None:
        if not write.answer.done():
            write.answer.set_exception(error)

    if write.loop is None:
        set_exception()
    else:
        _call_in(write.loop, set_exception)


def _resolve(results: Sequence[tuple[AnsweredWrite, Any]]) -> None:
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
    """Wraps errors that a future rejects (``StopIteration``) or that would exit the caller."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    wrapped = RuntimeError(f"a write failed: {type(error).__name__}")
    wrapped.__cause__ = error
    return wrapped


HANGS_SECONDS = 10.0  # after the deadline


class WaitingRequests:
    def __init__(self, gate: threading.Lock, *, hangs_seconds: float) -> None:
        """``gate`` guards ``is_begun`` and ``is_withdrawn`` of all writes."""
        self._gate = gate
        self._hangs_seconds = hangs_seconds
        self._writes: set[QueuedWrite[Any]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, loop: asyncio.AbstractEventLoop | None) -> None:
        self._loop, self._timer = loop, None
        self._writes.clear()

    def add(self, write: QueuedWrite[Any]) -> None:
        self._writes.add(write)
        if self._timer is None and self._loop is not None:
            # One timer for all writes: one for each would cost more than the rest of a write.
            seconds = min(self._hangs_seconds, 1.0)
            self._timer = self._loop.call_later(seconds, self._look)

    def discard(self, write: QueuedWrite[Any]) -> None:
        self._writes.discard(write)

    def _look(self) -> None:
        now = time.monotonic()
        self._timer = None
        for write in list(self._writes):
            if write.until is not None and now >= write.until + self._hangs_seconds:
                self._withdraw(write)
            else:
                self.add(write)

    def _withdraw(self, write: QueuedWrite[Any]) -> None:
        """Fails a write that has not begun; one that has begun may still be committed."""
        with self._gate:
            if write.is_begun or write.answer.done():
                return
            write.is_withdrawn = True
        write.answer.set_exception(DatabaseUnreachable())
