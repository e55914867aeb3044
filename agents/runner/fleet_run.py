"""A run that a sub-agent carries out: its words become the session's, its questions ours.

The same claims, cancels and ends as a run of our own, and the same rows; only the turn happens
in another process. A server's crash interrupts it: the sub-agent ends with its parent.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

import orjson

from agents.actions.judging import QuestionChanged, Verdict, judge_call
from agents.actions.steps import Held, ReplyStart, ReplyWrite, Step, Written, begin_run, write_step
from agents.actions.sub_agents import begin_sub_agent, end_sub_agent, note_sub_agent, take_prompts
from agents.fleet.hearing import heard, name_of, words_of
from agents.fleet.parent.assignment import Assignment
from agents.fleet.parent.child import Child
from agents.fleet.parent.errors import FleetError
from agents.fleet.parent.outcome import Ending, Listener, Order, RunLimits
from agents.fleet.parent.outcome import Outcome as Ended
from agents.fleet.provisioning import BadSpec
from agents.models import SubAgentState
from agents.queue.claim import Claimed
from agents.queue.queries import has_waiting_prompts
from agents.runner.checkpoints import Checkpoints
from agents.runner.reply import Reply
from agents.runner.sub_agents import fleet_host
from agents.tools.contract import Question
from agents.turn.effects import End, Outcome
from agents.turn.notes import CANCELLED_NOTE
from permissions.pending import state_of_request
from workspaces.config.cache import configs
from workspaces.config.masking import masked_address
from workspaces.config.settings import FleetRole, Settings
from workspaces.events.hub import Hub
from workspaces.events.parts import FinishReason
from workspaces.storage.moments import now_ms
from workspaces.storage.reader import read
from workspaces.storage.transaction import Transaction
from workspaces.storage.writer import writer

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.5  # for prompts that steer it, and for answers whose event was lost


class FleetRun:
    """Performs one claimed run of a sub-agent until it ends."""

    def __init__(
        self, claimed: Claimed, *, hub: Hub, checkpoints: Checkpoints, server_mark: str
    ) -> None:
        self.claimed = claimed
        self.held = Held(claimed.key, claimed.fence, claimed.workspace_id, claimed.session_id)
        self._hub = hub
        self._checkpoints = checkpoints
        self._server_mark = server_mark
        self._cancelled = asyncio.Event()
        self._answers: dict[str, asyncio.Future[bool]] = {}
        self._reply: Reply | None = None
        self._settings: Settings | None = None
        self._last_event = ""

    # -- what others may call, in the loop

    def cancel(self) -> None:
        """The cancel mark covers this run. Callable often."""
        self._cancelled.set()

    def hand_over(self) -> None:
        """It is in the middle of its work, which ends with this process."""

    def hear_answer(self, call_id: str, *, granted: bool) -> None:
        future = self._answers.get(call_id)
        if future is not None and not future.done():
            future.set_result(granted)

    async def perform(self) -> None:
        """Raises ``LeaseLost`` when another worker has taken over."""
        workspace_id = self.held.workspace_id
        if not await writer.write(workspace_id, lambda tx: begin_run(tx, self.held)):
            return
        role_name = str(orjson.loads(self.claimed.errand).get("role") or "")
        start = Step(start=ReplyStart(role_name, "fleet"))
        written = await writer.write(workspace_id, lambda tx: write_step(tx, self.held, start))
        if written.is_cancelled:
            await self._end(Ended(Ending.CANCELLED))
            return
        await writer.write(workspace_id, lambda tx: begin_sub_agent(tx, self.held, role=role_name))
        assert written.message is not None  # noqa: S101  a reply was begun in this step
        self._reply = Reply(
            self.held, self._hub, self._checkpoints, written.stream_number, written.message
        )
        try:
            await self._end(await self._carry_out(role_name))
        finally:
            self._reply.close()

    # -- the assignment

    async def _carry_out(self, role_name: str) -> Ended:
        self._settings = (await configs().newest_config_of(self.held.workspace_id)).settings
        role = self._settings.fleet.get(role_name)
        if role is None or role.is_disabled:
            why = role.fault if role is not None and role.fault else "it is not configured"
            return Ended(Ending.ERROR, error=f"There is no sub-agent {role_name!r}: {why}.")
        host = fleet_host()
        taking = asyncio.create_task(host.take(self.claimed, role, self._settings))
        try:
            await self._unless_cancelled(taking)
            if not taking.done():
                return Ended(Ending.CANCELLED)
            child = taking.result()
        except (FleetError, BadSpec) as error:
            return Ended(Ending.ERROR, error=str(error))
        finally:
            if not taking.done():
                taking.cancel()
                await asyncio.gather(taking, return_exceptions=True)
        is_usable = False
        try:
            ended = await self._assign(child, role)
            is_usable = ended.is_child_usable
            return ended
        finally:
            await host.give_back(child, is_usable=is_usable)

    async def _assign(self, child: Child, role: FleetRole) -> Ended:
        await self._note(
            state=SubAgentState.RUNNING,
            child_id=child.agent_id[:200],
            endpoint=masked_address(child.endpoint)[:500],
            pid=child.process.pid if child.process is not None else 0,
        )
        assignment = child.assignment(
            Order(self.claimed.prompt),
            listener=Listener(self._hear, self._ask),
            limits=RunLimits(
                wall_clock_seconds=role.wall_clock_seconds,
                idle_seconds=role.idle_seconds,
                most_steps=role.most_steps,
            ),
        )
        work = asyncio.create_task(child.run(assignment))
        beside = [
            asyncio.create_task(self._cancel_when_told(assignment)),
            asyncio.create_task(self._look_around(assignment)),
        ]
        try:
            return await work
        finally:
            for task in (work, *beside):
                task.cancel()
            await asyncio.gather(work, *beside, return_exceptions=True)

    async def _hear(self, event: Any) -> None:
        self._last_event = name_of(event) or self._last_event
        said = heard(event)
        if said is not None and self._reply is not None:
            self._reply.say(said)

    async def _cancel_when_told(self, assignment: Assignment) -> None:
        await self._cancelled.wait()
        await assignment.cancel()

    async def _look_around(self, assignment: Assignment) -> None:
        """Steers with what was prompted meanwhile; tells operators that it lives."""
        told = ""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if await read(has_waiting_prompts, self.held.session_id):
                for text in await writer.write(
                    self.held.workspace_id, lambda tx: take_prompts(tx, self.held)
                ):
                    with contextlib.suppress(FleetError):  # the run ends, and says why
                        await assignment.steer(text)
            if self._last_event != told:
                told = self._last_event
                await self._note(last_event=told, last_event_at=now_ms())

    # -- questions

    async def _ask(self, request_id: str, body: Any) -> bool:
        question = Question(
            tool_name=words_of(body, "tool_name", default="sub-agent", most=200),
            action=words_of(body, "permission_type", default="execute", most=100),
            path=words_of(body, "resource", default=self.claimed.path),
            description=words_of(body, "question", default="A sub-agent asks for permission."),
            params=body if isinstance(body, dict) else {"body": body},
        )
        allowed = self._settings.allowed_tools if self._settings is not None else frozenset()
        future = self._answers[request_id] = asyncio.get_running_loop().create_future()
        try:
            verdict = await writer.write(
                self.held.workspace_id,
                lambda tx: judge_call(
                    tx, self.held, question, call_id=request_id, allowed_tools=allowed
                ),
            )
            if verdict is not Verdict.ASKED:
                return verdict is Verdict.ALLOWED
            await self._note(state=SubAgentState.WAITING)
            granted = await self._answered(request_id, future)
            await self._note(state=SubAgentState.RUNNING)
            return granted
        except QuestionChanged:
            return False
        finally:
            del self._answers[request_id]

    async def _answered(self, request_id: str, future: asyncio.Future[bool]) -> bool:
        while not future.done():
            with contextlib.suppress(TimeoutError):
                return await asyncio.wait_for(asyncio.shield(future), LOOK_SECONDS)
            state = await read(state_of_request, self.held.key, request_id)
            if state != "pending":
                return state == "allowed"
        return future.result()

    # -- the end

    async def _end(self, ended: Ended) -> None:
        written = await self._write_end(ended)
        if written.is_cancelled:
            await self._write_end(Ended(Ending.CANCELLED, events=ended.events))

    async def _write_end(self, ended: Ended) -> Written:
        step = self._last_step(ended)
        answer = ended.result or ""
        return await writer.write(
            self.held.workspace_id,
            lambda tx: end_sub_agent(
                tx,
                self.held,
                step,
                ending=ended.ending.value,
                answer=answer,
                events=ended.events,
            ),
        )

    def _last_step(self, ended: Ended) -> Step:
        match ended.ending:
            case Ending.COMPLETED:
                reason, end = FinishReason.END_TURN, End(Outcome.COMPLETED)
            case Ending.CANCELLED:
                reason = FinishReason.CANCELED
                end = End(Outcome.CANCELLED, reason, CANCELLED_NOTE)
            case _:
                reason = FinishReason.ERROR
                end = End(Outcome.FAILED, reason, ended.error, ended.error)
        reply = None
        if self._reply is not None:
            reply = ReplyWrite(self._reply.message_id, self._reply.parts(), reason)
        return Step(reply=reply, end=end)

    # -- small things

    async def _note(self, **facts: object) -> None:
        def job(tx: Transaction) -> None:
            note_sub_agent(tx, self.held, **facts)

        await writer.write(self.held.workspace_id, job)

    async def _unless_cancelled(self, work: asyncio.Task[Any]) -> None:
        seen = asyncio.ensure_future(self._cancelled.wait())
        try:
            await asyncio.wait({work, seen}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            seen.cancel()
            await asyncio.gather(seen, return_exceptions=True)
