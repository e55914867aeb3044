"""Performs one run: gives inputs to the turn machine, and carries out its effects.

The durable effects of an advance are one transaction; the others begin after its commit. Work in
progress (the model's stream, tools) runs in tasks that put their results into the inbox.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

from django.conf import settings

from agents.models import RunKind
from agents.runs.calls.calls import RunCalls
from agents.runs.calls.outputs import CallOutputs
from agents.runs.conversation import Conversation, read_transcript, steps_of, unanswered
from agents.runs.lease import Lease
from agents.runs.objects.run_timeline import measure_step
from agents.runs.prompting.begin import begin_run, begin_with_step
from agents.runs.reply import Checkpoints, Speaker
from agents.runs.rows import Claimed
from agents.runs.setup import RunSetup, SetupInUse
from agents.runs.steps import (
    OfferedEnd,
    Step,
    Written,
    step_of,
    write_step,
)
from agents.runs.title import FirstTitle, Side
from agents.runs.tool_servers.mcp_servers import record_late_servers
from agents.runs.usage import measure_usage
from agents.states import RunOutcome
from agents.turn.effects import (
    AbortWork,
    CallModel,
    CheckCall,
    Effect,
    Park,
    RunTool,
    Summarise,
)
from agents.turn.inputs import Answered, Begun, CancelSeen, HandOver, Input, ReplyFailed
from agents.turn.machine import advance
from agents.turn.rebuilding import rebuild
from agents.turn.state import Phase, Turn
from agents.turn.transcript import TurnMessage
from workspaces.delivery.hub import Hub
from workspaces.log.parts import Role, Text
from workspaces.log.reader import read
from workspaces.log.timestamps import now_ms
from workspaces.log.writer import writer
from workspaces.measuring import Measured, measure, measured
from workspaces.tasks import NamedTasks, unless_set

LOOK_SECONDS = 0.005
LONGEST_SECONDS = 60.0


async def pass_gate(name: str) -> None:
    """Creates ``NAME.reached`` and waits until ``NAME.hold`` is removed; for tests only."""
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


SOON_SECONDS = 0.05  # if the setup takes longer, the run begins before, so that readers see it
MODEL = ""  # the name of the model's task; a call's task has the call's id as its name
BROKEN = "internal error: the server's log has the details"


class RunTask:
    """Performs one claimed run until it ends, parks, or is handed over."""

    def __init__(
        self,
        claimed: Claimed,
        *,
        hub: Hub,
        checkpoints: Checkpoints,
        outputs: CallOutputs,
        server_mark: str,
        setup_of: Callable[[Claimed], Awaitable[RunSetup]],
        side: Side,
    ) -> None:
        """``side`` begins work that may outlive the run."""
        self.claimed = claimed
        self.held = Lease(claimed.key, claimed.fence, claimed.workspace_id, claimed.session_id)
        self._setup_of = setup_of
        self._inbox: asyncio.Queue[Input] = asyncio.Queue()
        self._is_waiting = False  # for the next input
        self._offered: OfferedEnd | None = None
        self._cancelled = asyncio.Event()
        self._turn = Turn()
        self._setup_in_use = SetupInUse()
        self._conversation = Conversation()
        self._title = FirstTitle(claimed, side)
        self._work = NamedTasks(f"run-{claimed.key}")
        self._speaker = Speaker(
            self.held,
            self._setup_in_use,
            self._conversation,
            hub=hub,
            checkpoints=checkpoints,
            on_begin=self._title.begin,
            put=self._inbox.put_nowait,
        )
        self._calls = RunCalls(
            self.held,
            self._setup_in_use,
            self._conversation,
            hook_decisions=claimed.hook_decisions,
            server_mark=server_mark,
            outputs=outputs,
            put=self._inbox.put_nowait,
        )

    # -- what others may call, in the loop

    @property
    def is_cancelled(self) -> bool:
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Cancels the run. May be called repeatedly."""
        if not self._cancelled.is_set():
            self._cancelled.set()
            self._inbox.put_nowait(CancelSeen())

    def offer_end(self) -> OfferedEnd | None:
        """Returns the end of this run for the transaction that cancels it.

        ``None`` if the run does more than wait for its model: then only the run may end itself.
        """
        is_idle = self._is_waiting and self._inbox.empty() and not self.is_cancelled
        if self._offered is not None or not is_idle or self._turn.phase is not Phase.CALLING:
            return None
        turn, effects = advance(self._turn, CancelSeen())
        step = self._step(turn, effects)
        assert step is not None  # noqa: S101  it has at least the end
        self._speaker.hold()
        self._offered = OfferedEnd(self.held, step, self._end_settled)
        return self._offered

    def _end_settled(self, is_stored: bool | None) -> None:
        if is_stored:
            self.cancel()
            return
        self._offered = None
        self._speaker.go_on()
        if is_stored is None:
            self.cancel()  # then the run's own end is refused if that of the offer was stored

    def receive_answer(self, call_id: str, *, granted: bool) -> None:
        """Does nothing: a run that waits for an answer is parked, and finds it in the database."""

    def hand_over(self) -> None:
        """Releases the run at the next step boundary, because this process stops soon."""
        self._inbox.put_nowait(HandOver())

    async def perform(self) -> None:
        """Performs the run. Raises ``LeaseLost`` when another worker has taken over."""
        reading = asyncio.create_task(self._setup_in_use.read(self.claimed, self._setup_of))
        try:
            if not await self._begin_at_once(reading) and not await self._begin_alone(reading):
                return
            while self._turn.phase is not Phase.ENDED:
                await self._handle_next()
        finally:
            reading.cancel()
            await self._work.abort()
            self._speaker.close()
            self._calls.close()

    # -- before the first step

    async def _begin_at_once(self, reading: asyncio.Task[None]) -> bool:
        """Begins with the first step, in one transaction; returns whether it did.

        Only a run that has never begun can, and only if its setup takes no long time.
        """
        if self.claimed.fence > 1:
            return False
        transcript = asyncio.create_task(read(read_transcript, self.held.session_id, self.held.key))
        try:
            await asyncio.wait({reading}, timeout=SOON_SECONDS)
            if not reading.done() or reading.exception() is not None:
                return False
            if self._setup_in_use.setup is None or self._setup_in_use.late_servers:
                return False
            stored = await transcript
        finally:
            transcript.cancel()
        prompt = TurnMessage("", Role.USER, (Text(self.claimed.prompt),))
        self._conversation.load((*stored.messages, prompt))
        turn, effects = advance(self._turn, self._begun())
        step = self._step(turn, effects)
        assert step is not None  # noqa: S101  it starts a reply
        with measured(Measured.STEP):
            first = await writer.write(
                self.held.workspace_id,
                lambda tx: begin_with_step(tx, self.held, step, message_count=stored.message_count),
            )
        if first is None:
            self._turn = Turn(phase=Phase.ENDED)
            return True
        measure(Measured.QUEUE_WAIT, (now_ms() - first.run.accepted_at) / 1000)
        self._conversation.load((*stored.messages, *first.prompt))
        await self._unless_cancelled(asyncio.ensure_future(pass_gate("run.begun")))
        await self._follow(turn, effects, step, first.written)
        return True

    async def _begin_alone(self, reading: asyncio.Task[None]) -> bool:
        """Begins while the setup is read; returns ``False`` if the run was cancelled before."""
        run = await writer.write(self.held.workspace_id, lambda tx: begin_run(tx, self.held))
        if run is None:
            return False
        if run.started_at is None:
            measure(Measured.QUEUE_WAIT, (now_ms() - run.accepted_at) / 1000)
        await self._prepare(reading)
        await self._advance(self._begun())
        return True

    def _begun(self) -> Begun:
        tokens = self._conversation.tokens(self.claimed.context_tokens)
        only_summarises = self.claimed.kind == RunKind.SUMMARY
        return Begun(self._setup_in_use.is_full(tokens), only_summarises)

    async def _prepare(self, reading: asyncio.Task[None]) -> None:
        await self._unless_cancelled(asyncio.gather(pass_gate("run.begun"), reading))
        if late := self._setup_in_use.late_servers:
            await writer.write(
                self.held.workspace_id, lambda tx: record_late_servers(tx, self.held, late)
            )
        stored = await read(read_transcript, self.held.session_id, self.held.key)
        self._conversation.load(stored.messages, stored.own)
        if names := unanswered(stored.own):
            await self._unless_cancelled(
                asyncio.ensure_future(self._setup_in_use.wait_for_tools(names))
            )
        steps, results = steps_of(stored.own, self._setup_in_use.parallel)
        self._turn = rebuild(steps, results)

    async def _unless_cancelled(self, work: asyncio.Future[Any]) -> None:
        """Waits for the work, and cancels it as soon as the run is cancelled."""
        try:
            if await unless_set(work, self._cancelled):
                work.result()
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    # -- a step

    async def _handle_next(self) -> None:
        self._is_waiting = True
        happened = await self._inbox.get()
        self._is_waiting = False
        if (offered := self._offered) is not None and await offered.is_stored:
            self._turn = Turn(phase=Phase.ENDED)
            self._keep(offered.step)
            await self._pass_gates(offered.step)
        else:
            await self._advance(happened)

    async def _advance(self, happened: Input) -> None:
        turn, effects = advance(self._turn, happened)
        if any(isinstance(effect, AbortWork) for effect in effects):
            await self._work.abort()
        step = self._step(turn, effects)
        written = Written()
        if step is not None:
            await self._before(step)
            with measured(Measured.STEP):
                written = await writer.write(
                    self.held.workspace_id, lambda tx: write_step(tx, self.held, step)
                )
        await self._follow(turn, effects, step, written)

    async def _follow(
        self, turn: Turn, effects: tuple[Effect, ...], step: Step | None, written: Written
    ) -> None:
        """Continues after a step's commit."""
        if written.is_cancelled:
            # The cancel mark was set before this step's commit, so nothing was written.
            await self._advance(CancelSeen())
            return
        if written.has_ended:
            self._turn = Turn(phase=Phase.ENDED)
            return
        self._turn = turn
        if step is not None:
            self._keep(step)
            await self._pass_gates(step)
        for effect in effects:
            await self._perform(effect, written)
        if written.answered:  # an answer came before the commit, so the run is not parked
            for call_id in written.answered:
                self._inbox.put_nowait(Answered(call_id))
        elif any(isinstance(effect, Park) for effect in effects):
            self._turn = Turn(phase=Phase.ENDED)  # only in this process; its row is parked

    def _step(self, turn: Turn, effects: tuple[Effect, ...]) -> Step | None:
        return step_of(
            effects,
            choice=self._setup_in_use.choice,
            results=self._calls.results,
            reads=self._calls.reads,
            started=self._calls.started,
            cut_rules={
                call.request.id: rule
                for call in turn.calls
                if (rule := self._setup_in_use.cut_rule(call.request.name)) is not None
            },
            reply_write=self._speaker.to_write,
        )

    async def _before(self, step: Step) -> None:
        if step.parks:
            await pass_gate("run.parking")
        if step.end is not None and step.end.outcome is RunOutcome.COMPLETED:
            await self._title.wait(self._cancelled)

    def _keep(self, step: Step) -> None:
        """Adds the written reply and results to the conversation."""
        ids = ((result.name, result.tool_call_id) for result in step.results)
        tools = [(name, step.started[call_id]) for name, call_id in ids if call_id in step.started]
        times = step.reply.times if step.reply is not None else None
        measure_step(times, (step.provider, step.model), tools)
        if step.reply is not None:
            measure_usage(step.reply.usage)
            self._speaker.keep(step.reply)
        self._calls.keep(step.results, step.refusals)

    async def _pass_gates(self, step: Step) -> None:
        """Passes the test gates between a step's commit and the effects that follow it."""
        if step.reply is not None:
            await pass_gate("reply.saved")
        if step.results:
            await pass_gate("result.saved")

    # -- what follows from it

    async def _perform(self, effect: Effect, written: Written) -> None:
        match effect:
            case CallModel():
                await self._request_reply(written, is_summary=False)
            case Summarise():
                await self._request_reply(written, is_summary=True)
            case CheckCall(call_id):
                self._begin(call_id, self._calls.check(call_id))
            case RunTool(call_id):
                self._begin(call_id, self._calls.run(call_id))
            case _:
                pass

    async def _request_reply(self, written: Written, *, is_summary: bool) -> None:
        if self._setup_in_use.setup is None:
            self._inbox.put_nowait(ReplyFailed(self._setup_in_use.fault))
            return
        reply = await self._speaker.begin(written, is_summary=is_summary)
        was_exhausted = self._turn.is_exhausted
        self._begin(MODEL, self._speaker.receive(reply, was_exhausted=was_exhausted))

    def _begin(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        self._work.begin(name, work, on_broken=self._end_broken)

    def _end_broken(self, name: str) -> None:
        if name == MODEL:
            self._inbox.put_nowait(ReplyFailed(BROKEN))
        else:
            self._calls.fail(name, BROKEN)
