"""The commands of the native socket: prompt, cancel, answer, questions, ping.

The same forms and actions as over HTTP; a refusal becomes a reply. Knows no
transport: ``COMMANDS`` is handed to the socket.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from agents.api.prompts import PromptForm, prompt_of, queue_limits
from agents.api.questions import AnswersForm, DismissForm, given
from agents.runs.accept import accept
from agents.runs.answer import Answer, answer_questions, dismiss_questions
from agents.runs.answer import answer as answer_request
from agents.runs.cancel import cancel as cancel_session
from workspaces.api.bodies import Form, checked
from workspaces.api.fields import PlainText
from workspaces.log.errors import BadField
from workspaces.log.reader import read
from workspaces.queries.workspaces import require_open

Body = Mapping[str, Any]
Command = Callable[[str, Body], Awaitable[Mapping[str, Any] | None]]


class CancelForm(Form):
    session_id = PlainText(limit=200)


class AnswerForm(Form):
    request_id = PlainText(limit=200)
    answer = PlainText(limit=100)
    folder = PlainText(limit=4096, allow_blank=True, default="")


async def prompt(workspace_id: str, body: Body) -> None:
    """Returns when the prompt is durably accepted."""
    if "text" not in body:
        raise BadField("text is required")
    try:
        fields = checked(PromptForm, {**body, "prompt": body["text"]})
    except BadField as refusal:
        # The form's name for it is the other interface's.
        raise BadField(refusal.sentence.replace("prompt:", "text:", 1)) from None
    await accept(workspace_id, prompt_of(fields), limits=queue_limits())


async def cancel(workspace_id: str, body: Body) -> None:
    """Cancels what was accepted before it in the session."""
    fields = checked(CancelForm, dict(body))
    await read(require_open, workspace_id)
    await cancel_session(workspace_id, fields["session_id"])


async def answer(workspace_id: str, body: Body) -> Mapping[str, Any]:
    """Whether this answer was the first."""
    fields = checked(AnswerForm, dict(body))
    try:
        chosen = Answer(fields["answer"])
    except ValueError:
        raise BadField(f"answer: must be one of {', '.join(Answer)}") from None
    if fields["folder"] and chosen is not Answer.ALLOW_SESSION:
        raise BadField(f"folder: belongs to {Answer.ALLOW_SESSION} only")
    await read(require_open, workspace_id)
    resolved = await answer_request(
        workspace_id,
        request_id=fields["request_id"],
        tool_call_id="",
        answer=chosen,
        folder=fields["folder"],
    )
    return {"resolved": resolved}


async def answer_batch(workspace_id: str, body: Body) -> Mapping[str, Any]:
    """Whether these answers were the first."""
    fields = checked(AnswersForm, {**body, "batch_request_id": body.get("batch_id")})
    await read(require_open, workspace_id)
    responses = [given(response) for response in fields["responses"]]
    batch_id = fields["batch_request_id"] or ""
    return {"resolved": await answer_questions(workspace_id, batch_id, responses)}


async def dismiss(workspace_id: str, body: Body) -> Mapping[str, Any]:
    """Nobody wants to answer these questions."""
    fields = checked(DismissForm, {"batch_request_id": body.get("batch_id")})
    await read(require_open, workspace_id)
    batch_id = fields["batch_request_id"] or ""
    return {"resolved": await dismiss_questions(workspace_id, batch_id)}


async def ping(workspace_id: str, body: Body) -> None:
    """Says that the server hears."""


COMMANDS: Mapping[str, Command] = {
    "prompt": prompt,
    "cancel": cancel,
    "answer": answer,
    "answer_questions": answer_batch,
    "dismiss_questions": dismiss,
    "ping": ping,
}
