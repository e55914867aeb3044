"""Settles calls whose tools ran when the worker of their run stopped, and were cut.

The rule of a call decides: the model gets a result, a person decides whether the call runs again,
or the run ends. Calls that may be repeated have no rule, because they run again.
"""

from __future__ import annotations

from typing import Any

import orjson

from agents.runs.messages import failure, give_results, open_calls_of
from agents.runs.rows import RunRow, read_call_outputs
from agents.states import CutRule
from agents.turn.notes import not_repeated, unknown_result
from permissions.actions.requests import replace_request, request_permission, skips_requests
from permissions.models import PermissionRequest, RequestState
from permissions.queries import request_of_call
from workspaces.log.parts import ToolCall, ToolResult
from workspaces.log.transaction import Transaction

REPEAT = "repeat"  # the action of a request about a call that had no request before


def settle_cut_calls(tx: Transaction, run: RunRow) -> bool:
    """Gives results to the cut calls, or requests decisions; returns whether the run continues.

    A run that requests no permission requests no decision either: the model gets the result.
    """
    if not run.open_calls:
        return True
    printed = read_call_outputs(tx, run.key)
    cut = {call.id: call for call in open_calls_of(tx, run) if call.id in run.open_calls}
    rules = {run.open_calls[call_id] for call_id in cut}
    continues = CutRule.INTERRUPT not in rules
    may_request = continues and CutRule.ASK in rules and not _skips(tx, run)
    results: dict[str, str] = {}
    for call_id, call in cut.items():
        output = printed.get(call_id, "")
        if may_request and run.open_calls[call_id] == CutRule.ASK:
            _request_decision(tx, run, call, output)
        else:
            results[call_id] = unknown_result(output)
    give_results(tx, run, results)
    return continues


def _skips(tx: Transaction, run: RunRow) -> bool:
    return skips_requests(tx, run.workspace_id, mode=run.options.permission_mode)


def _request_decision(tx: Transaction, run: RunRow, call: ToolCall, output: str) -> None:
    earlier = request_of_call(run.key, call.id)
    if earlier is not None:
        replace_request(tx, earlier)
    shown = _shown(tx, run, call) if earlier is None else _shown_before(earlier)
    request_permission(
        tx,
        run.workspace_id,
        run.session_id,
        run_key=run.key,
        tool_call_id=call.id,
        cut_output=output,
        **shown,
    )


def _shown(tx: Transaction, run: RunRow, call: ToolCall) -> dict[str, Any]:
    """Returns what a person is shown of a call that needed no request until now."""
    ((path,),) = tx.fetch("SELECT path FROM workspaces_workspace WHERE id = %s", [run.workspace_id])
    try:
        arguments = orjson.loads(call.input or "{}")
    except orjson.JSONDecodeError:
        arguments = {}
    return {
        "tool_name": call.name[:200],
        "action": REPEAT,
        "path": path,
        "description": "",
        "params": arguments if isinstance(arguments, dict) else {},
    }


def _shown_before(request: PermissionRequest) -> dict[str, Any]:
    return {
        "tool_name": request.tool_name,
        "action": request.action,
        "path": request.path,
        "description": request.description,
        "params": request.params,
        "files": request.files,
        "always_asks": request.always_asks,
    }


def cut_decision(run_key: int, call: ToolCall) -> tuple[bool, ToolResult | None]:
    """Returns whether a call waits for its decision, and its result if it may not run again.

    The result is that of a cut call without a request. Synchronous.
    """
    request = request_of_call(run_key, call.id)
    if request is None or request.cut_output is None or request.state == RequestState.ALLOWED:
        return False, None
    if request.state == RequestState.PENDING:
        return True, None
    note = not_repeated(request.reason)
    return False, failure(call, unknown_result(request.cut_output, note=note))
