"""Endpoint for answers to permission requests: the first answer counts and resumes the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.http import HttpResponse

from agents.runs.answer import answer
from agents.states import Answer
from permissions.actions.requests import AnswerOptions
from permissions.models import GrantScope
from workspaces.access import Right
from workspaces.api.answers import json_answer
from workspaces.api.api_view import ApiView
from workspaces.api.bodies import Form
from workspaces.api.fields import JsonObject, PlainText, Whole
from workspaces.log.errors import BadField
from workspaces.log.reader import read
from workspaces.queries.trust import is_trust_request
from workspaces.queries.workspaces import require_open


class PermissionForm(Form):
    """The request as the client displays it. Only its ids are used: the rest is not trusted."""

    id = PlainText(limit=200, allow_blank=True, default="")
    tool_call_id = PlainText(limit=1000, allow_blank=True, default="")


class GrantForm(Form):
    permission = PermissionForm()
    action = PlainText(limit=100, allow_blank=True)
    folder = PlainText(limit=4096, allow_blank=True, default="")


REASON_LIMIT = 10_000


class AnswerForm(Form):
    """An answer of a native client, over the socket or REST."""

    answer = PlainText(limit=100)
    scope = PlainText(limit=20, allow_blank=True, default="")
    folder = PlainText(limit=4096, allow_blank=True, default="")
    until = Whole(allow_null=True, default=None)
    reason = PlainText(limit=REASON_LIMIT, allow_blank=True, default="")
    arguments = JsonObject(allow_null=True, default=None)


def answer_of(fields: Mapping[str, Any]) -> tuple[Answer, AnswerOptions]:
    """Returns the answer in the fields of an ``AnswerForm``. Raises ``BadField``."""
    try:
        chosen = Answer(fields["answer"])
    except ValueError:
        raise BadField(f"answer: must be one of {', '.join(Answer)}") from None
    try:
        scope = GrantScope(fields["scope"] or GrantScope.ONCE)
    except ValueError:
        raise BadField(f"scope: must be one of {', '.join(GrantScope)}") from None
    if chosen is Answer.ALLOW_SESSION:
        if fields["scope"] not in {"", GrantScope.SESSION}:
            raise BadField(f"scope: {Answer.ALLOW_SESSION} has the scope session")
        scope = GrantScope.SESSION
    until = fields["until"]
    options = AnswerOptions(
        scope=scope,
        folder=fields["folder"],
        until=None if until is None else until * 1000,
        reason=fields["reason"],
        arguments=fields["arguments"],
    )
    return chosen, options


class GrantView(ApiView):
    rights: ClassVar = {"post": Right.ANSWER}

    async def post(self, workspace_id: str) -> HttpResponse:
        fields = await self.fields(GrantForm)
        try:
            chosen = Answer(fields["action"])
        except ValueError:
            choices = ", ".join(Answer)
            raise BadField(f"failed to decode request: action must be one of {choices}") from None
        if fields["folder"] and chosen is not Answer.ALLOW_SESSION:
            raise BadField(f"folder: belongs to {Answer.ALLOW_SESSION} only")
        permission = fields["permission"]
        if not permission["id"] and not permission["tool_call_id"]:
            raise BadField("permission.id is required")
        await read(require_open, workspace_id)
        if await read(is_trust_request, permission["id"], permission["tool_call_id"]):
            await self.caller.require(Right.TRUST, workspace_id)
        resolution = await answer(
            workspace_id,
            request_id=permission["id"],
            tool_call_id=permission["tool_call_id"],
            answer=chosen,
            options=AnswerOptions(folder=fields["folder"]),
            actor=self.actor,
        )
        return json_answer({"resolved": resolution.is_first})
