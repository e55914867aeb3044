"""Stores answers to permission requests and questions. The first one counts and resumes the run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from agents.config.edits.trust_requests import answer_trust_request, apply_trust
from agents.runs import nudges
from agents.runs.transitions import mark_ready
from agents.states import Answer
from agents.tools.contract import BadArguments
from agents.tools.mcp.schemas import fault_in
from agents.tools.registry import TOOLS
from people.actions.audit import DONE, Act, record
from permissions.actions.grants import remove_expired_grants
from permissions.actions.overdue import (
    deny_overdue,
    has_expired_grants,
    notify_overdue,
    overdue_workspaces,
)
from permissions.actions.questions import answer_batch, dismiss_batch
from permissions.actions.requests import AnswerOptions, answer_request, answer_wire
from permissions.models import (
    BatchState,
    GrantScope,
    PermissionRequest,
    QuestionBatch,
    RequestState,
)
from workspaces.access import Actor, author_of
from workspaces.actions.workspaces import reopen_workspace
from workspaces.log.errors import BadField
from workspaces.log.reader import read
from workspaces.log.timestamps import now_ms
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer
from workspaces.queries.trust import trust_answer_wire

TOO_LATE = "too late"  # the request is unknown, or was answered before
ONCE = AnswerOptions()


@dataclass(frozen=True, slots=True)
class Resolution:
    """Whether an answer was the first, and the answer that counts. Without one there is no request."""

    is_first: bool
    answer: Mapping[str, Any] = field(default_factory=dict)  # as its event has it

    def wire(self) -> dict[str, Any]:
        """Returns the reply for native clients."""
        return {"resolved": self.is_first, **self.answer}


NOT_FOUND = Resolution(is_first=False)


async def answer(
    workspace_id: str,
    *,
    request_id: str,
    tool_call_id: str = "",
    answer: Answer,
    options: AnswerOptions = ONCE,
    actor: Actor | None = None,
) -> Resolution:
    """Stores an answer to a permission request, or to a trust request.

    Raises ``BadField`` for options that do not fit, for instance for changed arguments that the
    tool does not accept.
    """
    if options.arguments is not None:
        await _check_arguments(workspace_id, request_id, options.arguments)
    resolution, trusted = await writer.write(
        workspace_id,
        lambda tx: _resolve(
            tx,
            workspace_id,
            request_id=request_id,
            tool_call_id=tool_call_id,
            answer=answer,
            options=options,
            actor=actor,
        ),
    )
    if trusted:
        await apply_trust(trusted)
    elif resolution.is_first:
        await nudges.nudge_accepted()
    return resolution


async def _check_arguments(
    workspace_id: str, request_id: str, arguments: Mapping[str, Any]
) -> None:
    """Raises ``BadField`` for arguments that the tool of the request does not accept."""

    def find() -> tuple[str, Mapping[str, Any]]:
        found = PermissionRequest.objects.filter(pk=request_id, workspace_id=workspace_id)
        return found.values_list("tool_name", "schema").first() or ("", {})

    tool_name, schema = await read(find)
    if not schema:
        return  # the action refuses the answer
    if fault := await asyncio.to_thread(fault_in, arguments, schema):
        raise BadField(f"arguments: {fault}")
    tool = TOOLS.get(tool_name)
    if tool is None or tool.spec.schema != schema:
        return
    try:
        tool.parse(arguments)
    except BadArguments as bad:
        raise BadField(f"arguments: {bad}") from None


def _resolve(
    tx: Transaction,
    workspace_id: str,
    *,
    request_id: str,
    tool_call_id: str,
    answer: Answer,
    options: AnswerOptions,
    actor: Actor | None,
) -> tuple[Resolution, str]:
    """Returns whether the answer counted, and the folder if it answered a trust request."""
    # First the requests of runs: they are the ordinary case, and ids of the two kinds differ.
    resolution = resolve(
        tx,
        workspace_id,
        request_id=request_id,
        tool_call_id=tool_call_id,
        answer=answer,
        options=options,
        actor=actor,
    )
    trusted = ""
    if not resolution.is_first and not resolution.answer:
        request, is_first = answer_trust_request(
            tx,
            workspace_id,
            request_id=request_id,
            tool_call_id=tool_call_id,
            is_allowed=answer is not Answer.DENY,
            actor=actor,
        )
        if is_first and (options.scope is not GrantScope.ONCE or options.arguments is not None):
            raise BadField("scope, arguments: do not belong to the answer of a trust request")
        if request is not None:
            trusted = request.path if is_first else ""
            resolution = Resolution(is_first=is_first, answer=trust_answer_wire(request))
    record(
        tx,
        actor,
        Act.TRUST if trusted else Act.ANSWER,
        workspace_id=workspace_id,
        target=trusted or request_id or tool_call_id,
        outcome=answer.value if resolution.is_first else TOO_LATE,
        details=_details(options),
    )
    return resolution, trusted


def _details(options: AnswerOptions) -> dict[str, Any]:
    details: dict[str, Any] = {}
    if options.scope is not GrantScope.ONCE:
        details["scope"] = options.scope.value
    if options.folder:
        details["folder"] = options.folder
    if options.until is not None:
        details["until"] = options.until // 1000
    if options.arguments is not None:
        details["has_changed_arguments"] = True
    return details


def resolve(
    tx: Transaction,
    workspace_id: str,
    *,
    request_id: str,
    tool_call_id: str,
    answer: Answer,
    options: AnswerOptions = ONCE,
    actor: Actor | None = None,
) -> Resolution:
    """Answers the request with this id, or without an id the open request of this tool call."""
    requests = PermissionRequest.objects.filter(workspace_id=workspace_id)
    if request_id:
        request = requests.filter(pk=request_id).first()
    else:
        waiting = requests.filter(tool_call_id=tool_call_id, state=RequestState.PENDING)
        request = waiting.order_by("asked_at").first()
    if request is None:
        return NOT_FOUND
    if answer is Answer.ALLOW_SESSION:
        options = replace(options, scope=GrantScope.SESSION)
    is_first = request.state == RequestState.PENDING and answer_request(
        tx,
        request,
        granted=answer is not Answer.DENY,
        options=options,
        actor=actor,
    )
    if is_first:
        _resume(tx, workspace_id, request.run_key)
    else:
        request.refresh_from_db()
    return Resolution(is_first, answer_wire(request))


Response = Mapping[str, Any]


async def answer_questions(
    workspace_id: str,
    batch_id: str,
    responses: Sequence[Response],
    *,
    actor: Actor | None = None,
) -> Resolution:
    """Stores the responses to a batch of questions.

    Without a batch id, the ids of the questions identify the batch. Raises ``BadField`` for a
    response that does not fit its question.
    """
    resolution = await writer.write(
        workspace_id,
        lambda tx: _recorded(
            tx,
            actor,
            Act.ANSWER_QUESTIONS,
            workspace_id,
            batch_id,
            resolve_batch(tx, workspace_id, batch_id, responses, actor=actor),
        ),
    )
    if resolution.is_first:
        await nudges.nudge_accepted()
    return resolution


async def dismiss_questions(
    workspace_id: str, batch_id: str, *, actor: Actor | None = None
) -> Resolution:
    """Dismisses a batch, or without an id the workspace's oldest open batch."""
    resolution = await writer.write(
        workspace_id,
        lambda tx: _recorded(
            tx,
            actor,
            Act.DISMISS_QUESTIONS,
            workspace_id,
            batch_id,
            dismiss_open_batch(tx, workspace_id, batch_id, actor=actor),
        ),
    )
    if resolution.is_first:
        await nudges.nudge_accepted()
    return resolution


