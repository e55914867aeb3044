"""Decides whether a call may run: applies the policy, opens a permission request if needed."""

from __future__ import annotations

from enum import Enum

from agents.runs.lease import Lease, require_lease
from agents.tools.contract import Question
from permissions.actions.requests import ask_permission, is_request_for
from permissions.models import Grant as GrantRow
from permissions.models import PermissionRequest, RequestState
from permissions.policy.decide import PolicyOutcome, PolicyRequest, StandingGrant, decide
from workspaces.actions.sessions import path_of_session
from workspaces.log.errors import Overtaken
from workspaces.log.transaction import Transaction


class CallVerdict(Enum):
    ALLOWED = "allowed"
    DENIED = "denied"
    ASKED = "asked"


class QuestionChanged(Overtaken):
    """The call was allowed for something else than what it would do now."""


def judge_call(
    tx: Transaction, held: Lease, question: Question, *, call_id: str, allowed_tools: frozenset[str]
) -> CallVerdict:
    """Opens a request unless the call may go on or was answered already.

    Raises ``QuestionChanged``: while a person thinks, a link may be turned to elsewhere.
    """
    run = require_lease(tx, held)
    earlier = PermissionRequest.objects.filter(run_key=run.key, tool_call_id=call_id).first()
    if earlier is not None:
        if earlier.state == RequestState.ALLOWED and not is_request_for(
            earlier,
            tool_name=question.tool_name,
            action=question.action,
            path=question.path,
            params=question.params,
            files=question.files,
        ):
            raise QuestionChanged
        return _VERDICTS[RequestState(earlier.state)]
    ((skip,),) = tx.fetch(
        "SELECT skip_permissions FROM workspaces_workspace WHERE id = %s", [run.workspace_id]
    )
    # What was allowed for a session is allowed for the sessions below it.
    sessions = [step["session_id"] for step in path_of_session(tx, run.session_id)]
    grants = [
        StandingGrant(run.session_id, row.tool_name, row.action, row.path, row.is_folder)
        for row in GrantRow.objects.filter(session_id__in=sessions)
    ]
    asked = PolicyRequest(
        run.session_id,
        question.tool_name,
        question.action,
        question.path,
        files=question.files,
        always_asks=question.always_asks,
    )
    decision = decide(asked, skip=bool(skip), allowed_tools=allowed_tools, grants=grants)
    match decision.outcome:
        case PolicyOutcome.ALLOW:
            return CallVerdict.ALLOWED
        case PolicyOutcome.DENY:
            return CallVerdict.DENIED
        case PolicyOutcome.ASK:
            ask_permission(
                tx,
                run.workspace_id,
                run.session_id,
                run_key=run.key,
                tool_call_id=call_id,
                tool_name=question.tool_name,
                action=question.action,
                path=question.path,
                description=question.description,
                params=question.params,
                files=question.files,
                always_asks=question.always_asks,
            )
            return CallVerdict.ASKED


_VERDICTS = {
    RequestState.PENDING: CallVerdict.ASKED,
    RequestState.ALLOWED: CallVerdict.ALLOWED,
    RequestState.DENIED: CallVerdict.DENIED,
    RequestState.WITHDRAWN: CallVerdict.DENIED,
}
