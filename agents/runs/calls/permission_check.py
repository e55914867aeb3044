"""Decides whether a call may run: by its hooks, and by the policy or a person.

Decisions are stored: no hook runs twice for a call, and no permission request is opened twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from typing import Any

import orjson

from agents.config.settings import HookSettings
from agents.hooks.execution import before_tool
from agents.hooks.protocol import HookDecision
from agents.runs.lease import Lease, require_lease
from agents.runs.rescue.cut_calls import REPEAT
from agents.runs.rows import RunRow, read_runs, store_hook_decisions
from agents.tools.contract import RequiredPermission
from permissions.actions.grants import grants_for
from permissions.actions.requests import (
    is_request_for,
    replace_request,
    request_permission,
    skips_requests,
    store_changed_call,
)
from permissions.models import RequestState
from permissions.policy.decide import PolicyOutcome, PolicyRequest, SessionGrant, decide
from permissions.queries import request_of_call
from workspaces.actions import messages
from workspaces.actions.sessions import path_of_session
from workspaces.log.errors import Overtaken
from workspaces.log.parts import ToolCall, ToolResult, parts_from_wire
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer
from workspaces.storable import storable_json


class CallVerdict(Enum):
    ALLOWED = "allowed"
    DENIED = "denied"
    NEEDS_ANSWER = "needs_answer"


@dataclass(frozen=True, slots=True)
class CheckedCall:
    """The decision about a call, and what a person's answer carries."""

    verdict: CallVerdict
    reason: str = ""  # for the model
    arguments: str = ""  # JSON: the call runs with these, once ``change_call`` has stored them


_ALLOWED = CheckedCall(CallVerdict.ALLOWED)
_DENIED = CheckedCall(CallVerdict.DENIED)
_NEEDS_ANSWER = CheckedCall(CallVerdict.NEEDS_ANSWER)


class Failed(Exception):
    """The call cannot run; the error's text is its result."""


def arguments_of(call: ToolCall) -> dict[str, Any]:
    """Returns the arguments of a call. Raises ``Failed``."""
    try:
        arguments = orjson.loads(call.input or "{}")
    except orjson.JSONDecodeError as error:
        raise Failed(f"The arguments are not valid JSON: {error}.") from error
    if not isinstance(arguments, dict):
        raise Failed("The arguments must be a JSON object.")
    return arguments


class QuestionChanged(Overtaken):
    """The call would now do something other than what was allowed."""


def check_call(
    tx: Transaction,
    held: Lease,
    question: RequiredPermission,
    *,
    call_id: str,
    allowed_tools: frozenset[str],
    schema: Mapping[str, Any] | None = None,
) -> CheckedCall:
    """Checks a call; opens a permission request unless the call is already decided.

    ``schema``: of the tool's arguments, if an answer may change them. Raises ``QuestionChanged`` if
    the call changed since a person allowed it, for instance because a link points elsewhere now.
    """
    run = require_lease(tx, held)
    earlier = request_of_call(run.key, call_id)
    if earlier is not None:
        verdict = _VERDICTS[RequestState(earlier.state)]
        if verdict is not CallVerdict.ALLOWED:
            return CheckedCall(verdict, earlier.reason)
        if earlier.arguments and not earlier.is_changed:
            return CheckedCall(verdict, earlier.reason, earlier.arguments)
        # A cut call that had no request before was shown with its arguments alone.
        is_shown = earlier.action != REPEAT or (
            question.always_asks
            and not skips_requests(tx, run.workspace_id, mode=run.options.permission_mode)
        )
        if is_shown and not is_request_for(earlier, **_shown(question)):
            raise QuestionChanged
        return CheckedCall(verdict, earlier.reason)
    skip = skips_requests(tx, run.workspace_id, mode=run.options.permission_mode)
    request = PolicyRequest(
        run.session_id,
        question.tool_name,
        question.action,
        question.path,
        files=question.files,
        always_asks=question.always_asks,
    )
    grants = _grants(tx, run, question)
    decision = decide(request, skip=skip, allowed_tools=allowed_tools, grants=grants)
    match decision.outcome:
        case PolicyOutcome.ALLOW:
            return _ALLOWED
        case PolicyOutcome.DENY:
            return _DENIED
        case PolicyOutcome.ASK:
            _open_request(tx, run, question, call_id=call_id, schema=schema)
            return _NEEDS_ANSWER


