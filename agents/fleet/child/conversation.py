"""What one parent and this child say to each other, on whatever carries it.

At most one run works at a time. A new one supersedes it: the old one is tripped,
given a few seconds, then aborted, and has its terminal before the new one begins.
Every run that was asked for has exactly one terminal, after all its events.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from agents.fleet.child.executor import ExecutorFailed, RunExecutor
from agents.fleet.child.run_context import (
    FrameOverLimit,
    InboxFull,
    ParentLine,
    RunCancelled,
    RunContext,
    first_of,
    sendable,
)
from agents.fleet.wire import (
    ApprovalReply,
    BadFrame,
    Cancel,
    MessageFrame,
    RunFrame,
    Status,
    Terminal,
    read_parent_frame,
    write_frame,
)

logger = logging.getLogger(__name__)

PATIENCE_SECONDS = 3.0  # for a run that was cancelled
ABORT_SECONDS = 1.0  # for one that was aborted then

CANCELLED = Terminal(Status.CANCELLED)
BROKEN = "The executor failed; the child's log has the details."


@dataclass(slots=True)
class Tally:
    """The runs of this process, over all connections."""

    started: int = 0
    finished: int = 0
    cancelled: int = 0

    @property
    def active(self) -> int:
        return self.started - self.finished - self.cancelled


class ParentConversation:
    def __init__(
        self,
        line: ParentLine,
        executor: RunExecutor,
        tally: Tally,
        *,
        drop: Callable[[], None],
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        """``drop`` cuts the connection of a parent that misbehaves."""
        self._line = line
        self._executor = executor
        self._tally = tally
        self._drop = drop
        self._patience = patience_seconds
        self._active: RunContext | None = None
        self._next: RunContext | None = None
        self._skipped = 0  # superseded before they began
        self._work: asyncio.Task[None] | None = None
        self._is_over = False

    def take(self, text: str) -> None:
        """One text message of the parent's. What is no frame is ignored."""
        try:
            frame = read_parent_frame(text)
        except BadFrame:
            return
        newest = self._next or self._active
        match frame:
            case RunFrame():
                self._ask(frame)
            case Cancel() if newest is not None:
                newest.trip()
            case MessageFrame(words) if newest is not None:
                try:
                    newest.put_message(words)
                except InboxFull:
                    logger.warning("a parent sends messages that no run reads: it is dropped")
                    self._drop()
            case ApprovalReply(id, approved) if self._active is not None:
                self._active.answer(id, approved=approved)
            case _:
                pass

    def hang_up(self) -> None:
        """The parent has gone: nothing is sent any more and its run is cancelled."""
        self._is_over = True
        self._next, self._skipped = None, 0
        if self._active is not None:
            self._active.trip()

    async def finish(self) -> None:
        """Returns when no run works any more; that takes a few seconds at most."""
        if self._work is not None:
            await asyncio.wait({self._work})

    # -- runs

    def _ask(self, run: RunFrame) -> None:
        if self._is_over:
            return
        desk = RunContext(run, self._line)
        if self._work is None:
            self._active = desk  # at once: what comes with the same packet is for it
            self._work = asyncio.create_task(self._perform_all(desk), name="assignments")
            return
        if self._active is not None:
            self._active.trip()
        self._skipped += self._next is not None
        self._next = desk

    async def _perform_all(self, first: RunContext) -> None:
        try:
            desk: RunContext | None = first
            while desk is not None:
                self._active = desk
                terminal = await self._perform(desk)
                desk.trip()  # whatever it left behind sends nothing more
                self._active = None
                await self._send(terminal)
                while self._skipped:
                    self._skipped -= 1
                    await self._send(CANCELLED)
                desk, self._next = self._next, None
        finally:
            self._work = None

    async def _perform(self, desk: RunContext) -> Terminal:
        if desk.is_cancelled:  # before its turn came
            return CANCELLED
        self._tally.started += 1
        terminal = CANCELLED
        try:
            terminal = await self._outcome(desk)
        finally:
            if terminal.status is Status.CANCELLED:
                self._tally.cancelled += 1
            else:
                self._tally.finished += 1
        return terminal

    async def _outcome(self, desk: RunContext) -> Terminal:
        task = asyncio.create_task(self._executor.run(desk), name="assignment")
        try:
            await first_of(task, desk.tripped)
            if not task.done():
                await asyncio.wait({task}, timeout=self._patience)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if task.done():
            return _terminal_of(task, was_tripped=desk.is_cancelled)
        task.cancel()
        await asyncio.wait({task}, timeout=ABORT_SECONDS)
        if not task.done():
            logger.error("a run does not end when it is aborted; it is left behind")
        task.add_done_callback(_swallow)
        return CANCELLED

    async def _send(self, terminal: Terminal) -> None:
        try:
            payload = sendable(write_frame(terminal))
        except (FrameOverLimit, TypeError, ValueError):
            failed = Terminal(Status.ERROR, error="The result is larger than one frame may be.")
            payload = write_frame(failed)
        if not self._line.has_room:
            await self._line.wait_for_room()
        self._line.write(payload)


def _terminal_of(task: asyncio.Task[Terminal], *, was_tripped: bool) -> Terminal:
    if task.cancelled():
        return CANCELLED if was_tripped else Terminal(Status.ERROR, error=BROKEN)
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


def _swallow(task: asyncio.Task[Terminal]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.debug("an aborted run ended with %s", type(error).__name__)
