"""Performs one tool call: parse, hooks, permission, delegation, run. Every call gets a result."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, cast

import orjson

from agents.config.settings import HookSettings
from agents.jobs.workspace_jobs import WorkspaceJobs
from agents.runs import nudges
from agents.runs.calls.file_tracker import DatabaseLedger, DatabaseTodos
from agents.runs.calls.hooked_calls import Hooked, HookMemory
from agents.runs.calls.permission_check import CallVerdict, QuestionChanged, judge_call
from agents.runs.children.delegations import TooDeep, begin_errand, errand_of
from agents.runs.lease import Lease, LeaseLost
from agents.skills.skill import Skill
from agents.tools import limits
from agents.tools.contract import (
    BadArguments,
    DelegatingTool,
    FileMark,
    LanguageService,
    Question,
    Tool,
    ToolContext,
    ToolOutcome,
    ToolRefusal,
)
from agents.tools.files.diffs import unified
from agents.tools.shell.reaper import SERVER_MARK
from agents.turn.notes import DENIED_RESULT
from workspaces.delivery.tool_output import tell_output
from workspaces.log.ids import new_id
from workspaces.log.parts import ToolCall, ToolResult
from workspaces.log.types import Output
from workspaces.log.writer import writer


def progress_of(
    workspace_id: str, *, session_id: str, message_id: str, call_id: str
) -> Callable[[str], None]:
    """Takes all of the call's output so far. Cheap, also when it is called often; in the loop."""

    def progress(text: str) -> None:
        told = limits.cut_middle(text, limits.LIVE_OUTPUT_BYTES)
        tell_output(workspace_id, Output(session_id, message_id, call_id, told))

    return progress


logger = logging.getLogger(__name__)

TOO_DEEP = "Not run: agents may not send for further agents at this depth. Do it yourself."
Reads: TypeAlias = Mapping[str, FileMark]

DENIED_BY_HOOK = "A hook refused this call and gave no reason."
CHANGED = (
    "Not run: since permission was given, the path leads elsewhere or the file has changed. "
    "Look at it again, then retry."
)


@dataclass(frozen=True, slots=True)
class Workbench:
    """What the calls of a run share."""

    held: Lease
    path: str
    tools: Mapping[str, Tool[Any]]
    allowed_tools: frozenset[str]
    env: Mapping[str, str] = field(repr=False)
    server_mark: str
    languages: LanguageService
    hook_memory: HookMemory
    rewrite: Callable[[ToolCall], None]  # a hook changed the call's input
    sees_images: bool = False
    web_allowed_hosts: tuple[str, ...] = ()
    data_dir: str = ""
    hooks: Sequence[HookSettings] = ()
    open_calls: frozenset[str] = frozenset()
    agent_role: str = ""
    skills: Sequence[Skill] = ()
    skill_folders: tuple[str, ...] = ()  # absolute


@dataclass(frozen=True, slots=True)
class Denial:
    """A person refused the call. The result keeps what they refused, for clients to draw."""

    result: ToolResult


class Failed(Exception):
    """The call cannot run; the sentence is its result."""


async def judge(
    bench: Workbench, call: ToolCall, message_id: str
) -> CallVerdict | ToolResult | Denial:
    """Whether the call may run now, or what came of what it sent for. Raises ``Failed``."""
    hooked, call = await _hooked(bench, call, message_id)
    if hooked.denies:
        raise Failed(hooked.reason or DENIED_BY_HOOK)
    tool, args, context = _prepared(bench, call, message_id)
    try:
        if hasattr(tool, "errand"):  # quicker than asking whether it is an ``DelegatingTool``
            errands = cast("DelegatingTool[Any]", tool)
            return await _send_for(bench, errands, args, context, call, is_allowed=hooked.allows)
        question = await tool.question(args, context)
        if hooked.allows and (question is None or not question.always_asks):
            return CallVerdict.ALLOWED
        return await _permission(bench, question, call)
    except ToolRefusal as refusal:
        raise Failed(str(refusal)) from refusal
    except (Failed, LeaseLost):
        raise
    except Exception as error:
        logger.exception("tool %s failed to say what it needs", call.name)
        raise Failed(f"The tool {call.name} failed: {type(error).__name__}.") from error


async def _hooked(bench: Workbench, call: ToolCall, message_id: str) -> tuple[Hooked, ToolCall]:
    if not bench.hooks:
        return Hooked(), call
    _arguments(call)
    return await bench.hook_memory.ask(
        bench.hooks,
        call,
        message_id=message_id,
        open_calls=bench.open_calls,
        working_dir=bench.path,
        env={**bench.env, SERVER_MARK: bench.server_mark},
        rewrite=bench.rewrite,
    )


