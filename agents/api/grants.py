"""Answering a permission request: the first answer wins, and its run goes on."""

from __future__ import annotations

from django.http import HttpResponse

from agents.runs.answer import Answer, answer
from workspaces.api.answers import json_answer
from workspaces.api.api_view import ApiView
from workspaces.api.bodies import Form
from workspaces.api.fields import PlainText
from workspaces.log.errors import BadField
from workspaces.log.reader import read
from workspaces.queries.workspaces import require_open


class PermissionForm(Form):
    """The request as it was shown; what it says beside its ids is not believed."""

    id = PlainText(limit=200, allow_blank=True, default="")
    tool_call_id = PlainText(limit=1000, allow_blank=True, default="")


class GrantForm(Form):
    permission = PermissionForm()
    action = PlainText(limit=100, allow_blank=True)
    folder = PlainText(limit=4096, allow_blank=True, default="")


class GrantView(ApiView):
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
        resolved = await answer(
            workspace_id,
            request_id=permission["id"],
            tool_call_id=permission["tool_call_id"],
            answer=chosen,
            folder=fields["folder"],
        )
        return json_answer({"resolved": resolved})
