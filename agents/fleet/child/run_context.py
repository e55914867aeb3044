"""One run as its executor sees it: the assignment, and messages to and from the parent.

Sent frames are not queued here: if the parent does not read, ``emit`` waits, so that
the executor slows down and memory stays bounded. A cancel still reaches the executor.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import Awaitable
from typing import Any, Protocol, TypeVar

from agents.fleet.wire.codec import write_event, write_frame
from agents.fleet.wire.frames import ApprovalRequest, RunFrame
from workspaces.tasks import unless_set

T = TypeVar("T")

FRAME_LIMIT = 16 * 1024 * 1024  # the other end drops the connection beyond it
MESSAGES_LIMIT = 64 * 1024 * 1024  # queued characters for an executor
MESSAGE_COST = 64  # of an empty message
EVENTS_PER_PAUSE = 16  # events between two reads of the parent's frames


class RunCancelled(Exception):
    """The parent has cancelled this run, superseded it, or gone."""


class FrameOverLimit(ValueError):
    """The payload does not fit into one frame."""


class InboxFull(Exception):
    """More messages are queued than any executor would read."""


class FrameSender(Protocol):
    """The sending side of a connection to the parent."""

    @property
    def has_room(self) -> bool: ...

    def write(self, payload: bytes) -> None:
        """Queues one text message in order. Never blocks or raises."""

    async def wait_for_room(self) -> None:
        """Waits until there is room, or the connection is closed."""


class RunContext:
    def __init__(self, run: RunFrame, sender: FrameSender) -> None:
        self.run = run
        self._sender = sender
        self._cancelled = asyncio.Event()
        self._messages: deque[str] = deque()
        self._waiting_size = 0
        self._message_came = asyncio.Event()
        self._approvals: dict[str, asyncio.Future[bool]] = {}
        self._emitted = 0

    # -- for the executor

    @property
    def is_cancelled(self) -> bool:
        return self._cancelled.is_set()

    async def emit(self, event: Any) -> None:
        """Sends one event. Raises ``RunCancelled``, ``FrameOverLimit``."""
        await self._send(write_event(event))
        self._emitted += 1
        if self._emitted % EVENTS_PER_PAUSE == 0:
            await asyncio.sleep(0)

    async def approve(self, body: Any) -> bool:
        """Requests approval and waits for the answer without a limit. Raises ``RunCancelled``."""
        request_id = f"sa-{uuid.uuid4()}"
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._approvals[request_id] = answer
        try:
            await self._send(write_frame(ApprovalRequest(request_id, body)))
            return await self.unless_cancelled(answer)
        finally:
            del self._approvals[request_id]

    async def next_message(self) -> str:
        """Waits for the parent's next message to the run. Raises ``RunCancelled``."""
        while not self._messages:
            self._message_came.clear()
            await self.unless_cancelled(self._message_came.wait())
        text = self._messages.popleft()
        self._waiting_size -= len(text) + MESSAGE_COST
        return text

    def take_messages(self) -> list[str]:
        """Returns the queued messages without waiting."""
        taken = list(self._messages)
        self._messages.clear()
        self._waiting_size = 0
        return taken

    @property
    def has_messages(self) -> bool:
        return bool(self._messages)

    async def sleep(self, seconds: float) -> None:
        """Sleeps. Raises ``RunCancelled``."""
        await self.unless_cancelled(asyncio.sleep(seconds))

    async def _send(self, payload: bytes) -> None:
        sendable(payload)
        if not self._sender.has_room:
            await self.unless_cancelled(self._sender.wait_for_room())
        if self._cancelled.is_set():
            raise RunCancelled
        self._sender.write(payload)

    async def unless_cancelled(self, work: Awaitable[T]) -> T:
        """Returns the work's value; cancels it with the run. Raises ``RunCancelled``."""
        task = asyncio.ensure_future(work)
        try:
            if await unless_set(task, self._cancelled):
                return task.result()
            raise RunCancelled
        finally:
            if not task.done():
                task.cancel()

    # -- for the conversation

    @property
    def cancelled(self) -> asyncio.Event:
        """Set when the run must end."""
        return self._cancelled

    def cancel(self) -> None:
        """Marks the run as cancelled and stops its sending. May be called repeatedly."""
        self._cancelled.set()

    def put_message(self, text: str) -> None:
        """Queues a message for the executor. Raises ``InboxFull``."""
        size = len(text) + MESSAGE_COST
        if self._waiting_size + size > MESSAGES_LIMIT:
            raise InboxFull
        self._waiting_size += size
        self._messages.append(text)
        self._message_came.set()

    def answer(self, request_id: str, *, approved: bool) -> None:
        """Answers a request. Only the first answer counts; ignores an unknown id."""
        waiting = self._approvals.get(request_id)
        if waiting is not None and not waiting.done():
            waiting.set_result(approved)


def sendable(payload: bytes) -> bytes:
    """Returns the payload. Raises ``FrameOverLimit``."""
    if len(payload) > FRAME_LIMIT:
        raise FrameOverLimit("The message is larger than one frame may be (16 MiB).")
    return payload
