"""Endpoints that answer a tool's questions, or dismiss them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.http import HttpResponse
from rest_framework import serializers

from agents.runs.answer import answer_questions, dismiss_questions
from workspaces.access import Right
from workspaces.api.answers import json_answer
from workspaces.api.api_view import ApiView
from workspaces.api.bodies import Form
from workspaces.api.fields import MESSAGES, Flag, PlainText, Texts
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
        error_messages=MESSAGES
        | {
            "not_a_list": "must be a list",
            "max_length": "must have at most {max_length} items",
        },
    )


class DismissForm(Form):
    batch_request_id = PlainText(limit=200, allow_blank=True, allow_null=True, default="")


class QuestionsAnswerView(ApiView):
    rights: ClassVar = {"post": Right.ANSWER}

    async def post(self, workspace_id: str) -> HttpResponse:
        fields = await self.fields(AnswersForm)
        await read(require_open, workspace_id)
        responses = [given(response) for response in fields["responses"]]
        batch_id = fields["batch_request_id"] or ""
        resolution = await answer_questions(workspace_id, batch_id, responses, actor=self.actor)
        return json_answer({"resolved": resolution.is_first})


class QuestionsCancelView(ApiView):
    rights: ClassVar = {"post": Right.ANSWER}

    async def post(self, workspace_id: str) -> HttpResponse:
        """Dismisses the batch with this id, or without an id the oldest open one."""
        fields = await self.fields(DismissForm)
        await read(require_open, workspace_id)
        batch_id = fields["batch_request_id"] or ""
        resolution = await dismiss_questions(workspace_id, batch_id, actor=self.actor)
        return json_answer({"resolved": resolution.is_first})


def given(response: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in response.items() if value is not None}
