"""Performs a run in a sub-agent: its text goes to the session, its questions to our clients.

The run is claimed, cancelled, ended and stored like any other; only its turn runs in another
process. After a crash of the server, another worker continues it if the assignment was not sent
yet. Later it fails, and its parent continues: an assignment cannot be taken over.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from agents.config.cache import configs
from agents.config.mask import masked_address
from agents.config.settings import FleetRole
from agents.fleet.event_mapping import RemoteToolCalls, name_of, params_of, to_model_event, words_of
from agents.fleet.parent.assignment import ChildAssignment
from agents.fleet.parent.child import RunningChild
from agents.fleet.parent.errors import FleetError
from agents.fleet.parent.outcome import ChildOutcome as Ended
from agents.fleet.parent.outcome import Ending, Listener, Order, RunLimits
from agents.fleet.provisioning.spec import BadSpec
from agents.llm.errors import ReplyTooLarge
from agents.runs.calls.permission_check import CallVerdict, QuestionChanged, check_call
from agents.runs.children.delegations import (
    SubAgentNotes,
    assign_sub_agent,
    begin_sub_agent,
    take_prompts,
    write_end,
)
from agents.runs.children.host import fleet_host
from agents.runs.lease import Lease, LeaseLost
from agents.runs.prompting.begin import begin_run
from agents.runs.queries import has_waiting_prompts, is_held
from agents.runs.reply import Checkpoints, Reply
from agents.runs.rows import Claimed
from agents.runs.steps import OfferedEnd, ReplyStart, Step, write_step
from agents.tools.contract import RequiredPermission
from permissions.models import RequestState
from permissions.queries import state_of_request
from workspaces.delivery.hub import Hub
from workspaces.log.errors import ShuttingDown
from workspaces.log.reader import read
from workspaces.log.writer import writer
from workspaces.tasks import unless_set

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.5  # between two looks for answers, and for prompts that steer the sub-agent
ID_LIMIT = 100


class ChildQuestions:
    """Turns a sub-agent's questions into permission requests. Any number may be open at once.

    An answer given in this process arrives at once. The database is read as well, because another
    process may have stored the answer.
    """

    def __init__(
        self,
        held: Lease,
        *,
        path: str,
        allowed_tools: frozenset[str],
        on_waiting: Callable[[bool], Awaitable[None]],
    ) -> None:
        """``on_waiting`` is called when the first question opens and when the last one closes."""
        self._held = held
        self._path = path
        self._allowed_tools = allowed_tools
        self._on_waiting = on_waiting
        self._answers: dict[str, asyncio.Future[bool]] = {}

    def receive_answer(self, call_id: str, *, granted: bool) -> None:
        future = self._answers.get(call_id)
        if future is not None and not future.done():
            future.set_result(granted)

    async def request_permission(self, request_id: str, body: Any) -> bool:
        """Opens a permission request and returns whether it is granted.

        This task is cancelled if the run ends first, which withdraws the request.
        """
        question = RequiredPermission(
            tool_name=words_of(body, "tool_name", default="sub-agent", most=200),
            action=words_of(body, "permission_type", default="execute", most=100),
            path=words_of(body, "resource", default=self._path),
            description=words_of(body, "question", default="A sub-agent asks for permission."),
            params=params_of(body),
        )
        call_id = _stored_id(request_id)
        try:
            checked = await writer.write(
                self._held.workspace_id,
                lambda tx: check_call(
                    tx,
                    self._held,
                    question,
                    call_id=call_id,
                    allowed_tools=self._allowed_tools,
                ),
            )
        except QuestionChanged:
            return False
        if checked.verdict is not CallVerdict.NEEDS_ANSWER:
            return checked.verdict is CallVerdict.ALLOWED
        return await self._wait(call_id)

    async def _wait(self, call_id: str) -> bool:
        answer = self._answers[call_id] = asyncio.get_running_loop().create_future()
        try:
            if len(self._answers) == 1:
                await self._on_waiting(True)
            return await self._answered(call_id, answer)
        finally:
            del self._answers[call_id]
            if not self._answers:
                await self._on_waiting(False)

    async def _answered(self, call_id: str, answer: asyncio.Future[bool]) -> bool:
        while not answer.done():
            # Read before the first wait: the answer may have come before this process listened.
            state = await read(state_of_request, self._held.key, call_id)
            if state != RequestState.PENDING:
                return state == RequestState.ALLOWED
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    return await asyncio.shield(answer)
        return answer.result()


def _stored_id(request_id: str) -> str:
    """Returns the sub-agent's own id of a request, or its hash if the id is long or unusual."""
    if len(request_id) <= ID_LIMIT and request_id.isascii() and request_id.isprintable():
        return request_id
    return "sa-" + hashlib.blake2b(request_id.encode(), digest_size=16).hexdigest()


