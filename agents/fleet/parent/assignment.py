"""One assignment on a connection, from its run frame to its outcome.

Reads until the terminal, hands events to the listener in order, has questions
answered beside it, and keeps the limits: a run that exceeds one is cancelled,
and given up when it does not end. Always yields an outcome; only the listener's
own failure is raised.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import replace
from typing import Any

from agents.fleet.parent.connection import ChildConnection
from agents.fleet.parent.deadlines import Deadlines
from agents.fleet.parent.errors import ChildConnectionLost, ChildIsDeaf, FleetError, FrameTooLarge
from agents.fleet.parent.outcome import SENTENCES, ChildOutcome, Ending, Listener, Order, RunLimits
from agents.fleet.parent.questions import ForwardedQuestions
from agents.fleet.wire import (
    ApprovalRequest,
    BadFrame,
    Cancel,
    ChildFrame,
    EventBatch,
    EventFrame,
    MessageFrame,
    RunFrame,
    Status,
    Terminal,
)

MOST_CHARACTERS = 256 * 1024


class Produced:
    def __init__(self, step_types: frozenset[str]) -> None:
        self._step_types = step_types
        self._words: list[str] = []
        self._length = 0
        self.events = 0
        self.steps = 0

    def take(self, event: Any) -> None:
        self.events += 1
        if not isinstance(event, dict):
            return
        kind = event.get("type")
        if isinstance(kind, str) and kind in self._step_types:
            self.steps += 1
        content = event.get("content")
        if kind == "token" and isinstance(content, str):
            room = MOST_CHARACTERS - self._length
            if room > 0:
                self._words.append(content[:room])
                self._length += min(len(content), room)

    @property
    def text(self) -> str:
        return "".join(self._words)


class Terminals:
    def __init__(self) -> None:
        self._expected = 1
        self._taken: list[Terminal] = []

    def superseded(self) -> None:
        self._expected += 1

    def take(self, terminal: Terminal) -> bool:
        """Whether it was the last one due."""
        self._taken.append(terminal)
        return len(self._taken) >= self._expected

    @property
    def may_be_over(self) -> bool:
        """The newest run may have ended: one is still due, but perhaps of a run that died."""
        return any(terminal.status != Status.CANCELLED for terminal in self._taken)

    def chosen(self, *, was_cancelled: bool) -> Terminal:
        """The newest run's, of at least one taken."""
        ended = [each for each in self._taken if each.status != Status.CANCELLED]
        if len(ended) == 1 and not was_cancelled:
            return ended[0]
        # A run that ended by itself just before it was superseded comes first.
        return self._taken[-1]


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
    """``run`` once; ``steer``, ``cancel`` and ``supersede`` from any task meanwhile."""

    def __init__(
        self,
        connection: ChildConnection,
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
        self._changed = asyncio.Event()  # the deadlines are others now
        self._questions = ForwardedQuestions(listener, connection, on_change=self._asked)
        self._is_listener_busy = False
        self._ending: Ending | None = None  # why it was told to stop
        self._cancelling: asyncio.Task[None] | None = None
        self._early: list[str] | None = []  # messages from before the run was sent
        self._is_over = False  # the connection may be another assignment's by now

    async def run(self) -> ChildOutcome:
        """If this task is cancelled, the connection is closed, which cancels the child's run."""
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
        """Raises ``FleetError``. The child does not acknowledge it."""
        if self._is_over:
            return
        if self._early is not None:  # an idle child would drop it
            self._early.append(text)
            return
        await self._connection.send(MessageFrame(text))

    async def cancel(self) -> None:
        """At once, past everything that waits. Callable twice; never raises."""
        await self._stop(Ending.CANCELLED)

    async def supersede(self, order: Order) -> None:
        """A new run in place of this one, whose outcome ``run`` then yields.

        Raises ``FleetError``. Nothing happens to one that is stopping or over.
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
                    return self._outcome(Ending.LOST, "The sub-agent sends no sense.")
                logger.debug("a child sent no frame: %s", error)
                continue
            except ChildConnectionLost as error:
                return self._lost(error)
            if frame is None:
                return self._lost(ChildConnectionLost("The sub-agent's connection has ended."))
            outcome = await self._take(frame)
            if outcome is not None:
                return outcome

    async def _take(self, frame: ChildFrame) -> ChildOutcome | None:
        match frame:
            case EventFrame(event):
                await self._hear(event)
            case EventBatch(events=events):
                for event in events:
                    await self._hear(event)
            case ApprovalRequest(request_id, body):
                self._questions.ask(request_id, body, is_welcome=not self._deadlines.is_stopping)
            case Terminal():
                if self._terminals.take(frame):
                    return self._ended()
                if self._terminals.may_be_over:
                    self._deadlines.awaiting_late_terminal(self._loop.time())
                    self._changed.set()
            case _:
                pass  # a newer child's, for parents that can do more
        return None

    async def _hear(self, event: object) -> None:
        self._produced.take(event)
        self._is_listener_busy = True
        try:
            await self._listener.on_event(event)
        finally:
            self._is_listener_busy = False
        self._deadlines.heard(self._loop.time())  # only now: a slow listener is not idleness
        if self._produced.events % FAIR_EVENTS == 0:
            await asyncio.sleep(0)  # a flood that is already here must not hold the loop
        most = self._limits.most_steps
        if most is not None and self._produced.steps > most:
            await self._stop(Ending.OUT_OF_STEPS)

    async def _send_early(self) -> None:
        while self._early:
            await self._connection.send(MessageFrame(self._early.pop(0)))
        self._early = None

    # -- ending

    async def _watch(self) -> None:
        """Returns when the run has to be given up."""
        while True:
            self._changed.clear()
            now = self._loop.time()
            if self._deadlines.is_given_up(now) or self._deadlines.is_terminal_late(now):
                return
            over = None if self._deadlines.is_stopping else self._deadlines.passed(now)
            if over is Ending.IDLE and self._is_listener_busy:
                self._deadlines.heard(now)  # what the child says next is not read yet
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
        self._questions.silence()
        # In a task of its own: a child that reads nothing must not hold the caller.
        self._cancelling = asyncio.create_task(self._send_cancel())

    def _ended(self) -> ChildOutcome:
        terminal = self._terminals.chosen(was_cancelled=self._ending is Ending.CANCELLED)
        ending = _ENDINGS[terminal.status]
        if ending is Ending.CANCELLED and self._ending is not None:
            ending = self._ending
        told = terminal.error if ending is Ending.ERROR else None
        return self._outcome(ending, told, result=terminal.result, usable=True)

    def _given_up(self, watching: asyncio.Task[None]) -> ChildOutcome:
        watching.result()
        if self._ending is None:  # a superseded run died without a terminal
            # Its terminal may come yet, and would be taken for the next run's.
            return replace(self._ended(), is_child_usable=False)
        return self._outcome(self._ending)

    def _lost(self, error: FleetError) -> ChildOutcome:
        ending = Ending.DEAF if isinstance(error, ChildIsDeaf) else Ending.LOST
        # A child that dies of our cancel was cancelled.
        return self._outcome(self._ending or ending, None if self._ending else error.sentence)

    def _outcome(
        self,
        ending: Ending,
        told: str | None = None,
        *,
        result: str | None = None,
        usable: bool = False,
    ) -> ChildOutcome:
        return ChildOutcome(
            ending=ending,
            result=(result or "") if ending is Ending.COMPLETED else None,
            error=told or SENTENCES[ending],
            produced=self._produced.text,
            events=self._produced.events,
            steps=self._produced.steps,
            is_child_usable=usable and self._connection.is_open,
        )

    async def _send_cancel(self) -> None:
        with contextlib.suppress(FleetError):  # a lost connection is the reader's to tell
            await self._connection.send(Cancel())

    def _asked(self, change: int) -> None:
        self._deadlines.asked(change, self._loop.time())
        self._changed.set()


async def _end(tasks: list[asyncio.Task[None] | asyncio.Task[ChildOutcome] | None]) -> None:
    left = [task for task in tasks if task is not None]
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


def _run_frame(order: Order) -> RunFrame:
    return RunFrame(order.assignment, order.reasoning_effort, tuple(order.messages))
