"""Performs a run in a sub-agent: its text goes to the session, its questions to our clients.

The run has the same claims, cancels, ends and rows as any other; only its turn happens in another
process. A crash of the server interrupts it: the sub-agent ends with its parent.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import replace
from typing import Any

import orjson

from agents.config.cache import configs
from agents.config.mask import masked_address
from agents.config.settings import FleetRole
from agents.fleet.event_mapping import RemoteToolCalls, name_of, to_model_event
from agents.fleet.parent.assignment import ChildAssignment
from agents.fleet.parent.child import RunningChild
from agents.fleet.parent.errors import FleetError
from agents.fleet.parent.outcome import ChildOutcome as Ended
from agents.fleet.parent.outcome import Ending, Listener, Order, RunLimits
from agents.fleet.provisioning import BadSpec
from agents.llm.errors import ReplyTooLarge
from agents.models import SubAgentState
from agents.runs.children.host import fleet_host
from agents.runs.children.questions import ChildQuestions
from agents.runs.children.rows import begin_sub_agent, end_sub_agent, note_sub_agent, take_prompts
from agents.runs.claim import has_waiting_prompts, is_held
from agents.runs.lease import Lease, LeaseLost
from agents.runs.reply import Checkpoints, Reply
from agents.runs.rows import Claimed
from agents.runs.steps import ReplyStart, ReplyWrite, Step, Written, begin_run, write_step
from agents.tools.limits import MAX_AGENT_ANSWER, cut_middle
from agents.turn.effects import End, Outcome
from agents.turn.notes import CANCELLED_NOTE
from workspaces.delivery.hub import Hub
from workspaces.log.errors import ShuttingDown
from workspaces.log.parts import FinishReason
from workspaces.log.reader import read
from workspaces.log.timestamps import now_ms
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer

TELL_MS = 5_000


class FleetNotes:
    def __init__(self, held: Lease) -> None:
        self._held = held
        self._last_event, self._events = "", 0
        self._told_event, self._told_events, self._told_at = "", 0, 0

    def count(self, event: str) -> None:
        """An event of this kind was heard; empty where it has none."""
        self._last_event = event or self._last_event
        self._events += 1

    async def tell_events(self) -> None:
        """At once for an event of another kind, else now and then: there may be thousands."""
        now = now_ms()
        is_new = self._last_event != self._told_event
        if self._events == self._told_events or not (is_new or now >= self._told_at + TELL_MS):
            return
        self._told_event, self._told_events, self._told_at = self._last_event, self._events, now
        await self.tell(last_event=self._last_event, last_event_at=now, events=self._events)

    async def tell_waiting(self, waits: bool) -> None:
        await self.tell(state=SubAgentState.WAITING if waits else SubAgentState.RUNNING)

    async def tell(self, **facts: object) -> None:
        def job(tx: Transaction) -> None:
            note_sub_agent(tx, self._held, **facts)

        await writer.write(self._held.workspace_id, job)


async def write_end(held: Lease, reply: Reply | None, ended: Ended) -> None:
    """As cancelled where the mark came before. Raises ``LeaseLost``."""
    written = await _write(held, reply, ended)
    if written.is_cancelled:
        await _write(held, reply, Ended(Ending.CANCELLED, events=ended.events))


async def _write(held: Lease, reply: Reply | None, ended: Ended) -> Written:
    step = _last_step(reply, ended)
    answer = cut_middle(ended.result or "", MAX_AGENT_ANSWER)
    return await writer.write(
        held.workspace_id,
        lambda tx: end_sub_agent(
            tx,
            held,
            step,
            ending=ended.ending.value,
            answer=answer,
            events=ended.events,
        ),
    )


def _last_step(reply: Reply | None, ended: Ended) -> Step:
    match ended.ending:
        case Ending.COMPLETED:
            reason, end = FinishReason.END_TURN, End(Outcome.COMPLETED)
        case Ending.CANCELLED:
            reason = FinishReason.CANCELED
            end = End(Outcome.CANCELLED, reason, CANCELLED_NOTE)
        case _:
            reason = FinishReason.ERROR
            end = End(Outcome.FAILED, reason, ended.error, ended.error)
    said = ReplyWrite(reply.message_id, reply.parts(), reason) if reply is not None else None
    return Step(reply=said, end=end)


logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.5  # for prompts that steer it


class FleetRun:
    """Performs one claimed run of a sub-agent until it ends."""

    def __init__(
        self, claimed: Claimed, *, hub: Hub, checkpoints: Checkpoints, server_mark: str
    ) -> None:
        self.claimed = claimed
        self.held = Lease(claimed.key, claimed.fence, claimed.workspace_id, claimed.session_id)
        self._hub = hub
        self._checkpoints = checkpoints
        self._server_mark = server_mark
        self._stop = asyncio.Event()
        self._questions: ChildQuestions | None = None
        self._reply: Reply | None = None
        self._calls = RemoteToolCalls()
        self._fault: dict[str, Any] | None = None  # what its end is changed to
        self._notes = FleetNotes(self.held)

    # -- what others may call, in the loop

    def cancel(self) -> None:
        """The cancel mark covers this run. Callable often."""
        self._stop.set()

    def hand_over(self) -> None:
        """It is in the middle of its work, which ends with this process."""

    def hear_answer(self, call_id: str, *, granted: bool) -> None:
        if self._questions is not None:
            self._questions.hear_answer(call_id, granted=granted)

    async def perform(self) -> None:
        """Raises ``LeaseLost`` when another worker has taken over."""
        workspace_id = self.held.workspace_id
        if not await writer.write(workspace_id, lambda tx: begin_run(tx, self.held)):
            return
        role_name = str(orjson.loads(self.claimed.errand).get("role") or "")
        start = Step(start=ReplyStart(role_name, "fleet"))
        written = await writer.write(workspace_id, lambda tx: write_step(tx, self.held, start))
        if written.is_cancelled:
            await write_end(self.held, None, Ended(Ending.CANCELLED))
            return
        await writer.write(workspace_id, lambda tx: begin_sub_agent(tx, self.held, role=role_name))
        assert written.message is not None  # noqa: S101  a reply was begun in this step
        self._reply = Reply(
            self.held, self._hub, self._checkpoints, written.stream_number, written.message
        )
        try:
            ended = await self._carry_out(role_name)
            await write_end(self.held, self._reply, ended)
        finally:
            self._reply.close()

    # -- the assignment

    async def _carry_out(self, role_name: str) -> Ended:
        settings = (await configs().newest_config_of(self.held.workspace_id)).settings
        role = settings.fleet.get(role_name)
        if role is None or role.is_disabled:
            why = "it is not configured" if role is None else role.fault or "it is disabled"
            return Ended(Ending.ERROR, error=f"There is no sub-agent {role_name!r}: {why}")
        self._questions = ChildQuestions(
            self.held,
            path=self.claimed.path,
            allowed_tools=settings.allowed_tools,
            on_waiting=self._notes.tell_waiting,
        )
        host = fleet_host()
        taking = asyncio.create_task(host.take(self.claimed, role, settings))
        try:
            await self._unless_cancelled(taking)
            if not taking.done():
                return Ended(Ending.CANCELLED)
            child = taking.result()
        except (FleetError, BadSpec) as error:
            return Ended(Ending.ERROR, error=str(error))
        finally:
            await _end_all(taking)
        is_usable = False
        try:
            ended = await self._assign(child, role, self._questions)
            is_usable = ended.is_child_usable
            return ended
        finally:
            await host.give_back(child, is_usable=is_usable)

    async def _assign(
        self, child: RunningChild, role: FleetRole, questions: ChildQuestions
    ) -> Ended:
        await self._notes.tell(
            state=SubAgentState.RUNNING,
            child_id=child.agent_id[:200],
            endpoint=masked_address(child.endpoint)[:500],
            pid=child.process.pid if child.process is not None else 0,
        )
        assignment = child.assignment(
            Order(self.claimed.prompt),
            listener=Listener(self._hear, questions.ask),
            limits=RunLimits(
                wall_clock_seconds=role.wall_clock_seconds,
                idle_seconds=role.idle_seconds,
                most_steps=role.most_steps,
            ),
        )
        work = asyncio.create_task(child.run(assignment))
        looking = asyncio.create_task(self._look_around(assignment))
        cancelling = asyncio.create_task(self._cancel_when_told(assignment))
        try:
            await asyncio.wait({work, looking}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                looking.result()  # it returns for no other reason than that the claim is lost
            return work.result() if self._fault is None else replace(work.result(), **self._fault)
        finally:
            await _end_all(work, looking, cancelling)

    async def _hear(self, event: Any) -> None:
        self._notes.count(name_of(event))
        if self._reply is None or self._fault is not None:
            return
        said = to_model_event(event)
        try:
            for words in self._calls.begun(event) if said is None else (said,):
                self._reply.say(words)
        except ReplyTooLarge as error:
            self._fault = {"ending": Ending.ERROR, "result": None, "error": str(error)}
            self._stop.set()
        if (result := self._calls.ended(event)) is not None:
            step = Step(results=[result])
            await writer.write(self.held.workspace_id, lambda tx: write_step(tx, self.held, step))

    async def _cancel_when_told(self, assignment: ChildAssignment) -> None:
        await self._stop.wait()
        await assignment.cancel()

    async def _look_around(self, assignment: ChildAssignment) -> None:
        """Steers with what was prompted meanwhile; tells operators that it lives.

        Raises ``LeaseLost`` when another worker has settled the run.
        """
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                if not await read(is_held, self.held.key, self.held.fence):
                    raise LeaseLost
                if await read(has_waiting_prompts, self.held.session_id):
                    await self._steer(assignment)
                await self._notes.tell_events()
            except (LeaseLost, ShuttingDown):
                raise
            except Exception:
                logger.exception("looking after a sub-agent failed; the next look tries again")

    async def _steer(self, assignment: ChildAssignment) -> None:
        texts = await writer.write(self.held.workspace_id, lambda tx: take_prompts(tx, self.held))
        for text in texts:
            with contextlib.suppress(FleetError):  # the run ends, and says why
                await assignment.steer(text)

    async def _unless_cancelled(self, work: asyncio.Task[Any]) -> None:
        seen = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({work, seen}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _end_all(seen)


async def _end_all(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
