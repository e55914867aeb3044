"""Questions of tools to the user: all workspaces' batches, and their answers."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from agents.api.questions import CHOICES, RESPONSES, WORDS_LIMIT, given
from agents.rest.approvals import (
    ID_LIMIT,
    OPEN,
    PAST,
    AnswererSerializer,
    ResolutionSerializer,
    state_is,
)
from agents.runs.answer import answer_questions, dismiss_questions
from permissions.models import BatchState, QuestionBatch
from permissions.queries import question_wire
from workspaces.access import Right
from workspaces.log.errors import QuestionUnknown
from workspaces.rest.view import Resource


class QuestionResponseSerializer(serializers.Serializer[Any]):
    """The answer to one question of a batch."""

    request_id = serializers.CharField(max_length=ID_LIMIT, help_text="The question's id.")
    selected_ids = serializers.ListField(
        child=serializers.CharField(max_length=10_000),
        max_length=CHOICES,
        required=False,
        help_text="The ids of the chosen choices.",
    )
    fill_in_text = serializers.CharField(
        required=False, allow_blank=True, max_length=WORDS_LIMIT, help_text="Words of the user."
    )
    yes = serializers.BooleanField(required=False, help_text="For a question of yes or no.")
    notes = serializers.CharField(
        required=False, allow_blank=True, max_length=WORDS_LIMIT, help_text="Further words."
    )


class QuestionBatchSerializer(serializers.Serializer[Any]):
    """Questions of one tool call, which are answered together."""

    id = serializers.CharField(help_text="The batch's id.")
    workspace_id = serializers.CharField(help_text="Its workspace.")
    session_id = serializers.CharField(help_text="The session of the tool call.")
    tool_call_id = serializers.CharField(help_text="The call, as in the session's messages.")
    questions = serializers.ListField(
        child=serializers.DictField(),
        help_text="The questions: `id`, `type`, `question`, and `choices` where there are some.",
    )
    confirm_title = serializers.CharField(required=False, help_text="A heading for all.")
    confirm_description = serializers.CharField(required=False, help_text="Words for all.")
    asked_at = serializers.IntegerField(help_text="When it was opened, in unix seconds.")
    deny_at = serializers.IntegerField(
        required=False, help_text="When the workspace's policy dismisses it."
    )
    is_overdue = serializers.BooleanField(
        help_text="The policy's time for an answer is over, and users were notified."
    )
    state = serializers.ChoiceField(BatchState.choices, help_text="Whether it is answered.")
    author = AnswererSerializer(allow_null=True, help_text="Who answered or dismissed it.")
    answered_at = serializers.IntegerField(
        allow_null=True, help_text="When it was answered, in unix seconds."
    )
    responses = QuestionResponseSerializer(many=True, help_text="The answers.")


class QuestionFilter(serializers.Serializer[Any]):
    state = serializers.ChoiceField(
        [OPEN, PAST, *BatchState.values],
        default=OPEN,
        help_text="`open` for those that wait, `past` for the others, or one state.",
    )
    workspace_id = serializers.CharField(
        required=False, max_length=ID_LIMIT, help_text="Only of this workspace."
    )
    session_id = serializers.CharField(
        required=False, max_length=ID_LIMIT, help_text="Only of this session."
    )


class QuestionAnswersSerializer(serializers.Serializer[Any]):
    """The answers to the questions of a batch."""

    responses: Any = serializers.ListSerializer(
        child=QuestionResponseSerializer(),
        max_length=RESPONSES,
        help_text="One for each question that is answered.",
    )


class QuestionList(Resource):
    """The questions of all workspaces that you may read."""

    rights: ClassVar = {"get": Right.SIGNED_IN}
    serializer_class = QuestionBatchSerializer
    queryset = QuestionBatch.objects.all()
    ordering = ("-asked_at", "-id")

    @extend_schema(parameters=[QuestionFilter])
    def get(self, _: Request) -> Response:
        wanted = self.query(QuestionFilter)
        state = wanted.pop("state")
        found = self.visible(self.get_queryset()).filter(**wanted)
        return self.page(found.filter(state_is(state)), question_wire)


class QuestionDetail(Resource):
    """One batch of questions, also of a closed workspace."""

    rights: ClassVar = {"get": Right.READ}
    allows_closed = True
    serializer_class = QuestionBatchSerializer

    def get(self, _: Request, workspace_id: str, batch_id: str) -> Response:
        return Response(question_wire(_batch(workspace_id, batch_id)))


class QuestionAnswer(Resource):
    """Answers the questions of a batch. The first answer counts, and resumes its run."""

    rights: ClassVar = {"post": Right.ANSWER}
    allows_closed = True
    serializer_class = QuestionAnswersSerializer

    @extend_schema(responses={200: ResolutionSerializer})
    def post(self, _: Request, workspace_id: str, batch_id: str) -> Response:
        responses = [given(response) for response in self.body()["responses"]]
        _batch(workspace_id, batch_id)
        resolution = self.act(answer_questions, workspace_id, batch_id, responses, actor=self.actor)
        return Response(resolution.wire())


class QuestionDismissal(Resource):
    """Dismisses a batch of questions: its run resumes without answers."""

    rights: ClassVar = {"post": Right.ANSWER}
    allows_closed = True
    serializer_class = ResolutionSerializer

    @extend_schema(request=None, responses={200: ResolutionSerializer})
    def post(self, _: Request, workspace_id: str, batch_id: str) -> Response:
        _batch(workspace_id, batch_id)
        resolution = self.act(dismiss_questions, workspace_id, batch_id, actor=self.actor)
        return Response(resolution.wire())


def _batch(workspace_id: str, batch_id: str) -> QuestionBatch:
    found = QuestionBatch.objects.filter(pk=batch_id, workspace_id=workspace_id).first()
    if found is None:
        raise QuestionUnknown
    return found
