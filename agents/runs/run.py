"""Performs one run: gives inputs to the turn machine, and carries out its effects.

The durable effects of an advance are one transaction; the others begin after its commit. Work in
progress (the model's stream, tools) runs in tasks that put their results into the inbox.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

from django.conf import settings

from agents.models import RunKind
from agents.runs.calls.run_calls import RunCalls
from agents.runs.conversation import Conversation, read_transcript, steps_of
from agents.runs.lease import Lease
from agents.runs.model_reply import Speaker
from agents.runs.reply import Checkpoints
from agents.runs.rows import Claimed
from agents.runs.setup import RunSetup, SetupInUse
from agents.runs.steps import Step, Written, begin_run, step_of, write_step
from agents.runs.title import FirstTitle, Side
from agents.runs.tool_servers.mcp_servers import record_late_servers
from agents.turn.effects import (
    AbortWork,
    CallModel,
    Effect,
    Judge,
    Outcome,
    Park,
    RunTool,
    Summarise,
)
from agents.turn.inputs import Answered, Begun, CancelSeen, HandOver, Input, ReplyFailed
from agents.turn.machine import advance
from agents.turn.rebuilding import rebuild
from agents.turn.state import Phase, Turn
from workspaces.delivery.hub import Hub
from workspaces.log.reader import read
from workspaces.log.writer import writer

LOOK_SECONDS = 0.005
LONGEST_SECONDS = 60.0


async def pass_gate(name: str) -> None:
    """Leaves ``NAME.reached`` and waits until ``NAME.hold`` is gone."""
    if not settings.CRUSH_GATES:
        return
    folder = Path(settings.CRUSH_GATES)
    hold = folder / f"{name}.hold"
    if not hold.exists():
        return
    (folder / f"{name}.reached").touch()
    loop = asyncio.get_running_loop()
    until = loop.time() + LONGEST_SECONDS
    while hold.exists() and loop.time() < until:  # noqa: ASYNC110  another process opens the gate
        await asyncio.sleep(LOOK_SECONDS)


logger = logging.getLogger(__name__)


class Work:
    def __init__(self, run_key: int) -> None:
        self._run_key = run_key
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def begin(
        self, name: str, work: Coroutine[Any, Any, None], *, on_broken: Callable[[str], None]
    ) -> None:
        """``on_broken`` gets the name of work that failed by a mistake of ours.

        Only the task keeps it: a run that were held by its own work would stay in memory, with
        its conversation, until a rare full collection (40 prompts with a picture kept 8 GB).
        """
        task = asyncio.create_task(work, name=f"run-{self._run_key}-{name}")
        self._tasks[name] = task
        task.add_done_callback(partial(self._ended, on_broken))

    async def abort(self) -> None:
        """Closes the model's stream and ends running tools; returns when they are gone."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, on_broken: Callable[[str], None], task: asyncio.Task[None]) -> None:
        names = [name for name, other in self._tasks.items() if other is task]
        for name in names:
            del self._tasks[name]
        if task.cancelled() or (error := task.exception()) is None:
            return
        logger.error("a step of a run broke", exc_info=error)
        for name in names:
            on_broken(name)


MODEL = ""  # the name of the model's task among those of calls, which have the calls' ids
BROKEN = "internal error: the server's log has the details"


