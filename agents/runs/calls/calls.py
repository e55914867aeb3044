"""Checks and runs the calls of a run's newest reply, and keeps results until they are written.

A call is parsed, passes the hooks and the policy, and then delegates or runs. Every call gets a
result, which becomes an input of the turn machine.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, cast

from agents.jobs.workspace_jobs import WorkspaceJobs
from agents.runs import nudges
from agents.runs.calls.outputs import CallOutputs
from agents.runs.calls.permission_check import (
    CallVerdict,
    Failed,
    Hooked,
    HookMemory,
    QuestionChanged,
    arguments_of,
    change_call,
    check_call,
)
from agents.runs.children.delegations import TooDeep, begin_delegation, delegation_result
from agents.runs.conversation import Conversation
from agents.runs.file_tracker import DatabaseFileTracker, DatabaseTodos
from agents.runs.lease import Lease, LeaseLost
from agents.runs.messages import denied, failure, result_of
from agents.runs.rescue.cut_calls import cut_decision
from agents.runs.setup import RunSetup, SetupInUse
from agents.tools import limits
from agents.tools.contract import (
    BadArguments,
    DelegatingTool,
    FileMark,
    RequiredPermission,
    Tool,
    ToolContext,
    ToolRefusal,
)
from agents.tools.shell.identity import SERVER_MARK
from agents.turn.inputs import Allowed, AnswerNeeded, Denied, Input, ToolEnded
from agents.turn.notes import ALLOWED_NOTE
from permissions.queries import reason_of
from workspaces.delivery.tool_output import end_output, publish_output
from workspaces.log.ids import new_id
from workspaces.log.parts import ToolCall, ToolResult
from workspaces.log.reader import read
from workspaces.log.timestamps import now_ms
from workspaces.log.types import Output
from workspaces.log.writer import writer

logger = logging.getLogger(__name__)

TOO_DEEP = "Not run: agents may not send for further agents at this depth. Do it yourself."
Reads: TypeAlias = Mapping[str, FileMark]

DENIED_BY_HOOK = "A hook refused this call and gave no reason."
CHANGED = (
    "Not run: since permission was given, the path leads elsewhere or the file has changed. "
    "Look at it again, then retry."
)


@dataclass(frozen=True, slots=True)
class Denial:
    """A person denied the call. The result contains the denied change, for clients to display."""

    result: ToolResult


class ArgumentsChanged(Exception):
    """A person allowed the call with other arguments, given as JSON."""


class RunCalls:
    def __init__(
        self,
        held: Lease,
        setup: SetupInUse,
        conversation: Conversation,
        *,
        hook_decisions: Mapping[str, Mapping[str, Any]],
        server_mark: str,
        outputs: CallOutputs,
        put: Callable[[Input], None],
    ) -> None:
        """``put`` adds an input of the turn machine to the run's inbox."""
        self.results: dict[str, ToolResult] = {}  # not written yet
        self.reads: dict[str, Reads] = {}  # the files that each call has read
        self.started: dict[str, int] = {}  # when the tool of each call started, in milliseconds
        self._held = held
        self._setup_in_use = setup
        self._conversation = conversation
        self._hooks = HookMemory(held, hook_decisions)
        self._server_mark = server_mark
        self._outputs = outputs
        self._put = put
        self._reasons: dict[str, str] = {}  # by call: why a person allowed it, for the model

    async def check(self, call_id: str) -> None:
        """Puts the verdict about the call into the inbox, or its result if it cannot run."""
        call = self._conversation.calls[call_id]
        try:
            try:
                verdict = await self._cut_verdict(call) or await self._verdict(call)
            except ArgumentsChanged as changed:
                verdict = await self._verdict(await self._change(call, str(changed)))
        except Failed as failed:
            self._end(failure(call, str(failed)))
            return
        match verdict:
            case ToolResult():
                self._end(verdict)
            case CallVerdict.ALLOWED:
                self._put(Allowed(call_id))
            case Denial(result):
                self.results[call_id] = result
                self._put(Denied(call_id))
            case CallVerdict.DENIED:
                self._put(Denied(call_id))
            case CallVerdict.NEEDS_ANSWER:
                self._put(AnswerNeeded(call_id))

    async def run(self, call_id: str) -> None:
        """Runs the call and puts its result into the inbox, also if it failed.

        Cancelling ends everything that the call has started.
        """
        call = self._conversation.calls[call_id]
        message_id = self._conversation.call_message_id
        reads: Reads = {}
        self.started[call_id] = now_ms()
        try:
            tool, args, context = self._prepared(call)
            reads = context.files.fresh_reads
            result = result_of(call, await tool.run(args, context))
        except (Failed, ToolRefusal) as refusal:
            result = failure(call, str(refusal))
        except Exception as error:
            logger.exception("tool %s failed", call.name)
            result = failure(call, f"The tool {call.name} failed: {type(error).__name__}.")
        finally:
            end_output(self._held.workspace_id, (message_id, call_id))
        self.reads[call_id] = reads
        self._end(result)

    def fail(self, call_id: str, content: str) -> None:
        self._end(failure(self._conversation.calls[call_id], content))

    def keep(self, results: Sequence[ToolResult], refusals: Mapping[str, str]) -> None:
        """Adds written results to the conversation."""
        refused = [
            failure(self._conversation.calls[call_id], content)
            for call_id, content in refusals.items()
        ]
        for result in [*results, *refused]:
            self._conversation.add_result(result)
            self.results.pop(result.tool_call_id, None)
            self.reads.pop(result.tool_call_id, None)
            self.started.pop(result.tool_call_id, None)
            self._outputs.end(self._held, result.tool_call_id)

    def close(self) -> None:
        """Ends the work of this process for the run."""
        self._outputs.forget(self._held)

    def _end(self, result: ToolResult) -> None:
        result = self._hooks.marked(result)
        if reason := self._reasons.get(result.tool_call_id):
            result = replace(result, content=f"{result.content}\n\n{ALLOWED_NOTE}{reason}")
        self.results[result.tool_call_id] = result
        self._put(ToolEnded(result.tool_call_id, result.content))

    # -- the check of a call

    async def _cut_verdict(self, call: ToolCall) -> CallVerdict | ToolResult | None:
        """Returns the decision about a call that was cut, unless it may run again."""
        if self._held.fence == 1:  # no worker before this one has run it
            return None
        waits, result = await read(cut_decision, self._held.key, call)
        return CallVerdict.NEEDS_ANSWER if waits else result

    async def _verdict(self, call: ToolCall) -> CallVerdict | ToolResult | Denial:
        """Returns whether the call may run now, or the result of its delegation.

        Raises ``Failed``.
        """
        hooked, call = await self._hooked(call)
        if hooked.denies:
            raise Failed(hooked.reason or DENIED_BY_HOOK)
        tool, args, context = self._prepared(call)
        try:
            if hasattr(tool, "delegate"):  # faster than an ``isinstance`` check with a protocol
                delegating = cast("DelegatingTool[Any]", tool)
                return await self._delegate(
                    delegating, args, context, call, is_allowed=hooked.allows
                )
            question = await tool.required_permission(args, context)
            if hooked.allows and (question is None or not question.always_asks):
                return CallVerdict.ALLOWED
            return await self._permission(question, call, tool)
        except ToolRefusal as refusal:
            raise Failed(str(refusal)) from refusal
        except (Failed, ArgumentsChanged, LeaseLost):
            raise
        except Exception as error:
            logger.exception("tool %s failed to report the permission that it needs", call.name)
            raise Failed(f"The tool {call.name} failed: {type(error).__name__}.") from error

    async def _change(self, call: ToolCall, arguments: str) -> ToolCall:
        """Gives the call the arguments of a person; returns it as it is stored now.

        Hooks run again for them. Raises ``Failed``.
        """
        changed = replace(call, input=arguments)
        question: RequiredPermission | None = None
        failed: Failed | None = None
        schema: Mapping[str, Any] = {}
        try:
            tool, args, context = self._prepared(changed)
            schema = tool.spec.schema
            question = await tool.required_permission(args, context)
        except (Failed, ToolRefusal) as error:
            failed = Failed(str(error))
        message_id = self._conversation.call_message_id
        decisions = self._hooks.forget(call.id)
        await writer.write(
            self._held.workspace_id,
            lambda tx: change_call(
                tx,
                self._held,
                question,
                changed,
                message_id=message_id,
                schema=schema,
                hook_decisions=decisions,
            ),
        )
        self._conversation.rewrite(changed)
        if failed is not None:
            raise failed
        return changed

    async def _hooked(self, call: ToolCall) -> tuple[Hooked, ToolCall]:
        setup = self._setup
        if not setup.settings.pre_tool_hooks:
            return Hooked(), call
        arguments_of(call)
        return await self._hooks.run_hooks(
            setup.settings.pre_tool_hooks,
            call,
            message_id=self._conversation.call_message_id,
            open_calls=frozenset(self._conversation.calls),
            working_dir=setup.working_dir,
            env={**setup.env, SERVER_MARK: self._server_mark},
            rewrite=self._conversation.rewrite,
        )

    async def _delegate(
        self,
        tool: DelegatingTool[Any],
        args: Any,
        context: ToolContext,
        call: ToolCall,
        *,
        is_allowed: bool,
    ) -> CallVerdict | ToolResult | Denial:
        held = self._held
        exists, end = await writer.write(
            held.workspace_id, lambda tx: delegation_result(tx, held, call.id)
        )
        if end is not None:
            if reason := await read(reason_of, held.key, call.id):
                self._reasons[call.id] = reason
            return result_of(call, tool.settle(args, end))
        if exists:
            return CallVerdict.NEEDS_ANSWER
        if not is_allowed:
            question = await tool.required_permission(args, context)
            verdict = await self._permission(question, call, tool)
            if verdict is not CallVerdict.ALLOWED:
                return verdict
        delegation = await tool.delegate(args, context)
        try:
            await writer.write(
                held.workspace_id,
                lambda tx: begin_delegation(
                    tx, held, delegation, message_id=context.message_id, call_id=call.id
                ),
            )
        except TooDeep:
            raise Failed(TOO_DEEP) from None
        await nudges.nudge_accepted()
        return CallVerdict.NEEDS_ANSWER

    async def _permission(
        self, question: RequiredPermission | None, call: ToolCall, tool: Tool[Any]
    ) -> CallVerdict | ToolResult | Denial:
        if question is None:
            return CallVerdict.ALLOWED
        allowed_tools = self._setup.settings.allowed_tools
        try:
            checked = await writer.write(
                self._held.workspace_id,
                lambda tx: check_call(
                    tx,
                    self._held,
                    question,
                    call_id=call.id,
                    allowed_tools=allowed_tools,
                    schema=tool.spec.schema,
                ),
            )
        except QuestionChanged:
            raise Failed(CHANGED) from None
        if checked.arguments:
            raise ArgumentsChanged(checked.arguments)
        if checked.verdict is CallVerdict.DENIED:
            result = await asyncio.to_thread(denied, call, question.params, checked.reason)
            # With a reason, the model reads it and continues.
            return result if checked.reason else Denial(result)
        if checked.verdict is CallVerdict.ALLOWED and checked.reason:
            self._reasons[call.id] = checked.reason
        return checked.verdict

    # -- what a call gets

    @property
    def _setup(self) -> RunSetup:
        setup = self._setup_in_use.setup
        if setup is None:
            # This happens only to a resumed run whose configuration became invalid meanwhile.
            raise Failed(self._setup_in_use.fault)
        return setup

    def _prepared(self, call: ToolCall) -> tuple[Tool[Any], Any, ToolContext]:
        tools = self._setup.tools
        tool = tools.get(call.name)
        if tool is None:
            raise Failed(f"There is no tool {call.name!r}. The tools are: {', '.join(tools)}.")
        try:
            args = tool.parse(arguments_of(call))
        except BadArguments as bad:
            raise Failed(str(bad)) from bad
        return tool, args, self._context(call)

    def _context(self, call: ToolCall) -> ToolContext:
        setup, held = self._setup, self._held
        message_id = self._conversation.call_message_id
        return ToolContext(
            working_dir=Path(setup.working_dir),
            session_id=held.session_id,
            message_id=message_id,
            call_id=call.id,
            env={**setup.env, SERVER_MARK: self._server_mark},
            process_mark=new_id(),
            progress=self._progress(call, message_id),
            files=DatabaseFileTracker(held.workspace_id, held.session_id),
            todos=DatabaseTodos(held.workspace_id, held.session_id),
            jobs=WorkspaceJobs(held.workspace_id, held.session_id),
            workspace_id=held.workspace_id,
            sees_images=setup.model.info.supports_attachments,
            languages=setup.languages,
            web_allowed_hosts=setup.settings.web_allowed_hosts,
            data_dir=setup.data_dir,
            agent_role=setup.settings.agent_role,
            skills=setup.skills,
            skill_folders=setup.settings.skills_paths,
            hook_commands=tuple(hook.command for hook in setup.settings.pre_tool_hooks),
        )

    def _progress(self, call: ToolCall, message_id: str) -> Callable[[str], None]:
        """Returns a function that sends a call's whole output so far to readers, and keeps it.

        It is cheap and may be called often, in the event loop. The output of a call that runs again
        after a crash is not kept.
        """
        held, call_id = self._held, call.id
        outputs = None if self._setup_in_use.is_repeatable(call.name) else self._outputs

        def progress(text: str) -> None:
            output = limits.cut_middle(text, limits.LIVE_OUTPUT_BYTES)
            publish_output(held.workspace_id, Output(held.session_id, message_id, call_id, output))
            if outputs is not None:
                outputs.add(held, call_id, output)

        return progress
