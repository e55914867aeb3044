"""One run, performed: inputs go to the turn machine, its effects are carried out.

The durable effects of an advance are one transaction; only after its commit
the others begin. Work in progress (the model's stream, tools) are tasks that
put what happened into the inbox.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from agents.actions.finish import whole_calls
from agents.actions.judging import Verdict
from agents.actions.steps import (
    Held,
    ReplyStart,
    ReplyWrite,
    Step,
    Written,
    begin_run,
    write_step,
)
from agents.gates import pass_gate
from agents.llm.errors import ModelError
from agents.llm.usage import cost_of
from agents.queue.claim import Claimed
from agents.runner import calls
from agents.runner.brief import Brief, brief_of
from agents.runner.checkpoints import Checkpoints
from agents.runner.reply import Reply
from agents.runner.title import give_title
from agents.runner.transcript_rows import read_transcript, steps_of
from agents.turn.effects import (
    AbortWork,
    CallModel,
    Effect,
    End,
    GiveResult,
    Judge,
    Outcome,
    Park,
    Release,
    RunTool,
    SaveReply,
    SaveResult,
)
from agents.turn.inputs import (
    Allowed,
    AnswerNeeded,
    Asked,
    Begun,
    CancelSeen,
    Denied,
    HandOver,
    Input,
    Replied,
    ReplyFailed,
    ToolEnded,
)
from agents.turn.machine import Phase, Turn, advance, rebuild
from agents.turn.transcript import Message
from workspaces.events.hub import Hub
from workspaces.events.parts import (
    FinishReason,
    Role,
    ToolCall,
    ToolResult,
    tool_calls,
)
from workspaces.storage.reader import read
from workspaces.storage.writer import writer

logger = logging.getLogger(__name__)

TITLE_SECONDS = 1.0


class RunTask:
    """Performs one claimed run until it ends, parks, or is handed over."""

    def __init__(
        self,
        claimed: Claimed,
        *,
        hub: Hub,
        checkpoints: Checkpoints,
        server_mark: str,
        side: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        """``side`` begins work that may outlive the run."""
        self.claimed = claimed
        self.held = Held(claimed.key, claimed.fence, claimed.workspace_id, claimed.session_id)
        self._hub = hub
        self._checkpoints = checkpoints
        self._server_mark = server_mark
        self._side = side
        self._title: asyncio.Task[None] | None = None
        self._inbox: asyncio.Queue[Input] = asyncio.Queue()
        self._cancelled = asyncio.Event()
        self._work: dict[str, asyncio.Task[None]] = {}
        self._turn = Turn()
        self._brief: Brief | None = None
        self._brief_error = ""
        self._reply: Reply | None = None
        self._usage = (0, 0, 0.0)  # of the reply: prompt tokens, completion tokens, cost
        self._calls: dict[str, ToolCall] = {}
        self._call_ids: set[str] = set()
        self._call_message_id = ""
        self._results: dict[str, ToolResult] = {}
        self._messages: list[Message] = []

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
        brief = asyncio.create_task(self._read_brief())
        try:
            if await writer.write(self.held.workspace_id, lambda tx: begin_run(tx, self.held)):
                await self._prepare(brief)
                await self._advance(Begun())
                while self._turn.phase is not Phase.ENDED:
                    await self._advance(await self._inbox.get())
        finally:
            brief.cancel()
            await self._abort()
            if self._reply is not None:
                self._reply.close()

    # -- before the first step

    async def _prepare(self, brief: asyncio.Task[None]) -> None:
        await self._unless_cancelled(asyncio.gather(pass_gate("run.begun"), brief))
        parallel = frozenset(
            name
            for name, tool in (self._brief.tools if self._brief else {}).items()
            if tool.parallel
        )
        stored = await read(read_transcript, self.held.session_id, self.held.key)
        self._messages = list(stored.messages)
        steps, results = steps_of(stored.own, parallel)
        self._turn = rebuild(steps, results)
        for message in stored.own:
            self._remember_calls(message)

    async def _read_brief(self) -> None:
        try:
            self._brief = await brief_of(self.held.workspace_id, self.claimed.path)
        except ModelError as error:
            self._brief_error = error.sentence

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
            await self._abort()
        step = self._step(effects)
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
        if written.answered:
            for call_id, granted in written.answered:
                self._inbox.put_nowait(Allowed(call_id) if granted else Denied(call_id))
            return
        if step is not None:
            self._keep(step)
            await self._pass_gates(step)
        for effect in effects:
            await self._perform(effect, written)
        if any(isinstance(effect, Park) for effect in effects):
            self._turn = Turn(phase=Phase.ENDED)  # here; its row says that it waits

    async def _pass_gates(self, step: Step) -> None:
        """Where a step is written and what follows from it has not begun."""
        if step.reply is not None:
            await pass_gate("reply.saved")
        if step.results:
            await pass_gate("result.saved")

    def _step(self, effects: tuple[Effect, ...]) -> Step | None:
        """The durable effects, as one write."""
        reply: ReplyWrite | None = None
        results: list[ToolResult] = []
        refusals: dict[str, str] = {}
        begins: list[str] = []
        start: ReplyStart | None = None
        end: End | None = None
        for effect in effects:
            match effect:
                case SaveReply():
                    reply = self._reply_write(effect.reason)
                case SaveResult():
                    results.append(self._results[effect.call_id])
                case GiveResult():
                    known = self._results.get(effect.call_id)
                    if known is not None:  # it came to its end just before the cancel
                        results.append(known)
                    else:
                        refusals[effect.call_id] = effect.content
                case RunTool():
                    begins.append(effect.call_id)
                case CallModel() if self._brief is not None:
                    choice = self._brief.large.choice
                    start = ReplyStart(choice.model, choice.provider, effect.fold)
                case End():
                    end = effect
                case _:
                    pass
        parks = any(isinstance(effect, Park) for effect in effects)
        releases = any(isinstance(effect, Release) for effect in effects)
        durable = (reply, results, refusals, begins, start, parks, releases, end)
        if not any(durable):
            return None
        chosen = self._brief.large.choice if self._brief is not None else None
        return Step(
            reply,
            results,
            refusals,
            begins,
            start,
            parks=parks,
            releases=releases,
            end=end,
            model=chosen.model if chosen is not None else "",
            provider=chosen.provider if chosen is not None else "",
        )

    def _reply_write(self, reason: FinishReason) -> ReplyWrite | None:
        if self._reply is None:
            return None
        parts = self._reply.parts()
        if reason is not FinishReason.TOOL_USE:
            parts = whole_calls(parts)
        return ReplyWrite(self._reply.message_id, parts, reason, *self._usage)

    def _keep(self, step: Step) -> None:
        """What was written is part of the transcript from now on."""
        if step.reply is not None and self._reply is not None:
            message = Message(step.reply.message_id, Role.ASSISTANT, step.reply.parts)
            self._messages.append(message)
            self._remember_calls(message)
            self._reply.close()
            self._reply = None
            self._usage = (0, 0, 0.0)
        refused = [
            calls.failure(self._calls[call_id], content)
            for call_id, content in step.refusals.items()
        ]
        for result in [*step.results, *refused]:
            self._messages.append(Message("", Role.TOOL, (result,)))
            self._results.pop(result.tool_call_id, None)

    def _remember_calls(self, message: Message) -> None:
        made = tool_calls(message.parts)
        if made:
            self._calls = {call.id: call for call in made}
            self._call_ids |= set(self._calls)
            self._call_message_id = message.id

    async def _perform(self, effect: Effect, written: Written) -> None:
        match effect:
            case CallModel():
                if self._brief is None:
                    self._inbox.put_nowait(ReplyFailed(self._brief_error))
                    return
                if written.folded:
                    stored = await read(read_transcript, self.held.session_id, self.held.key)
                    self._messages = list(stored.messages)
                assert written.message is not None  # noqa: S101  a reply was begun in this step
                self._reply = Reply(
                    self.held,
                    self._hub,
                    self._checkpoints,
                    written.stream_number,
                    written.message,
                    frozenset(self._call_ids),
                    on_begin=self._begin_title,
                )
                self._spawn("model", self._receive(self._reply, self._brief))
            case Judge():
                self._spawn(effect.call_id, self._judge(effect.call_id))
            case RunTool():
                self._spawn(effect.call_id, self._run_tool(effect.call_id))
            case _:
                pass

    async def _before(self, step: Step) -> None:
        if step.parks:
            await pass_gate("run.parking")
        if step.end is not None and step.end.outcome is Outcome.COMPLETED:
            await self._wait_for_title()

    # -- the title

    def _begin_title(self) -> None:
        # Not before the first words of the answer: somebody waits for those.
        if self._title is None and self.claimed.is_first and self.claimed.kind == "prompt":
            self._title = self._side(give_title(self.claimed))

    async def _wait_for_title(self) -> None:
        """A session's first run ends with its title known, unless that takes long."""
        if self._title is not None and not self._title.done():
            seen = asyncio.ensure_future(self._cancelled.wait())
            await asyncio.wait(
                {self._title, seen},
                timeout=TITLE_SECONDS,
                return_when=asyncio.FIRST_COMPLETED,
            )
            seen.cancel()

    # -- work in progress

    def _spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name=f"run-{self.held.key}-{name}")
        self._work[name] = task
        task.add_done_callback(self._worked)

    def _worked(self, task: asyncio.Task[None]) -> None:
        for name in [name for name, other in self._work.items() if other is task]:
            del self._work[name]
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a step of a run broke", exc_info=error)
            self._inbox.put_nowait(ReplyFailed("internal error"))

    async def _abort(self) -> None:
        """Closes the model's stream and ends running tools; returns when they are gone."""
        tasks = list(self._work.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _receive(self, reply: Reply, brief: Brief) -> None:
        request = brief.large.request(
            brief.system,
            tuple(self._messages),
            brief.tools,
            session_id=self.held.session_id,
            working_dir=self.claimed.path,
        )
        try:
            stopped = await reply.receive(brief.large.provider, request)
        except ModelError as error:
            self._inbox.put_nowait(ReplyFailed(error.sentence))
            return
        usage = stopped.usage
        prompt_tokens = usage.input + usage.cache_read + usage.cache_write
        self._usage = (prompt_tokens, usage.output, cost_of(usage, brief.large.info))
        asked = tuple(
            Asked(call.id, call.name, call.input, self._is_parallel(call.name))
            for call in tool_calls(reply.parts())
        )
        self._inbox.put_nowait(Replied(stopped.reason, asked))

    def _is_parallel(self, name: str) -> bool:
        tool = self._brief.tools.get(name) if self._brief is not None else None
        return tool is not None and tool.parallel

    async def _judge(self, call_id: str) -> None:
        call = self._calls[call_id]
        try:
            verdict = await calls.judge(self._bench(), call, self._call_message_id)
        except calls.Failed as failed:
            self._end_call(calls.failure(call, str(failed)))
            return
        match verdict:
            case Verdict.ALLOWED:
                self._inbox.put_nowait(Allowed(call_id))
            case Verdict.DENIED:
                self._inbox.put_nowait(Denied(call_id))
            case Verdict.ASKED:
                self._inbox.put_nowait(AnswerNeeded(call_id))

    async def _run_tool(self, call_id: str) -> None:
        result = await calls.run(self._bench(), self._calls[call_id], self._call_message_id)
        self._end_call(result)

    def _end_call(self, result: ToolResult) -> None:
        self._results[result.tool_call_id] = result
        self._inbox.put_nowait(ToolEnded(result.tool_call_id, result.content))

    def _bench(self) -> calls.Workbench:
        if self._brief is None:
            # Only a resumed run whose configuration broke meanwhile comes here.
            raise calls.Failed(self._brief_error)
        return calls.Workbench(
            self.held,
            self.claimed.path,
            self._brief.tools,
            self._brief.allowed_tools,
            self._brief.env,
            self._server_mark,
        )