class RunTask:
    """Performs one claimed run until it ends, parks, or is handed over."""

    def __init__(
        self,
        claimed: Claimed,
        *,
        hub: Hub,
        checkpoints: Checkpoints,
        server_mark: str,
        brief_of: Callable[[Claimed], Awaitable[RunSetup]],
        side: Side,
    ) -> None:
        """``side`` begins work that may outlive the run."""
        self.claimed = claimed
        self.held = Lease(claimed.key, claimed.fence, claimed.workspace_id, claimed.session_id)
        self._brief_of = brief_of
        self._inbox: asyncio.Queue[Input] = asyncio.Queue()
        self._cancelled = asyncio.Event()
        self._turn = Turn()
        self._briefing = SetupInUse()
        self._conversation = Conversation()
        self._title = FirstTitle(claimed, side)
        self._work = Work(claimed.key)
        self._speaker = Speaker(
            self.held,
            self._briefing,
            self._conversation,
            hub=hub,
            checkpoints=checkpoints,
            on_begin=self._title.begin,
            tell=self._inbox.put_nowait,
        )
        self._calls = RunCalls(
            self.held,
            self._briefing,
            self._conversation,
            errand=claimed.errand,
            server_mark=server_mark,
            tell=self._inbox.put_nowait,
        )

    # -- what others may call, in the loop

    def cancel(self) -> None:
        """The cancel mark covers this run. Callable often."""
        if not self._cancelled.is_set():
            self._cancelled.set()
            self._inbox.put_nowait(CancelSeen())

    def hand_over(self) -> None:
        """This process stops soon: give the run up at the next step boundary."""
        self._inbox.put_nowait(HandOver())

    async def perform(self) -> None:
        """Raises ``LeaseLost`` when another worker has taken over."""
        # What it takes to speak is read while the prompt is stored.
        reading = asyncio.create_task(self._briefing.read(self.claimed, self._brief_of))
        try:
            if await writer.write(self.held.workspace_id, lambda tx: begin_run(tx, self.held)):
                await self._prepare(reading)
                told = self._conversation.tokens(self.claimed.context_tokens)
                only_summarises = self.claimed.kind == RunKind.SUMMARY
                await self._advance(Begun(self._briefing.is_full(told), only_summarises))
                while self._turn.phase is not Phase.ENDED:
                    await self._advance(await self._inbox.get())
        finally:
            reading.cancel()
            await self._work.abort()
            self._speaker.close()

    # -- before the first step

    async def _prepare(self, reading: asyncio.Task[None]) -> None:
        await self._unless_cancelled(asyncio.gather(pass_gate("run.begun"), reading))
        if late := self._briefing.late_servers:
            await writer.write(
                self.held.workspace_id, lambda tx: record_late_servers(tx, self.held, late)
            )
        stored = await read(read_transcript, self.held.session_id, self.held.key)
        self._conversation.load(stored.messages, stored.own)
        steps, results = steps_of(stored.own, self._briefing.parallel)
        self._turn = rebuild(steps, results)

    async def _unless_cancelled(self, work: asyncio.Future[Any]) -> None:
        """Waits for the work, or leaves it as soon as a cancel is seen."""
        seen = asyncio.ensure_future(self._cancelled.wait())
        try:
            await asyncio.wait({work, seen}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
        finally:
            for waiting in (work, seen):
                waiting.cancel()
            await asyncio.gather(work, seen, return_exceptions=True)

    # -- a step

    async def _advance(self, happened: Input) -> None:
        turn, effects = advance(self._turn, happened)
        if any(isinstance(effect, AbortWork) for effect in effects):
            await self._work.abort()
        step = self._step(turn, effects)
        written = Written()
        if step is not None:
            await self._before(step)
            written = await writer.write(
                self.held.workspace_id, lambda tx: write_step(tx, self.held, step)
            )
        if written.is_cancelled:
            # The mark came before this step's commit: nothing was written, the run is cancelled.
            await self._advance(CancelSeen())
            return
        self._turn = turn
        if step is not None:
            self._keep(step)
            await self._pass_gates(step)
        for effect in effects:
            await self._perform(effect, written)
        if written.answered:  # it is not parked
            for call_id in written.answered:
                self._inbox.put_nowait(Answered(call_id))
        elif any(isinstance(effect, Park) for effect in effects):
            self._turn = Turn(phase=Phase.ENDED)  # here; its row says that it waits

    def _step(self, turn: Turn, effects: tuple[Effect, ...]) -> Step | None:
        return step_of(
            effects,
            choice=self._briefing.choice,
            results=self._calls.results,
            reads=self._calls.reads,
            only_reading=frozenset(c.asked.id for c in turn.calls if c.asked.parallel),
            reply_write=self._speaker.to_write,
        )

    async def _before(self, step: Step) -> None:
        if step.parks:
            await pass_gate("run.parking")
        if step.end is not None and step.end.outcome is Outcome.COMPLETED:
            await self._title.wait(self._cancelled)

    def _keep(self, step: Step) -> None:
        """What was written is part of the conversation from now on."""
        if step.reply is not None:
            self._speaker.keep(step.reply)
        self._calls.keep(step.results, step.refusals)

    async def _pass_gates(self, step: Step) -> None:
        """Where a step is written and what follows from it has not begun."""
        if step.reply is not None:
            await pass_gate("reply.saved")
        if step.results:
            await pass_gate("result.saved")

    # -- what follows from it

    async def _perform(self, effect: Effect, written: Written) -> None:
        match effect:
            case CallModel():
                await self._speak(written, is_summary=False)
            case Summarise():
                await self._speak(written, is_summary=True)
            case Judge(call_id):
                self._begin(call_id, self._calls.judge(call_id))
            case RunTool(call_id):
                self._begin(call_id, self._calls.run(call_id))
            case _:
                pass

    async def _speak(self, written: Written, *, is_summary: bool) -> None:
        if not is_summary:
            await self._briefing.take_late_tools(self.claimed)
        brief = self._briefing.brief
        if brief is None:
            self._inbox.put_nowait(ReplyFailed(self._briefing.fault))
            return
        reply = await self._speaker.begin(written, is_summary=is_summary)
        was_exhausted = self._turn.is_exhausted
        self._begin(MODEL, self._speaker.receive(reply, brief, was_exhausted=was_exhausted))

    def _begin(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        self._work.begin(name, work, on_broken=self._end_broken)

    def _end_broken(self, name: str) -> None:
        if name == MODEL:
            self._inbox.put_nowait(ReplyFailed(BROKEN))
        else:
            self._calls.fail(name, BROKEN)
