"""The frames between one parent and this child, over any connection.

At most one run is active. A new run supersedes it: the old one is cancelled, aborted
after a few seconds, and gets its terminal before the new one begins. Every requested
run gets exactly one terminal, after all its events.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from agents.fleet.child.executor import ExecutorFailed, RunExecutor
from agents.fleet.child.run_context import (
    FrameOverLimit,
    FrameSender,
    InboxFull,
    RunCancelled,
    RunContext,
    sendable,
)
from agents.fleet.wire.codec import BadFrame, read_parent_frame, write_frame
from agents.fleet.wire.frames import ApprovalReply, Cancel, MessageFrame, RunFrame, Status, Terminal
from workspaces.tasks import unless_set

logger = logging.getLogger(__name__)

CANCEL_SECONDS = 3.0  # for a cancelled run to end
ABORT_SECONDS = 1.0  # for an aborted run to end

CANCELLED = Terminal(Status.CANCELLED)
BROKEN = "The executor failed; the child's log has the details."


@dataclass(slots=True)
class RunCounts:
    """Counts the runs of this process, over all connections."""

    started: int = 0
    finished: int = 0
    cancelled: int = 0

    @property
    def active(self) -> int:
        return self.started - self.finished - self.cancelled


class ParentConversation:
    def __init__(
        self,
        sender: FrameSender,
        executor: RunExecutor,
        counts: RunCounts,
        *,
        drop: Callable[[], None],
        cancel_seconds: float = CANCEL_SECONDS,
    ) -> None:
        """``drop`` closes the connection of a parent that misbehaves."""
        self._sender = sender
        self._executor = executor
        self._counts = counts
        self._drop = drop
        self._cancel_seconds = cancel_seconds
        self._active: RunContext | None = None
        self._next: RunContext | None = None
        self._skipped = 0  # runs that were superseded before they began
        self._work: asyncio.Task[None] | None = None
        self._is_over = False

    def take(self, text: str) -> None:
        """Handles a text message of the parent; ignores one that is not a frame."""
        try:
            frame = read_parent_frame(text)
        except BadFrame:
            return
        newest = self._next or self._active
        match frame:
            case RunFrame():
                self._accept(frame)
            case Cancel() if newest is not None:
                newest.cancel()
            case MessageFrame(words) if newest is not None:
                try:
                    newest.put_message(words)
                except InboxFull:
                    logger.warning(
                        "a parent sends more messages than its run reads; the connection is closed"
                    )
                    self._drop()
            case ApprovalReply(id, approved) if self._active is not None:
                self._active.answer(id, approved=approved)
            case _:
                pass

    def on_disconnect(self) -> None:
        """Cancels the run of a parent that has disconnected; sends nothing more."""
        self._is_over = True
        self._next, self._skipped = None, 0
        if self._active is not None:
            self._active.cancel()

    async def finish(self) -> None:
        """Waits until no run is active, which takes a few seconds at most."""
        if self._work is not None:
            await asyncio.wait({self._work})

    # -- runs

    def _accept(self, run: RunFrame) -> None:
        if self._is_over:
            return
        context = RunContext(run, self._sender)
        if self._work is None:
            self._active = context  # at once: further frames of the same packet belong to it
            self._work = asyncio.create_task(self._perform_all(context), name="assignments")
            return
        if self._active is not None:
            self._active.cancel()
        self._skipped += self._next is not None
        self._next = context

    async def _perform_all(self, first: RunContext) -> None:
        try:
            context: RunContext | None = first
            while context is not None:
                self._active = context
                terminal = await self._perform(context)
                context.cancel()  # tasks that it left behind can send nothing more
                self._active = None
                await self._send(terminal)
                while self._skipped:
                    self._skipped -= 1
                    await self._send(CANCELLED)
                context, self._next = self._next, None
        finally:
            self._work = None

    async def _perform(self, context: RunContext) -> Terminal:
        if context.is_cancelled:  # before its turn came
            return CANCELLED
        self._counts.started += 1
        terminal = CANCELLED
        try:
            terminal = await self._outcome(context)
        finally:
            if terminal.status is Status.CANCELLED:
                self._counts.cancelled += 1
            else:
                self._counts.finished += 1
        return terminal

    async def _outcome(self, context: RunContext) -> Terminal:
        task = asyncio.create_task(self._executor.run(context), name="assignment")
        try:
            await unless_set(task, context.cancelled)
            if not task.done():
                await asyncio.wait({task}, timeout=self._cancel_seconds)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if task.done():
            return _terminal_of(task, was_cancelled=context.is_cancelled)
        task.cancel()
        await asyncio.wait({task}, timeout=ABORT_SECONDS)
        if not task.done():
            logger.error("a run has not ended after its abort; it is abandoned")
        task.add_done_callback(_log_late_error)
        return CANCELLED

    async def _send(self, terminal: Terminal) -> None:
        try:
            payload = sendable(write_frame(terminal))
        except (FrameOverLimit, TypeError, ValueError):
            failed = Terminal(
                Status.ERROR, error="The result is larger than one frame may be (16 MiB)."
            )
            payload = write_frame(failed)
        if not self._sender.has_room:
            await self._sender.wait_for_room()
        self._sender.write(payload)


def _terminal_of(task: asyncio.Task[Terminal], *, was_cancelled: bool) -> Terminal:
    if task.cancelled():
        return CANCELLED if was_cancelled else Terminal(Status.ERROR, error=BROKEN)
    match task.exception():
        case None:
            return task.result()
        case RunCancelled():
            return CANCELLED
        case ExecutorFailed() | FrameOverLimit() as failure:
            return Terminal(Status.ERROR, error=str(failure))
        case error:
            logger.error("an executor failed", exc_info=error)
            return Terminal(Status.ERROR, error=BROKEN)


def _log_late_error(task: asyncio.Task[Terminal]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.debug("an aborted run ended with %s", type(error).__name__)
