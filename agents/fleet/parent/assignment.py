"""One assignment on a connection, from its run frame to its outcome.

Reads until the terminal, passes events to the listener in order, relays questions
concurrently, and enforces the limits: a run that exceeds one is cancelled, and
abandoned if it does not end. Always returns an outcome; only an error of the
listener is raised.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import replace

from agents.fleet.parent.connection import FrameConnection
from agents.fleet.parent.errors import (
    ChildConnectionLost,
    ChildUnresponsive,
    FleetError,
    FrameTooLarge,
)
from agents.fleet.parent.outcome import (
    SENTENCES,
    ChildOutcome,
    Deadlines,
    Ending,
    Listener,
    Order,
    Produced,
    RunLimits,
    Terminals,
)
from agents.fleet.wire.codec import BadFrame
from agents.fleet.wire.frames import (
    ApprovalReply,
    ApprovalRequest,
    Cancel,
    ChildFrame,
    EventBatch,
    EventFrame,
    MessageFrame,
    RunFrame,
    Status,
    Terminal,
)

logger = logging.getLogger(__name__)

MOST_BAD_FRAMES = 100
FAIR_EVENTS = 64

_ENDINGS = {
    Status.COMPLETED: Ending.COMPLETED,
    Status.CANCELLED: Ending.CANCELLED,
    Status.ERROR: Ending.ERROR,
    Status.SUSPENDED: Ending.SUSPENDED,
}


class ChildAssignment:
    """Call ``run`` once; meanwhile any task may ``steer``, ``cancel`` or ``supersede``."""

    def __init__(
        self,
        connection: FrameConnection,
        order: Order,
        *,
        listener: Listener,
        limits: RunLimits | None = None,
    ) -> None:
        self._connection = connection
        self._order = order
        self._listener = listener
        self._limits = limits or RunLimits()
        self._terminals = Terminals()
        self._produced = Produced(self._limits.step_types)
        self._loop = asyncio.get_running_loop()
        self._deadlines = Deadlines(self._limits, self._loop.time())
        self._changed = asyncio.Event()  # set when the deadlines change
        self._questions = ForwardedQuestions(listener, connection, on_change=self._count_questions)
        self._is_listener_busy = False
        self._ending: Ending | None = None  # why the parent cancelled it
        self._cancelling: asyncio.Task[None] | None = None
        self._early: list[str] | None = []  # messages queued until the run is sent
        self._is_over = False  # then the connection may serve another assignment

    async def run(self) -> ChildOutcome:
        """Returns the outcome. Cancelling this task closes the connection, and so ends the run."""
        reading: asyncio.Task[ChildOutcome] | None = None
        watching: asyncio.Task[None] | None = None
        if self._ending is not None:  # cancelled before it began
            return self._outcome(self._ending, usable=True)
        try:
            try:
                await self._connection.send(_run_frame(self._order))
                await self._send_early()
            except FrameTooLarge as error:
                return self._outcome(Ending.ERROR, error.sentence, usable=True)
            except FleetError as error:
                return self._lost(error)
            except (TypeError, ValueError) as error:
                return self._outcome(Ending.ERROR, str(error), usable=True)
            reading = asyncio.create_task(self._read())
            watching = asyncio.create_task(self._watch())
            await asyncio.wait({reading, watching}, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                return reading.result()
            return self._given_up(watching)
        except BaseException:
            await self._connection.close()
            raise
        finally:
            self._is_over = True
            await self._questions.drop()
            await _end([self._cancelling, reading, watching])

    async def steer(self, text: str) -> None:
        """Sends a message, which the child does not acknowledge. Raises ``FleetError``."""
        if self._is_over:
            return
        if self._early is not None:  # an idle child would drop it
            self._early.append(text)
            return
        await self._connection.send(MessageFrame(text))

    async def cancel(self) -> None:
        """Cancels the run at once, ahead of queued messages. Callable twice; never raises."""
        await self._stop(Ending.CANCELLED)

    async def supersede(self, order: Order) -> None:
        """Replaces the run by a new one, whose outcome ``run`` then returns.

        Raises ``FleetError``. Does nothing if the run is stopping or over.
        """
        await self._questions.drop()
        if self._is_over or self._deadlines.is_stopping:
            return
        self._order = order
        self._terminals.superseded()
        self._produced = Produced(self._limits.step_types)
        self._deadlines.restarted(self._loop.time())
        self._changed.set()
        await self._connection.send(_run_frame(order))

    # -- reading

    async def _read(self) -> ChildOutcome:
        bad = 0
        while True:
            try:
                frame = await self._connection.next_frame()
            except BadFrame as error:
                bad += 1
                if bad > MOST_BAD_FRAMES:
                    return self._outcome(Ending.LOST, "The sub-agent sent malformed frames.")
                logger.debug("a child sent a malformed frame: %s", error)
                continue
            except ChildConnectionLost as error:
                return self._lost(error)
            if frame is None:
                return self._lost(
                    ChildConnectionLost("The sub-agent closed the connection before its result.")
                )
            outcome = await self._take(frame)
            if outcome is not None:
                return outcome

    async def _take(self, frame: ChildFrame) -> ChildOutcome | None:
        match frame:
            case EventFrame(event):
                await self._handle_event(event)
            case EventBatch(events=events):
                for event in events:
                    await self._handle_event(event)
            case ApprovalRequest(request_id, body):
                self._questions.relay(request_id, body, is_allowed=not self._deadlines.is_stopping)
            case Terminal():
                if self._terminals.take(frame):
                    return self._ended()
                if self._terminals.may_be_over:
                    self._deadlines.awaiting_late_terminal(self._loop.time())
                    self._changed.set()
            case _:
                pass  # frames of newer children, for newer parents
        return None

    async def _handle_event(self, event: object) -> None:
        self._produced.take(event)
        self._is_listener_busy = True
        try:
            await self._listener.on_event(event)
        finally:
            self._is_listener_busy = False
        # Only now: a slow listener is not idleness.
        self._deadlines.record_activity(self._loop.time())
        if self._produced.events % FAIR_EVENTS == 0:
            await asyncio.sleep(0)  # a flood of received events must not block the loop
        most = self._limits.most_steps
        if most is not None and self._produced.steps > most:
            await self._stop(Ending.OUT_OF_STEPS)

    async def _send_early(self) -> None:
        while self._early:
            await self._connection.send(MessageFrame(self._early.pop(0)))
        self._early = None

    # -- ending

    async def _watch(self) -> None:
        """Enforces the deadlines; returns when the run must be abandoned."""
        while True:
            self._changed.clear()
            now = self._loop.time()
            if self._deadlines.is_given_up(now) or self._deadlines.is_terminal_late(now):
                return
            over = None if self._deadlines.is_stopping else self._deadlines.passed(now)
            if over is Ending.IDLE and self._is_listener_busy:
                # The listener is busy: later frames are unread.
                self._deadlines.record_activity(now)
            elif over is not None:
                await self._stop(over)
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(self._deadlines.next_look()):
                    await self._changed.wait()

    async def _stop(self, why: Ending) -> None:
        if self._deadlines.is_stopping or self._is_over:
            return
        self._ending = why
        self._deadlines.stopping(self._loop.time())
        self._changed.set()
        self._questions.cancel_all()
        # In a separate task: a child that does not read must not block the caller.
        self._cancelling = asyncio.create_task(self._send_cancel())

    def _ended(self) -> ChildOutcome:
        terminal = self._terminals.chosen(was_cancelled=self._ending is Ending.CANCELLED)
        ending = _ENDINGS[terminal.status]
        if ending is Ending.CANCELLED and self._ending is not None:
            ending = self._ending
        error = terminal.error if ending is Ending.ERROR else None
        return self._outcome(ending, error, result=terminal.result, usable=True)

    def _given_up(self, watching: asyncio.Task[None]) -> ChildOutcome:
        watching.result()
        if self._ending is None:  # a superseded run died without a terminal
            # Its terminal may still arrive, and would be mistaken for the next run's.
            return replace(self._ended(), is_child_usable=False)
        return self._outcome(self._ending)

    def _lost(self, error: FleetError) -> ChildOutcome:
        ending = Ending.UNRESPONSIVE if isinstance(error, ChildUnresponsive) else Ending.LOST
        # A child that dies after our cancel counts as cancelled.
        return self._outcome(self._ending or ending, None if self._ending else error.sentence)

    def _outcome(
        self,
        ending: Ending,
        error: str | None = None,
        *,
        result: str | None = None,
        usable: bool = False,
    ) -> ChildOutcome:
        return ChildOutcome(
            ending=ending,
            result=(result or "") if ending is Ending.COMPLETED else None,
            error=error or SENTENCES[ending],
            produced=self._produced.text,
            events=self._produced.events,
            steps=self._produced.steps,
            is_child_usable=usable and self._connection.is_open,
        )

    async def _send_cancel(self) -> None:
        with contextlib.suppress(FleetError):  # the reading task reports a lost connection
            await self._connection.send(Cancel())

    def _count_questions(self, change: int) -> None:
        self._deadlines.count_questions(change, self._loop.time())
        self._changed.set()


async def _end(tasks: list[asyncio.Task[None] | asyncio.Task[ChildOutcome] | None]) -> None:
    left = [task for task in tasks if task is not None]
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


def _run_frame(order: Order) -> RunFrame:
    return RunFrame(order.assignment, order.reasoning_effort, tuple(order.messages))


MOST_QUESTIONS = 64  # open at the same time; further ones are denied


class ForwardedQuestions:
    """The open questions of a child. Each is relayed at once and answered once.

    A question without an answer is denied. Calls ``on_change`` with +1 and -1 as questions open
    and close.
    """

    def __init__(
        self, listener: Listener, connection: FrameConnection, *, on_change: Callable[[int], None]
    ) -> None:
        self._listener = listener
        self._connection = connection
        self._on_change = on_change
        self._open: dict[str, asyncio.Task[None]] = {}

    def relay(self, request_id: str, body: object, *, is_allowed: bool) -> None:
        """Relays a question; returns at once. Ignores a second one with the same id."""
        if request_id in self._open:
            return
        relayed = is_allowed and len(self._open) < MOST_QUESTIONS
        task = asyncio.create_task(self._answer(request_id, body, is_relayed=relayed))
        self._open[request_id] = task
        self._on_change(+1)
        task.add_done_callback(lambda _: self._closed(request_id))

    def cancel_all(self) -> None:
        """Cancels all open questions."""
        for task in self._open.values():
            task.cancel()

    async def drop(self) -> None:
        """Cancels all open questions and waits for the listener."""
        left = list(self._open.values())
        self.cancel_all()
        await asyncio.gather(*left, return_exceptions=True)

    def _closed(self, request_id: str) -> None:
        del self._open[request_id]
        self._on_change(-1)

    async def _answer(self, request_id: str, body: object, *, is_relayed: bool) -> None:
        approved = False
        try:
            if is_relayed:
                approved = await self._listener.on_approval(request_id, body) is True
        except Exception:
            logger.exception("a sub-agent's permission request could not be relayed; it is denied")
        with contextlib.suppress(FleetError):  # the reading task reports a lost connection
            await self._connection.send(ApprovalReply(request_id, approved))