async def _send_for(
    bench: Workbench,
    tool: DelegatingTool[Any],
    args: Any,
    context: ToolContext,
    call: ToolCall,
    *,
    is_allowed: bool,
) -> CallVerdict | ToolResult | Denial:
    held = bench.held
    was_sent, end = await writer.write(held.workspace_id, lambda tx: errand_of(tx, held, call.id))
    if end is not None:
        return _result(call, tool.settle(args, end))
    if was_sent:
        return CallVerdict.ASKED
    if not is_allowed:
        verdict = await _permission(bench, await tool.question(args, context), call)
        if verdict is not CallVerdict.ALLOWED:
            return verdict
    errand = await tool.errand(args, context)
    try:
        await writer.write(
            held.workspace_id,
            lambda tx: begin_errand(
                tx, held, errand, message_id=context.message_id, call_id=call.id
            ),
        )
    except TooDeep:
        raise Failed(TOO_DEEP) from None
    await nudges.nudge_accepted()
    return CallVerdict.ASKED


async def _permission(
    bench: Workbench, question: Question | None, call: ToolCall
) -> CallVerdict | Denial:
    if question is None:
        return CallVerdict.ALLOWED
    try:
        verdict = await writer.write(
            bench.held.workspace_id,
            lambda tx: judge_call(
                tx, bench.held, question, call_id=call.id, allowed_tools=bench.allowed_tools
            ),
        )
    except QuestionChanged:
        raise Failed(CHANGED) from None
    if verdict is CallVerdict.DENIED:
        return Denial(await asyncio.to_thread(_denied, call, question.params))
    return verdict


def _denied(call: ToolCall, params: Mapping[str, Any]) -> ToolResult:
    """With the diff of a change to a file, as the change's own result would have it."""
    before, after = params.get("old_content"), params.get("new_content")
    metadata: dict[str, Any] | None = None
    if isinstance(before, str) and isinstance(after, str):
        diff = unified(before, after, path=str(params.get("file_path", "")))
        metadata = {
            "old_content": before,
            "new_content": after,
            "diff": diff.text,
            "additions": diff.additions,
            "removals": diff.removals,
        }
    return _result(call, ToolOutcome(DENIED_RESULT, is_error=True, metadata=metadata))


async def run(bench: Workbench, call: ToolCall, message_id: str) -> tuple[ToolResult, Reads]:
    """The call's result, also when it failed, and what it has read. Cancelling ends what it
    started."""
    reads: Reads = {}
    try:
        tool, args, context = _prepared(bench, call, message_id)
        reads = context.files.fresh_reads
        result = _result(call, await tool.run(args, context))
    except (Failed, ToolRefusal) as refusal:
        result = failure(call, str(refusal))
    except asyncio.CancelledError:
        raise
    except Exception as error:
        logger.exception("tool %s failed", call.name)
        result = failure(call, f"The tool {call.name} failed: {type(error).__name__}.")
    return result, reads


def failure(call: ToolCall, content: str) -> ToolResult:
    return ToolResult(call.id, call.name, content, is_error=True)


def _prepared(
    bench: Workbench, call: ToolCall, message_id: str
) -> tuple[Tool[Any], Any, ToolContext]:
    tool = bench.tools.get(call.name)
    if tool is None:
        raise Failed(f"There is no tool {call.name!r}. The tools are: {', '.join(bench.tools)}.")
    try:
        args = tool.parse(_arguments(call))
    except BadArguments as bad:
        raise Failed(str(bad)) from bad
    return tool, args, _context(bench, call, message_id)


def _arguments(call: ToolCall) -> dict[str, Any]:
    try:
        arguments = orjson.loads(call.input or "{}")
    except orjson.JSONDecodeError as error:
        raise Failed(f"The arguments are not valid JSON: {error}.") from error
    if not isinstance(arguments, dict):
        raise Failed("The arguments must be a JSON object.")
    return arguments


def _context(bench: Workbench, call: ToolCall, message_id: str) -> ToolContext:
    held = bench.held
    return ToolContext(
        working_dir=Path(bench.path),
        session_id=held.session_id,
        message_id=message_id,
        call_id=call.id,
        env={**bench.env, SERVER_MARK: bench.server_mark},
        process_mark=new_id(),
        files=DatabaseLedger(held.workspace_id, held.session_id),
        todos=DatabaseTodos(held.workspace_id, held.session_id),
        progress=progress_of(
            held.workspace_id,
            session_id=held.session_id,
            message_id=message_id,
            call_id=call.id,
        ),
        jobs=WorkspaceJobs(held.workspace_id, held.session_id),
        workspace_id=held.workspace_id,
        sees_images=bench.sees_images,
        languages=bench.languages,
        web_allowed_hosts=bench.web_allowed_hosts,
        data_dir=bench.data_dir,
        agent_role=bench.agent_role,
        skills=tuple(bench.skills),
        skill_folders=bench.skill_folders,
        hook_commands=tuple(hook.command for hook in bench.hooks),
    )


def _result(call: ToolCall, outcome: ToolOutcome) -> ToolResult:
    metadata = ""
    if outcome.metadata is not None:
        metadata = orjson.dumps(dict(outcome.metadata), default=str).decode()
    return ToolResult(
        call.id,
        call.name,
        # A NUL cannot be stored by PostgreSQL.
        outcome.content.replace("\x00", "\ufffd"),
        metadata=metadata.replace("\\u0000", "\\ufffd"),
        is_error=outcome.is_error,
        data=outcome.data,
        mime_type=outcome.mime_type,
    )