def _grants(tx: Transaction, run: RunRow, question: RequiredPermission) -> list[SessionGrant]:
    """Returns the grants of the run's author, for the run and for those that wait for it."""
    sessions = [step["session_id"] for step in path_of_session(tx, run.session_id)]
    run_keys = [run.key]
    above = run.parent
    while above is not None and len(run_keys) <= len(sessions):
        run_keys.append(above)
        rows = read_runs(tx, "r.id = %s", [above])
        above = rows[0].parent if rows else None
    found = grants_for(
        tx,
        run.workspace_id,
        author=run.author,
        session_ids=sessions,
        run_keys=run_keys,
        tool_name=question.tool_name,
        action=question.action,
    )
    return [
        SessionGrant(run.session_id, row.tool_name, row.action, row.path, row.is_folder)
        for row in found
    ]


def _open_request(
    tx: Transaction,
    run: RunRow,
    question: RequiredPermission,
    *,
    call_id: str,
    schema: Mapping[str, Any] | None,
) -> None:
    request_permission(
        tx,
        run.workspace_id,
        run.session_id,
        run_key=run.key,
        tool_call_id=call_id,
        description=question.description,
        always_asks=question.always_asks,
        schema=schema,
        **_shown(question),
    )


def _shown(question: RequiredPermission) -> dict[str, Any]:
    """Returns what a person's answer covers."""
    return {
        "tool_name": question.tool_name,
        "action": question.action,
        "path": question.path,
        "params": question.params,
        "files": question.files,
    }


def change_call(
    tx: Transaction,
    held: Lease,
    question: RequiredPermission | None,
    call: ToolCall,
    *,
    message_id: str,
    schema: Mapping[str, Any] | None,
    hook_decisions: Mapping[str, Mapping[str, Any]],
) -> None:
    """Replaces the stored call by the one with the arguments that its answer has changed.

    ``question``: the permission that these arguments require. If it is for a protected file, and
    the person was not shown such a request, another one is opened. ``hook_decisions``: without
    those of this call, whose hooks run again. Raises ``LeaseLost``.
    """
    run = require_lease(tx, held)
    store_hook_decisions(tx, run.key, hook_decisions)
    request = request_of_call(run.key, call.id)
    if request is None or request.is_changed:
        return
    if question is not None and question.always_asks and not request.always_asks:
        replace_request(tx, request)
        _open_request(tx, run, question, call_id=call.id, schema=schema)
    elif question is not None:
        store_changed_call(
            tx,
            request,
            description=question.description,
            always_asks=question.always_asks,
            **_shown(question),
        )
    else:
        store_changed_call(tx, request, params=request.params, files=request.files)
    _rewrite(tx, run.workspace_id, message_id, call)


_VERDICTS = {
    RequestState.PENDING: CallVerdict.NEEDS_ANSWER,
    RequestState.ALLOWED: CallVerdict.ALLOWED,
    RequestState.DENIED: CallVerdict.DENIED,
    RequestState.WITHDRAWN: CallVerdict.DENIED,
}


def keep_hooked(
    tx: Transaction,
    held: Lease,
    decisions: Mapping[str, Mapping[str, Any]],
    *,
    message_id: str,
    rewritten: ToolCall | None,
) -> None:
    """Stores the decisions by call id. A rewritten call replaces the call in its message.

    Raises ``LeaseLost``.
    """
    run = require_lease(tx, held)
    store_hook_decisions(tx, run.key, decisions)
    if rewritten is None:
        return
    _rewrite(tx, run.workspace_id, message_id, rewritten)


