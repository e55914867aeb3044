"""Requests a reply or a summary from the model, receives it, and holds it until it is written.

Its text goes to the hub at once and into checkpoints. Its end becomes an input of the turn machine.
The run decides when to write it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import orjson

from agents.llm.assembly import ReplyAssembly
from agents.llm.contract import ModelEvent, ModelRequest, Provider, Restarted, Stopped
from agents.llm.errors import ContextExhausted, ModelError
from agents.llm.retries import MOST_TRIES, stream_with_retries
from agents.llm.usage import RequestUsage, cost_of
from agents.runs.conversation import Conversation, read_transcript
from agents.runs.file_tracker import DatabaseTodos
from agents.runs.lease import Lease, require_lease
from agents.runs.messages import Retry, whole_calls
from agents.runs.objects.run_timeline import ReplyTimes
from agents.runs.rows import FENCE_IS_NEWEST
from agents.runs.setup import RunSetup, SetupInUse, summary_request
from agents.runs.steps import ReplyWrite, Written
from agents.turn.inputs import Input, Replied, ReplyFailed, RequestedCall
from agents.turn.transcript import TurnMessage
from workspaces.actions import messages
from workspaces.delivery.hub import Hub
from workspaces.delivery.open_message import LiveMessage
from workspaces.log.errors import ShuttingDown
from workspaces.log.parts import (
    FinishReason,
    Parts,
    Role,
    ToolCall,
    parts_to_wire,
    plain_text,
    tool_calls,
)
from workspaces.log.reader import read
from workspaces.log.timestamps import now_ms
from workspaces.log.transaction import Transaction
from workspaces.log.types import Delta
from workspaces.log.writer import writer


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The content of an open reply so far."""

    held: Lease
    message_id: str
    stream_number: int
    parts: Parts


def save_checkpoints(tx: Transaction, checkpoints: Sequence[Checkpoint]) -> None:
    """Writes the checkpoints. Appends no event, because readers already have the text.

    A checkpoint changes nothing if its lease is lost, or its reply is finished or was restarted.
    """
    tx.execute_many(
        "UPDATE workspaces_message SET parts = %s, updated_at = %s WHERE id = %s"
        " AND stream_number = %s"
        f" AND {FENCE_IS_NEWEST}",
        [
            (
                orjson.dumps(parts_to_wire(c.parts)).decode(),
                tx.now,
                c.message_id,
                c.stream_number,
                c.held.key,
                c.held.fence,
            )
            for c in checkpoints
        ],
    )


def restart_reply(tx: Transaction, held: Lease, message_id: str, retry: Retry) -> int:
    """Empties a reply whose attempt failed, before the next attempt."""
    run = require_lease(tx, held)
    return messages.restart_message(tx, run.workspace_id, message_id, retry=asdict(retry))[0]


logger = logging.getLogger(__name__)

# Together with the write itself, text is in its row 250 ms after readers got it.
INTERVAL_SECONDS = 0.2


class Checkpoints:
    def __init__(self) -> None:
        self._open: dict[str, Reply] = {}  # by message id
        self._sizes: dict[str, tuple[int, int]] = {}  # the size of each that was saved last
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._save_all(), name="checkpoints")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def open(self, reply: Reply) -> None:
        self._open[reply.message_id] = reply

    def close(self, reply: Reply) -> None:
        """Stops writing checkpoints of this reply. May be called twice."""
        self._open.pop(reply.message_id, None)
        self._sizes.pop(reply.message_id, None)

    async def _save_all(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL_SECONDS)
            changed = [reply for reply in self._open.values() if self._has_news(reply)]
            if not changed:
                continue
            rows = [
                Checkpoint(reply.held, reply.message_id, reply.number, reply.parts())
                for reply in changed
            ]
            try:
                await writer.write("", partial(save_checkpoints, checkpoints=rows))
            except ShuttingDown:
                return
            except Exception as error:  # noqa: BLE001  the whole message is written at its end
                logger.warning("checkpoints were not written: %s", error)

    def _has_news(self, reply: Reply) -> bool:
        size = (reply.number, reply.assembly.size)
        if self._sizes.get(reply.message_id) == size:
            return False
        self._sizes[reply.message_id] = size
        return True


