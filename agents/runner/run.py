"""One run, performed: inputs go to the turn machine, its effects are carried out.

The durable effects of an advance are one transaction; only after its commit
the others begin. Work in progress (the model's stream, tools) are tasks that
put what happened into the inbox.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from agents.actions.finish import whole_calls
from agents.actions.judging import Verdict
from agents.actions.steps import (
    Held,
    ReplyWrite,
    Step,
    Written,
    begin_run,
    write_step,
)
from agents.gates import pass_gate
from agents.llm.errors import ContextExhausted, ModelError
from agents.llm.usage import cost_of
from agents.models import RunKind
from agents.queue.claim import Claimed
from agents.runner import calls
from agents.runner.brief import Brief
from agents.runner.checkpoints import Checkpoints
from agents.runner.conversation import Conversation
from agents.runner.hooking import HookMemory
from agents.runner.ledger import DatabaseTodos
from agents.runner.reply import Reply
from agents.runner.stepping import step_of
from agents.runner.summary import summary_request
from agents.runner.title import give_title
from agents.runner.transcript_rows import read_transcript, steps_of
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
from agents.turn.inputs import (
    Allowed,
    Answered,
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
from agents.turn.machine import advance
from agents.turn.rebuilding import rebuild
from agents.turn.state import Phase, Turn
from agents.turn.transcript import Message
from agents.turn.window import is_nearly_full
from workspaces.events.hub import Hub
from workspaces.events.parts import (
    FinishReason,
    Role,
    ToolCall,
    ToolResult,
    plain_text,
    tool_calls,
)
from workspaces.storage.reader import read
from workspaces.storage.writer import writer

logger = logging.getLogger(__name__)

TITLE_SECONDS = 1.0
MODEL = ""  # the name of the model's task among those of calls, which have the calls' ids
BROKEN = "internal error: the server's log has the details"
NO_SUMMARY = "The model gave no summary of the conversation; try again, or begin a new session."


class RunTask:
    """Performs one claimed run until it ends, parks, or is handed over."""

    def __init__(
        self,
        claimed: Claimed,
        *,
        hub: Hub,
        checkpoints: Checkpoints,
        server_mark: str,
        brief_of: Callable[[Claimed], Awaitable[Brief]],
        side: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        """``side`` begins work that may outlive the run."""
        self.claimed = claimed
        self.held = Held(claimed.key, claimed.fence, claimed.workspace_id, claimed.session_id)
        self._hub = hub
        self._checkpoints = checkpoints
        self._server_mark = server_mark
        self._brief_of = brief_of
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
        self._results: dict[str, ToolResult] = {}
        self._reads: dict[str, calls.Reads] = {}  # files, by the call that has read them
        self._conversation = Conversation()
        self._hooks = HookMemory(self.held, claimed.errand)
        self._is_summarised = False  # the conversation begins with a summary that was not read yet

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
                is_full = self._is_full(self.claimed.context_tokens)
                only_summarises = self.claimed.kind == RunKind.SUMMARY
                await self._advance(Begun(is_full, only_summarises))
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
        self._conversation.load(stored.messages, stored.own)
        steps, results = steps_of(stored.own, parallel)
        self._turn = rebuild(steps, results)

    async def _read_brief(self) -> None:
        try:
            self._brief = await self._brief_of(self.claimed)
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

    async def _pass_gates(self, step: Step) -> None:
        """Where a step is written and what follows from it has not begun."""
        if step.reply is not None:
            await pass_gate("reply.saved")
        if step.results:
            await pass_gate("result.saved")

    def _step(self, turn: Turn, effects: tuple[Effect, ...]) -> Step | None:
        return step_of(
            effects,
            choice=self._brief.model.choice if self._brief is not None else None,
            results=self._results,
            reads=self._reads,
            only_reading=frozenset(c.asked.id for c in turn.calls if c.asked.parallel),
            reply_write=self._reply_write,
        )

    def _reply_write(self, reason: FinishReason) -> ReplyWrite | None:
        if self._reply is None:
            return None
        parts = self._reply.parts()
        if self._reply.is_summary:  # it was given no tools
            parts = tuple(part for part in parts if not isinstance(part, ToolCall))
        elif reason is not FinishReason.TOOL_USE:
            parts = whole_calls(parts)
        prompt_tokens, completion_tokens, cost = self._usage
        return ReplyWrite(
            self._reply.message_id,
            parts,
            reason,
            prompt_tokens,
            completion_tokens,
            cost,
            context_tokens=self._conversation.tokens(prompt_tokens + completion_tokens),
            is_summary=self._reply.is_summary,
        )

    def _keep(self, step: Step) -> None:
        """What was written is part of the conversation from now on."""
        if step.reply is not None and self._reply is not None:
            if not self._reply.is_summary:
                reply = Message(step.reply.message_id, Role.ASSISTANT, step.reply.parts)
                self._conversation.add_reply(reply)
            self._reply.close()
            self._reply = None
            self._usage = (0, 0, 0.0)
        refused = [
            calls.failure(self._conversation.calls[call_id], content)
            for call_id, content in step.refusals.items()
        ]
        for result in [*step.results, *refused]:
            self._conversation.add_result(result)
            self._results.pop(result.tool_call_id, None)
            self._reads.pop(result.tool_call_id, None)

    async def _perform(self, effect: Effect, written: Written) -> None:
        match effect:
            case CallModel() | Summarise():
                if self._brief is None:
                    self._inbox.put_nowait(ReplyFailed(self._brief_error))
                    return
                await self._speak(self._brief, written, is_summary=isinstance(effect, Summarise))
            case Judge():
                self._spawn(effect.call_id, self._judge(effect.call_id))
            case RunTool():
                self._spawn(effect.call_id, self._run_tool(effect.call_id))
            case _:
                pass

    async def _speak(self, brief: Brief, written: Written, *, is_summary: bool) -> None:
        if written.folded or self._is_summarised:
            stored = await read(read_transcript, self.held.session_id, self.held.key)
            self._conversation.load(stored.messages)
        self._is_summarised = is_summary
        assert written.message is not None  # noqa: S101  a reply was begun in this step
        self._reply = Reply(
            self.held,
            self._hub,
            self._checkpoints,
            written.stream_number,
            written.message,
            frozenset(self._conversation.call_ids),
            on_begin=self._begin_title,
            is_summary=is_summary,
        )
        self._spawn(MODEL, self._receive(self._reply, brief))

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
        names = [name for name, other in self._work.items() if other is task]
        for name in names:
            del self._work[name]
        if task.cancelled() or (error := task.exception()) is None:
            return
        logger.error("a step of a run broke", exc_info=error)
        for name in names:
            if name == MODEL:
                self._inbox.put_nowait(ReplyFailed(BROKEN))
            else:
                self._end_call(calls.failure(self._conversation.calls[name], BROKEN))

    async def _abort(self) -> None:
        """Closes the model's stream and ends running tools; returns when they are gone."""
        tasks = list(self._work.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _receive(self, reply: Reply, brief: Brief) -> None:
        model = brief.model
        if reply.is_summary:
            request = summary_request(
                brief,
                self._conversation.messages,
                await DatabaseTodos(self.held.workspace_id, self.held.session_id).read(),
                session_id=self.held.session_id,
                was_exhausted=self._turn.is_exhausted,
            )
        else:
            request = model.request(
                brief.system,
                tuple(self._conversation.messages),
                brief.tools,
                session_id=self.held.session_id,
                working_dir=brief.working_dir,
                memo=self._conversation.memo,
            )
        try:
            stopped = await reply.receive(model.provider, request)
        except ModelError as error:
            exhausted = isinstance(error, ContextExhausted) and brief.settings.auto_summarize
            self._inbox.put_nowait(ReplyFailed(error.sentence, is_exhausted=exhausted))
            return
        usage = stopped.usage
        prompt_tokens = usage.input + usage.cache_read + usage.cache_write
        self._usage = (prompt_tokens, usage.output, cost_of(usage, model.info))
        parts = reply.parts()
        if reply.is_summary and not plain_text(parts).strip():
            self._inbox.put_nowait(ReplyFailed(NO_SUMMARY))
            return
        asked = tuple(
            Asked(call.id, call.name, call.input, self._is_parallel(call.name))
            for call in tool_calls(parts)
        )
        is_full = self._is_full(prompt_tokens + usage.output)
        self._inbox.put_nowait(Replied(stopped.reason, asked, is_full))

    def _is_full(self, told: int) -> bool:
        """Whether the conversation, of which the provider told this size, nearly fills the
        window."""
        if self._brief is None or not self._brief.settings.auto_summarize:
            return False
        tokens = self._conversation.tokens(told)
        return is_nearly_full(tokens, self._brief.model.info.context_window)

    def _is_parallel(self, name: str) -> bool:
        tool = self._brief.tools.get(name) if self._brief is not None else None
        return tool is not None and tool.parallel

    async def _judge(self, call_id: str) -> None:
        call = self._conversation.calls[call_id]
        try:
            verdict = await calls.judge(self._bench(), call, self._conversation.call_message_id)
        except calls.Failed as failed:
            self._end_call(calls.failure(call, str(failed)))
            return
        match verdict:
            case ToolResult():
                self._end_call(verdict)
            case Verdict.ALLOWED:
                self._inbox.put_nowait(Allowed(call_id))
            case Verdict.DENIED:
                self._inbox.put_nowait(Denied(call_id))
            case Verdict.ASKED:
                self._inbox.put_nowait(AnswerNeeded(call_id))

    async def _run_tool(self, call_id: str) -> None:
        result, reads = await calls.run(
            self._bench(), self._conversation.calls[call_id], self._conversation.call_message_id
        )
        self._reads[call_id] = reads
        self._end_call(result)

    def _end_call(self, result: ToolResult) -> None:
        result = self._hooks.marked(result)
        self._results[result.tool_call_id] = result
        self._inbox.put_nowait(ToolEnded(result.tool_call_id, result.content))

    def _bench(self) -> calls.Workbench:
        if self._brief is None:
            # Only a resumed run whose configuration broke meanwhile comes here.
            raise calls.Failed(self._brief_error)
        brief = self._brief
        return calls.Workbench(
            self.held,
            brief.working_dir,
            brief.tools,
            brief.settings.allowed_tools,
            brief.env,
            self._server_mark,
            brief.languages,
            sees_images=brief.model.info.supports_attachments,
            hook_memory=self._hooks,
            rewrite=self._conversation.rewrite,
            web_allowed_hosts=brief.settings.web_allowed_hosts,
            data_dir=brief.data_dir,
            hooks=brief.settings.pre_tool_hooks,
            open_calls=frozenset(self._conversation.calls),
            agent_role=brief.settings.agent_role,
            skills=brief.skills,
        )
