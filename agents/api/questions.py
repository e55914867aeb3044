"""Answering a tool's questions, and dismissing them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpResponse
from rest_framework import serializers

from agents.runs.answer import answer_questions, dismiss_questions
from workspaces.api.answers import json_answer
from workspaces.api.api_view import ApiView
from workspaces.api.bodies import Form
from workspaces.api.fields import WORDS, Flag, PlainText, Texts
from workspaces.log.reader import read
from workspaces.queries.workspaces import require_open

RESPONSES = 100
CHOICES = 100
WORDS_LIMIT = 100_000


class ResponseForm(Form):
    request_id = PlainText(limit=200)
    selected_ids = Texts(count=CHOICES, limit=10_000, allow_null=True, default=None)
    fill_in_text = PlainText(limit=WORDS_LIMIT, allow_blank=True, allow_null=True, default=None)
    yes = Flag(allow_null=True, default=None)
    notes = PlainText(limit=WORDS_LIMIT, allow_blank=True, allow_null=True, default=None)


class AnswersForm(Form):
    batch_request_id = PlainText(limit=200, allow_blank=True, allow_null=True, default="")
    responses: Any = serializers.ListSerializer(
        child=ResponseForm(),
        max_length=RESPONSES,
        error_messages=WORDS
        | {
            "not_a_list": "must be a list",
            "max_length": "must have at most {max_length} items",
        },
    )


class DismissForm(Form):
    batch_request_id = PlainText(limit=200, allow_blank=True, allow_null=True, default="")


class QuestionsAnswerView(ApiView):
    async def post(self, workspace_id: str) -> HttpResponse:
        fields = await self.fields(AnswersForm)
        await read(require_open, workspace_id)
        responses = [given(response) for response in fields["responses"]]
        batch_id = fields["batch_request_id"] or ""
        return json_answer({"resolved": await answer_questions(workspace_id, batch_id, responses)})


class QuestionsCancelView(ApiView):
    async def post(self, workspace_id: str) -> HttpResponse:
        """The named batch, else the oldest open one."""
        fields = await self.fields(DismissForm)
        await read(require_open, workspace_id)
        batch_id = fields["batch_request_id"] or ""
        return json_answer({"resolved": await dismiss_questions(workspace_id, batch_id)})


def given(response: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in response.items() if value is not None}