@dataclass
class Reply:
    """The reply that a run is receiving, or has received and not yet saved."""

    held: Lease
    hub: Hub
    checkpoints: Checkpoints
    number: int
    message: Mapping[str, Any]
    taken: frozenset[str] = frozenset()  # call ids of the run's earlier replies
    on_begin: Callable[[], None] | None = None  # called at the model's first text
    is_summary: bool = False

    def __post_init__(self) -> None:
        self.message_id: str = self.message["id"]
        self.assembly = ReplyAssembly(taken=self.taken)
        self.may_grow = asyncio.Event()
        self.may_grow.set()
        self.times = ReplyTimes(now_ms())
        self.checkpoints.open(self)
        self.hub.begin(self.held.workspace_id, LiveMessage(self.number, self.message))

    def parts(self) -> Parts:
        return self.assembly.parts(now=now_ms() // 1000)

    async def receive(self, provider: Provider, request: ModelRequest) -> Stopped:
        """Receives the reply to its regular end. Raises ``ModelError``.

        Cancelling closes the stream.
        """
        stream = stream_with_retries(provider, request)
        stopped: Stopped | None = None
        try:
            async for batch in stream:
                await self.may_grow.wait()
                now = now_ms() // 1000
                self.times.mark_text()
                if self.on_begin is not None:
                    self.on_begin()
                    self.on_begin = None
                for event in batch:
                    if type(event) is Restarted:
                        await self._restart(event)
                    elif type(event) is Stopped:
                        stopped = event
                        self.times.model = event.model
                        self.assembly.apply(event, now=now)
                    else:
                        self._send(event, now)
        finally:
            await stream.aclose()
        if stopped is None:
            raise AssertionError("a stream ends with Stopped")
        return stopped

    def add(self, event: ModelEvent) -> None:
        """Adds an event that does not come from a model's stream, for instance a sub-agent's."""
        self._send(event, now_ms() // 1000)

    def _send(self, event: ModelEvent, now: int) -> None:
        added = self.assembly.apply(event, now=now)
        if added is not None:
            delta = Delta(self.number, *added)
            self.hub.stream(self.held.workspace_id, delta)

    async def _restart(self, event: Restarted) -> None:
        logger.info("the model's stream starts again: %s", event.reason)
        self.assembly.reset()
        self.times.restart(event.attempt)
        self.hub.end(self.held.workspace_id, self.number)
        retry = Retry(event.attempt, MOST_TRIES, round(event.delay_seconds, 1), event.reason)
        self.number = await writer.write(
            self.held.workspace_id,
            lambda tx: restart_reply(tx, self.held, self.message_id, retry),
        )
        self.hub.begin(self.held.workspace_id, LiveMessage(self.number, self.message))

    def close(self) -> None:
        """Ends the checkpoints and deltas of the message, which is saved or abandoned."""
        self.checkpoints.close(self)
        self.hub.end(self.held.workspace_id, self.number)


NO_SUMMARY = "The model gave no summary of the conversation; try again, or begin a new session."


class Speaker:
    def __init__(
        self,
        held: Lease,
        setup: SetupInUse,
        conversation: Conversation,
        *,
        hub: Hub,
        checkpoints: Checkpoints,
        on_begin: Callable[[], None],
        put: Callable[[Input], None],
    ) -> None:
        """``on_begin`` is called at the first text of each reply."""
        self._held = held
        self._setup_in_use = setup
        self._conversation = conversation
        self._hub = hub
        self._checkpoints = checkpoints
        self._on_begin = on_begin
        self._put = put
        self._reply: Reply | None = None
        self._usage = RequestUsage()  # of the reply
        self._is_summarised = False  # a summary was written and has not been read yet

    async def begin(self, written: Written, *, is_summary: bool) -> Reply:
        """Returns the empty reply whose message a step has begun."""
        if written.folded or self._is_summarised:
            stored = await read(read_transcript, self._held.session_id, self._held.key)
            self._conversation.load(stored.messages)
        self._is_summarised = is_summary
        assert written.message is not None  # noqa: S101  a reply was begun in this step
        self._reply = Reply(
            self._held,
            self._hub,
            self._checkpoints,
            written.stream_number,
            written.message,
            frozenset(self._conversation.call_ids),
            on_begin=self._on_begin,
            is_summary=is_summary,
        )
        return self._reply

    async def receive(self, reply: Reply, *, was_exhausted: bool) -> None:
        """Receives the reply and puts its end into the inbox. Cancelling closes the stream."""
        if not reply.is_summary:
            await self._setup_in_use.take_late_tools()
        setup = self._setup_in_use.setup
        assert setup is not None  # noqa: S101  without a model, no reply was begun
        request = await self._request(reply, setup, was_exhausted=was_exhausted)
        try:
            stopped = await reply.receive(setup.model.provider, request)
        except ModelError as error:
            exhausted = isinstance(error, ContextExhausted) and setup.settings.auto_summarize
            self._put(ReplyFailed(error.sentence, is_exhausted=exhausted))
            return
        model = setup.model
        cost = cost_of(stopped.usage, model.info)
        used = RequestUsage(model.choice.provider, model.choice.model, stopped.usage, cost)
        self._usage = used
        parts = reply.parts()
        if reply.is_summary and not plain_text(parts).strip():
            self._put(ReplyFailed(NO_SUMMARY))
            return
        calls = tuple(
            RequestedCall(call.id, call.name, call.input, self._setup_in_use.is_parallel(call.name))
            for call in tool_calls(parts)
        )
        tokens = self._conversation.tokens(used.prompt_tokens + used.completion_tokens)
        self._put(Replied(stopped.reason, calls, self._setup_in_use.is_full(tokens)))

    async def _request(self, reply: Reply, setup: RunSetup, *, was_exhausted: bool) -> ModelRequest:
        if reply.is_summary:
            return summary_request(
                setup,
                self._conversation.messages,
                await DatabaseTodos(self._held.workspace_id, self._held.session_id).read(),
                session_id=self._held.session_id,
                was_exhausted=was_exhausted,
            )
        return setup.model.request(
            setup.system,
            tuple(self._conversation.messages),
            setup.tools,
            session_id=self._held.session_id,
            working_dir=setup.working_dir,
            memo=self._conversation.memo,
        )

    def to_write(self, reason: FinishReason) -> ReplyWrite | None:
        """Returns the reply for a step to write, with this finish reason; ``None`` without one."""
        if self._reply is None:
            return None
        parts = self._reply.parts()
        if self._reply.is_summary:  # its request had no tools
            parts = tuple(part for part in parts if not isinstance(part, ToolCall))
        elif reason is not FinishReason.TOOL_USE:
            parts = whole_calls(parts)
        used = self._usage
        return ReplyWrite(
            self._reply.message_id,
            parts,
            reason,
            used,
            context_tokens=self._conversation.tokens(used.prompt_tokens + used.completion_tokens),
            is_summary=self._reply.is_summary,
            times=self._reply.times,
            begun=self._reply.message,
        )

    def hold(self) -> None:
        """Adds nothing to the reply until ``go_on``."""
        if self._reply is not None:
            self._reply.may_grow.clear()

    def go_on(self) -> None:
        if self._reply is not None:
            self._reply.may_grow.set()

    def keep(self, written: ReplyWrite) -> None:
        """Adds the written reply to the conversation, and closes it for deltas."""
        if self._reply is None:
            return
        if not self._reply.is_summary:
            reply = TurnMessage(written.message_id, Role.ASSISTANT, written.parts)
            self._conversation.add_reply(reply)
        self.close()
        self._reply = None
        self._usage = RequestUsage()

    def close(self) -> None:
        if self._reply is not None:
            self._reply.close()