def _rewrite(tx: Transaction, workspace_id: str, message_id: str, call: ToolCall) -> None:
    """Replaces the arguments of a call in its stored message."""
    ((wire,),) = tx.fetch("SELECT parts FROM workspaces_message WHERE id = %s", [message_id])
    parts = tuple(
        replace(part, input=call.input)
        if isinstance(part, ToolCall) and part.id == call.id
        else part
        for part in parts_from_wire(orjson.loads(wire))
    )
    messages.change_message(tx, workspace_id, message_id, parts=parts)


@dataclass(frozen=True, slots=True)
class Hooked:
    """The part of a verdict that is needed after the hooks of a call have run."""

    decision: str = HookDecision.NONE.value
    reason: str = field(default="", repr=False)
    context: str = field(default="", repr=False)
    shown: Mapping[str, Any] | None = field(default=None, repr=False)  # in the result's metadata

    @property
    def denies(self) -> bool:
        return self.decision == HookDecision.DENY

    @property
    def allows(self) -> bool:
        return self.decision == HookDecision.ALLOW


class HookMemory:
    def __init__(self, held: Lease, stored: Mapping[str, Mapping[str, Any]]) -> None:
        self._held = held
        self._decisions = {call_id: Hooked(**decision) for call_id, decision in stored.items()}

    async def run_hooks(
        self,
        hooks: Sequence[HookSettings],
        call: ToolCall,
        *,
        message_id: str,
        open_calls: frozenset[str],
        working_dir: str,
        env: Mapping[str, str],
        rewrite: Callable[[ToolCall], None],
    ) -> tuple[Hooked, ToolCall]:
        """Returns the decision and the changed call. The call's input must be a JSON object."""
        known = self._decisions.get(call.id)
        if known is not None or not hooks:
            return known or Hooked(), call
        verdict = await before_tool(
            hooks,
            tool_name=call.name,
            tool_input=orjson.loads(call.input or "{}"),
            session_id=self._held.session_id,
            working_dir=working_dir,
            env=env,
        )
        shown = verdict.metadata()
        if shown is None:  # no hook matches this tool
            return Hooked(), call
        rewritten: ToolCall | None = None
        if verdict.updated_input is not None:
            rewritten = replace(call, input=orjson.dumps(dict(verdict.updated_input)).decode())
        hooked = Hooked(verdict.decision.value, verdict.reason, verdict.context, shown)
        kept = {i: decision for i, decision in self._decisions.items() if i in open_calls}
        kept[call.id] = hooked
        self._decisions = kept
        stored = {call_id: asdict(decision) for call_id, decision in kept.items()}
        await writer.write(
            self._held.workspace_id,
            lambda tx: keep_hooked(
                tx, self._held, stored, message_id=message_id, rewritten=rewritten
            ),
        )
        if rewritten is not None:
            rewrite(rewritten)
        return hooked, rewritten or call

    def forget(self, call_id: str) -> Mapping[str, Mapping[str, Any]]:
        """Runs the hooks of this call again, because a person has changed its arguments.

        Returns the other decisions as they are stored.
        """
        self._decisions.pop(call_id, None)
        return {call: asdict(decision) for call, decision in self._decisions.items()}

    def marked(self, result: ToolResult) -> ToolResult:
        """Returns the result with the hooks' context for the model and metadata for clients."""
        hooked = self._decisions.get(result.tool_call_id)
        if hooked is None:
            return result
        content = f"{result.content}\n\n{hooked.context}" if hooked.context else result.content
        metadata = orjson.loads(result.metadata) if result.metadata else {}
        shown = storable_json(orjson.dumps(metadata | {"hook": hooked.shown}))
        return replace(result, content=content, metadata=shown.decode())