class FleetRun:
    """Performs one claimed run of a sub-agent until it ends."""

    provider = "fleet"  # of its reply

    def __init__(
        self, claimed: Claimed, *, hub: Hub, checkpoints: Checkpoints, server_mark: str
    ) -> None:
        self.claimed = claimed
        self.held = Lease(claimed.key, claimed.fence, claimed.workspace_id, claimed.session_id)
        self.role_name = claimed.role
        self._hub = hub
        self._checkpoints = checkpoints
        self._server_mark = server_mark
        self._stop = asyncio.Event()
        self._questions: ChildQuestions | None = None
        self._reply: Reply | None = None
        self._calls = RemoteToolCalls()
        self._fault: dict[str, Any] | None = None  # replaces these fields of the end
        self._notes = SubAgentNotes(self.held)

    # -- what others may call, in the loop

    @property
    def is_cancelled(self) -> bool:
        return self._stop.is_set()

    def cancel(self) -> None:
        """Cancels the run. May be called repeatedly."""
        self._stop.set()

    def hand_over(self) -> None:
        """Does nothing: the run cannot be handed over, because its work ends with this process."""

    def offer_end(self) -> OfferedEnd | None:
        """Returns ``None``: the run stores its own end, after its sub-agent has stopped."""
        return None

    def receive_answer(self, call_id: str, *, granted: bool) -> None:
        if self._questions is not None:
            self._questions.receive_answer(call_id, granted=granted)

    async def perform(self) -> None:
        """Performs the run to its end. Raises ``LeaseLost`` when another worker has taken over."""
        workspace_id = self.held.workspace_id
        if not await writer.write(workspace_id, lambda tx: begin_run(tx, self.held)):
            return
        start = Step(start=ReplyStart(self.role_name, self.provider))
        written = await writer.write(workspace_id, lambda tx: write_step(tx, self.held, start))
        if written.is_cancelled:
            await write_end(self.held, None, Ended(Ending.CANCELLED))
            return
        if written.has_ended:
            return
        await writer.write(
            workspace_id, lambda tx: begin_sub_agent(tx, self.held, role=self.role_name)
        )
        assert written.message is not None  # noqa: S101  a reply was begun in this step
        self._reply = Reply(
            self.held, self._hub, self._checkpoints, written.stream_number, written.message
        )
        try:
            ended = await self._carry_out()
            await write_end(self.held, self._reply, ended)
        finally:
            self._reply.close()

    # -- the assignment

    async def _carry_out(self) -> Ended:
        role_name = self.role_name
        settings = (await configs().newest_config_of(self.held.workspace_id)).settings
        role = settings.fleet.get(role_name)
        if role is None or role.is_disabled:
            why = "it is not configured" if role is None else role.fault or "it is disabled"
            return Ended(Ending.ERROR, error=f"There is no sub-agent {role_name!r}: {why}")
        self._questions = ChildQuestions(
            self.held,
            path=self.claimed.path,
            allowed_tools=settings.allowed_tools,
            on_waiting=self._notes.write_waiting,
        )
        host = fleet_host()
        taking = asyncio.create_task(host.take(self.claimed, role, settings))
        try:
            if not await unless_set(taking, self._stop):
                return Ended(Ending.CANCELLED)
            child = taking.result()
        except (FleetError, BadSpec) as error:
            return Ended(Ending.ERROR, error=str(error))
        finally:
            await _end_all(taking)
        is_usable = False
        try:
            order, limits = Order(self.claimed.prompt), _limits_of(role)
            ended = await self._assign(child, order, limits, self._questions)
            is_usable = ended.is_child_usable
            return ended
        finally:
            await host.give_back(child, is_usable=is_usable)

    async def _assign(
        self, child: RunningChild, order: Order, limits: RunLimits, questions: ChildQuestions
    ) -> Ended:
        await writer.write(
            self.held.workspace_id,
            lambda tx: assign_sub_agent(
                tx,
                self.held,
                child_id=child.agent_id[:200],
                endpoint=masked_address(child.endpoint)[:500],
                pid=child.process.pid if child.process is not None else 0,
            ),
        )
        assignment = child.assignment(
            order,
            listener=Listener(self._receive, questions.request_permission),
            limits=limits,
        )
        work = asyncio.create_task(child.run(assignment))
        looking = asyncio.create_task(self._look_around(assignment))
        cancelling = asyncio.create_task(self._cancel_when_stopped(assignment))
        try:
            await asyncio.wait({work, looking}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                looking.result()  # raises: the task ends early only when the lease is lost
            return work.result() if self._fault is None else replace(work.result(), **self._fault)
        finally:
            await _end_all(work, looking, cancelling)

    async def _receive(self, event: Any) -> None:
        self._notes.count(name_of(event))
        if self._reply is None or self._fault is not None:
            return
        mapped = to_model_event(event)
        try:
            for words in self._calls.begun(event) if mapped is None else (mapped,):
                self._reply.add(words)
        except ReplyTooLarge as error:
            self._fault = {"ending": Ending.ERROR, "result": None, "error": str(error)}
            self._stop.set()
        if (result := self._calls.ended(event)) is not None:
            step = Step(results=[result])
            await writer.write(self.held.workspace_id, lambda tx: write_step(tx, self.held, step))

    async def _cancel_when_stopped(self, assignment: ChildAssignment) -> None:
        await self._stop.wait()
        await assignment.cancel()

    async def _look_around(self, assignment: ChildAssignment) -> None:
        """Sends new prompts to the sub-agent, and writes its progress into the row for operators.

        Raises ``LeaseLost`` when another worker has settled the run.
        """
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                if not await read(is_held, self.held.key, self.held.fence):
                    raise LeaseLost
                if await read(has_waiting_prompts, self.held.session_id):
                    await self._steer(assignment)
                await self._notes.write_events()
            except (LeaseLost, ShuttingDown):
                raise
            except Exception:
                logger.exception("looking after a sub-agent failed; the next look tries again")

    async def _steer(self, assignment: ChildAssignment) -> None:
        texts = await writer.write(self.held.workspace_id, lambda tx: take_prompts(tx, self.held))
        for text in texts:
            with contextlib.suppress(FleetError):  # the run then ends with its own error
                await assignment.steer(text)


def _limits_of(role: FleetRole) -> RunLimits:
    return RunLimits(
        wall_clock_seconds=role.wall_clock_seconds,
        idle_seconds=role.idle_seconds,
        most_steps=role.most_steps,
    )


async def _end_all(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