def _recorded(
    tx: Transaction,
    actor: Actor | None,
    act: Act,
    workspace_id: str,
    batch_id: str,
    resolution: Resolution,
) -> Resolution:
    outcome = DONE if resolution.is_first else TOO_LATE
    record(tx, actor, act, workspace_id=workspace_id, target=batch_id, outcome=outcome)
    return resolution


def resolve_batch(
    tx: Transaction,
    workspace_id: str,
    batch_id: str,
    responses: Sequence[Response],
    *,
    actor: Actor | None = None,
) -> Resolution:
    named = {response["request_id"] for response in responses}
    for batch in _batches(workspace_id, batch_id):
        questions = {question["id"]: question for question in batch.questions}
        if not batch_id and not (named & questions.keys()):
            continue
        if batch.state == BatchState.PENDING:
            for response in responses:
                _require_fitting(questions.get(response["request_id"]), response)
        author = author_of(actor, with_client=True)
        return _resolution(tx, batch, answer_batch(tx, batch, responses, author=author))
    return NOT_FOUND


def dismiss_open_batch(
    tx: Transaction, workspace_id: str, batch_id: str, *, actor: Actor | None = None
) -> Resolution:
    batch = next(iter(_batches(workspace_id, batch_id)), None)
    if batch is None:
        return NOT_FOUND
    author = author_of(actor, with_client=True)
    return _resolution(tx, batch, dismiss_batch(tx, batch, author=author))


def _resolution(tx: Transaction, batch: QuestionBatch, is_first: bool) -> Resolution:
    if is_first:
        _resume(tx, batch.workspace_id, batch.run_key)
    batch.refresh_from_db(fields=["state", "author"])
    return Resolution(is_first, {"state": str(batch.state), "author": batch.author})


def _batches(workspace_id: str, batch_id: str) -> Sequence[QuestionBatch]:
    """Returns the batch with this id in any state, or without an id the open ones, oldest first."""
    batches = QuestionBatch.objects.filter(workspace_id=workspace_id)
    if batch_id:
        return list(batches.filter(pk=batch_id))
    return list(batches.filter(state=BatchState.PENDING).order_by("asked_at", "pk"))


def _require_fitting(question: Mapping[str, Any] | None, response: Response) -> None:
    if question is None:
        raise BadField(f"responses: there is no question {response['request_id']!r:.80}")
    selected = response.get("selected_ids") or ()
    known = {choice["id"] for choice in question.get("choices") or ()}
    unknown = next((chosen for chosen in selected if chosen not in known), None)
    if unknown is not None:
        raise BadField(f"responses: {unknown!r:.80} is not a choice of {question['id']}")
    if question["type"] == "single_choice" and len(selected) > 1:
        raise BadField(f"responses: {question['id']} takes one choice")


async def settle_overdue() -> None:
    """Denies and notifies about what has waited too long, and removes expired grants.

    Every worker calls this once in a while. What is due is stored, so nothing is lost meanwhile.
    """
    resumes = False
    for workspace_id in await read(overdue_workspaces, now_ms()):
        resumes |= await writer.write(workspace_id, partial(_settle, workspace_id=workspace_id))
    if resumes:
        await nudges.nudge_accepted()
    if await read(has_expired_grants, now_ms()):
        await writer.write("", remove_expired_grants)


def _settle(tx: Transaction, *, workspace_id: str) -> bool:
    """Returns whether a run may resume."""
    resumed = deny_overdue(tx, workspace_id)
    for run_key in resumed:
        _resume(tx, workspace_id, run_key)
    notify_overdue(tx, workspace_id)
    return bool(resumed)


def _resume(tx: Transaction, workspace_id: str, run_key: int) -> None:
    """Lets the run continue, also in a workspace that was closed while the run was parked."""
    reopen_workspace(tx, workspace_id)
    mark_ready(tx, run_key)
