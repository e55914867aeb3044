"""The commands of the native socket: prompt, cancel, answer, questions, ping, and those of runs.

They use the same forms and actions as HTTP; a refusal becomes a reply. This module does
not depend on the transport: the socket gets ``COMMANDS``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents.api.grants import AnswerForm, answer_of
from agents.api.native_prompts import StrategySerializer, check_options, with_strategy
from agents.api.prompts import PromptForm, prompt_of, queue_limits
from agents.api.questions import AnswersForm, DismissForm, given
from agents.api.run_commands import RUN_COMMANDS, run_key
from agents.runs.accept import accept
from agents.runs.answer import answer as answer_request
from agents.runs.answer import answer_questions, dismiss_questions
from agents.runs.cancel import cancel as cancel_session
from agents.runs.prompting.queue import cancel_one
from agents.turn.options import options_named
from workspaces.access import Actor, Caller, Right
from workspaces.actions.claims import set_current_session
from workspaces.api.bodies import Form, checked
from workspaces.api.fields import PlainText
from workspaces.api.workspaces import write_in_open
from workspaces.delivery.native_socket import Body, Command
from workspaces.log.errors import BadField
from workspaces.log.reader import read
from workspaces.queries.trust import is_trust_request
from workspaces.queries.workspaces import require_open


class ShowForm(Form):
    session_id = PlainText(limit=200, allow_blank=True)


class CancelForm(Form):
    session_id = PlainText(limit=200, default="")
    key = run_key(default=None)


class RequestForm(AnswerForm):
    request_id = PlainText(limit=200)


async def prompt(workspace_id: str, body: Body, actor: Actor) -> Mapping[str, Any]:
    """Accepts a prompt; returns the key of its run when it is stored."""
    if "text" not in body:
        raise BadField("text is required")
    try:
        fields = checked(PromptForm, {**body, "prompt": body["text"]})
    except BadField as refusal:
        # The form names the field as the HTTP interface does.
        raise BadField(refusal.sentence.replace("prompt:", "text:", 1)) from None
    accepted = await accept(
        workspace_id,
        with_strategy(prompt_of(fields), _strategy_in(body)),
        limits=queue_limits(),
        client_id=actor.client_id,
        actor=actor,
    )
    return {"key": accepted.key}


async def check_prompt(caller: Caller, workspace_id: str, body: Body) -> None:
    """Requires what the options of the prompt need."""
    if body.get("options") is not None:
        options = _strategy_in(body).get("options") or {}
        await check_options(caller, workspace_id, options_named(options))


def _strategy_in(body: Body) -> dict[str, Any]:
    names = ("strategy", "priority", "options")
    named = {name: body[name] for name in names if body.get(name) is not None}
    return checked(StrategySerializer, named)


async def cancel(workspace_id: str, body: Body, actor: Actor) -> None:
    """Cancels everything that the session has accepted before, or one run alone."""
    fields = checked(CancelForm, dict(body))
    if bool(fields["session_id"]) == (fields["key"] is not None):
        raise BadField("session_id: is required, or key")
    await read(require_open, workspace_id)
    if fields["key"] is not None:
        await cancel_one(workspace_id, fields["key"], actor=actor)
        return
    await cancel_session(workspace_id, fields["session_id"], actor=actor)


async def answer(workspace_id: str, body: Body, actor: Actor) -> Mapping[str, Any]:
    """Answers a permission request; returns whether this answer was the first, and who was."""
    fields = checked(RequestForm, dict(body))
    chosen, options = answer_of(fields)
    await read(require_open, workspace_id)
    resolution = await answer_request(
        workspace_id,
        request_id=fields["request_id"],
        answer=chosen,
        options=options,
        actor=actor,
    )
    return resolution.wire()


async def check_trust(caller: Caller, workspace_id: str, body: Body) -> None:
    """Raises ``Forbidden`` where an answer would trust a folder, which needs a right of its own."""
    request_id = body.get("request_id")
    if isinstance(request_id, str) and await read(is_trust_request, request_id):
        await caller.require(Right.TRUST, workspace_id)


async def answer_batch(workspace_id: str, body: Body, actor: Actor) -> Mapping[str, Any]:
    """Answers a batch of questions; returns whether these answers were the first, and who was."""
    fields = checked(AnswersForm, {**body, "batch_request_id": body.get("batch_id")})
    await read(require_open, workspace_id)
    responses = [given(response) for response in fields["responses"]]
    batch_id = fields["batch_request_id"] or ""
    return (await answer_questions(workspace_id, batch_id, responses, actor=actor)).wire()


async def dismiss(workspace_id: str, body: Body, actor: Actor) -> Mapping[str, Any]:
    """Dismisses a batch of questions."""
    fields = checked(DismissForm, {"batch_request_id": body.get("batch_id")})
    await read(require_open, workspace_id)
    batch_id = fields["batch_request_id"] or ""
    return (await dismiss_questions(workspace_id, batch_id, actor=actor)).wire()


async def show(workspace_id: str, body: Body, actor: Actor) -> None:
    """Stores which session the client shows: its user gets no notifications about it."""
    session_id = checked(ShowForm, dict(body))["session_id"]
    await write_in_open(
        workspace_id,
        lambda tx: set_current_session(
            tx, workspace_id, actor.client_id, session_id=session_id, user_id=actor.user_id
        ),
    )


async def ping(workspace_id: str, body: Body, actor: Actor) -> None:
    """Does nothing: the reply shows that the server is reachable."""


COMMANDS: Mapping[str, Command] = {
    "prompt": Command(Right.PROMPT, prompt, check_prompt),
    "cancel": Command(Right.CANCEL, cancel),
    "answer": Command(Right.ANSWER, answer, check_trust),
    "answer_questions": Command(Right.ANSWER, answer_batch),
    "dismiss_questions": Command(Right.ANSWER, dismiss),
    "show": Command(Right.OPEN, show),
    "ping": Command(Right.READ, ping),
    **RUN_COMMANDS,
}
