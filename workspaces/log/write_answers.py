"""Sends the writer's results to the callers, in their own loops and threads."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
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


class Answers:
    """Answers the writes of each commit and publishes its events, in the order of the commits.

    Wakes the loop once for each commit. First come the callers that wish it: they continue, and may
    send a response, in the turn of the loop before the rooms get the events. The other callers find
    the events in the rooms, which have written them to their readers, each in a later turn.
    """

    def __init__(self, publish: Publish | None, loop: asyncio.AbstractEventLoop | None) -> None:
        self._publish = publish
        self._loop = loop
        # Of commits whose first callers are answered. Used in the loop only.
        self._unpublished: deque[Callable[[], None]] = deque()

    def answer_all(
        self, results: Sequence[tuple[AnsweredWrite, Any]], recorded: Sequence[RecordedEvent]
    ) -> None:
        """Sets each write's value. Call it in the writer's thread."""
        loop = self._loop
        if loop is None or loop.is_closed():
            _resolve(results)
            return

        def answer() -> None:
            first = [result for result in results if result[0].is_answered_first]
            _resolve(first)
            self._unpublished.append(publish_and_resolve)
            if first:
                loop.call_soon(self._publish_all)
            else:
                self._publish_all()

        def publish_and_resolve() -> None:
            try:
                if self._publish is not None and recorded:
                    self._publish(recorded)
            except Exception:
                # The batch is committed: callers must get their values even if publishing failed.
                logger.exception("committed events could not be published")
            _resolve(results)

        if not _call_in(loop, answer):
            _resolve(results)

    def _publish_all(self) -> None:
        while self._unpublished:
            self._unpublished.popleft()()


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
