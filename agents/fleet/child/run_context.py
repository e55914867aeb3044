"""One run as its executor sees it: its assignment, its way to the parent, and back.

Nothing that is sent is kept here: when the parent does not read, ``emit`` waits,
so that the executor is held back and not the memory filled. A cancel reaches the
executor all the same.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import Awaitable
from typing import Any, Protocol, TypeVar

from agents.fleet.wire import ApprovalRequest, RunFrame, write_event, write_frame

T = TypeVar("T")

FRAME_LIMIT = 16 * 1024 * 1024  # the other end drops the connection at more
MESSAGES_LIMIT = 64 * 1024 * 1024  # characters that wait for an executor
MESSAGE_COST = 64  # of an empty one
BREATH = 16  # events between two looks at what the parent says


class RunCancelled(Exception):
    """The parent has cancelled this run, superseded it, or gone."""


class FrameOverLimit(ValueError):
    """What is to be sent does not fit into one frame."""


class InboxFull(Exception):
    """More messages wait than any executor would read."""


class ParentLine(Protocol):
    """A connection to the parent, as far as sending goes."""

    @property
    def has_room(self) -> bool: ...

    def write(self, payload: bytes) -> None:
        """Sends one text message, behind what was sent before. Never blocks or raises."""

    async def wait_for_room(self) -> None:
        """Returns when there is room again, or nobody to send to."""


class RunContext:
    def __init__(self, run: RunFrame, line: ParentLine) -> None:
        self.run = run
        self._line = line
        self._tripped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._messages: deque[str] = deque()
        self._waiting_size = 0
        self._message_came = asyncio.Event()
        self._approvals: dict[str, asyncio.Future[bool]] = {}
        self._emitted = 0

    # -- for the executor

    @property
    def is_cancelled(self) -> bool:
        return self._tripped.done()

    async def emit(self, event: Any) -> None:
        """Sends one event. Raises ``RunCancelled``, ``FrameTooLarge``."""
        await self._send(write_event(event))
        self._emitted += 1
        if self._emitted % BREATH == 0:
            await asyncio.sleep(0)

    async def approve(self, body: Any) -> bool:
        """The parent's answer, however long it takes. Raises ``RunCancelled``."""
        request_id = f"sa-{uuid.uuid4()}"
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._approvals[request_id] = answer
        try:
            await self._send(write_frame(ApprovalRequest(request_id, body)))
            return await self.unless_cancelled(answer)
        finally:
            del self._approvals[request_id]

    async def next_message(self) -> str:
        """What the parent says meanwhile, in order. Raises ``RunCancelled``."""
        while not self._messages:
            self._message_came.clear()
            await self.unless_cancelled(self._message_came.wait())
        text = self._messages.popleft()
        self._waiting_size -= len(text) + MESSAGE_COST
        return text

    def take_messages(self) -> list[str]:
        """Those that are there already."""
        taken = list(self._messages)
        self._messages.clear()
        self._waiting_size = 0
        return taken

    @property
    def has_messages(self) -> bool:
        return bool(self._messages)

    async def sleep(self, seconds: float) -> None:
        """Raises ``RunCancelled``."""
        await self.unless_cancelled(asyncio.sleep(seconds))

    async def _send(self, payload: bytes) -> None:
        sendable(payload)
        if not self._line.has_room:
            await self.unless_cancelled(self._line.wait_for_room())
        if self._tripped.done():
            raise RunCancelled
        self._line.write(payload)

    async def unless_cancelled(self, work: Awaitable[T]) -> T:
        """Its value; the work is cancelled with the run. Raises ``RunCancelled``."""
        task = asyncio.ensure_future(work)
        try:
            if not self._tripped.done():
                await first_of(task, self._tripped)
            if task.done():
                return task.result()
            raise RunCancelled
        finally:
            if not task.done():
                task.cancel()

    # -- for the conversation

    @property
    def tripped(self) -> asyncio.Future[None]:
        """Done when the run is to end. Not to be cancelled by whoever waits for it."""
        return self._tripped

    def trip(self) -> None:
        """Nothing more is sent from here. Callable often."""
        if not self._tripped.done():
            self._tripped.set_result(None)

    def put_message(self, text: str) -> None:
        """Raises ``InboxFull``."""
        size = len(text) + MESSAGE_COST
        if self._waiting_size + size > MESSAGES_LIMIT:
            raise InboxFull
        self._waiting_size += size
        self._messages.append(text)
        self._message_came.set()

    def answer(self, request_id: str, *, approved: bool) -> None:
        """The first one counts; an unknown id is ignored."""
        waiting = self._approvals.get(request_id)
        if waiting is not None and not waiting.done():
            waiting.set_result(approved)


async def first_of(*futures: asyncio.Future[Any], seconds: float | None = None) -> None:
    """Returns when one of them is done. Neither cancels nor reads them."""
    await asyncio.wait(futures, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)


def sendable(payload: bytes) -> bytes:
    """Raises ``FrameTooLarge``."""
    if len(payload) > FRAME_LIMIT:
        raise FrameOverLimit("What is to be sent is larger than one frame may be.")
    return payload
