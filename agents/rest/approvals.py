"""Permission requests: the inbox of all workspaces, one request with its change, and the answer."""

from __future__ import annotations

from typing import Any, ClassVar

import orjson
from django.db.models import Q
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from agents.runs.answer import answer
from agents.states import Answer
from agents.tools.files.diffs import unified
from permissions.actions.requests import AnswerOptions
from permissions.models import GrantScope, PermissionRequest, RequestState
from permissions.queries import approval_wire
from workspaces.access import Right
from workspaces.log.errors import ApprovalUnknown
from workspaces.models import Message
from workspaces.rest.messages import AuthorSerializer
from workspaces.rest.view import Resource

OPEN, PAST = "open", "past"
REASON_LIMIT = 10_000
PATH_LIMIT = 4096
ID_LIMIT = 200
LATEST_SECONDS = 2**42  # far in the future, and small enough for a column of milliseconds


class AnswererSerializer(AuthorSerializer):
    """Who answered."""

    kind = serializers.CharField(
        help_text="`owner`, `user` or `token`; `policy` for the workspace's approval policy."
    )
    via = serializers.CharField(
        required=False, help_text="The kind of client: `v1`, `socket`, `rest`, `admin`, `command`."
    )


class AgentStepSerializer(serializers.Serializer[Any]):
    session_id = serializers.CharField(help_text="A session, from the top one down.")
    title = serializers.CharField(help_text="Its title.")


class AnswerDetailsSerializer(serializers.Serializer[Any]):
    """What an answer may carry besides who gave it."""

    reason = serializers.CharField(required=False, help_text="The answer's reason for the model.")
    scope = serializers.ChoiceField(
        GrantScope.choices, required=False, help_text="How far the answer reaches."
    )
    until = serializers.IntegerField(required=False, help_text="When its grants end.")
    has_changed_arguments = serializers.BooleanField(
        required=False, help_text="The call runs with arguments of the answer."
    )


class ApprovalSerializer(AnswerDetailsSerializer):
    """A tool call that waits for a person, or waited for one."""

    id = serializers.CharField(help_text="The request's id.")
    workspace_id = serializers.CharField(help_text="Its workspace.")
    session_id = serializers.CharField(help_text="The session of the tool call.")
    tool_call_id = serializers.CharField(help_text="The call, as in the session's messages.")
    tool_name = serializers.CharField(help_text="The tool.")
    action = serializers.CharField(help_text="What it would do, for instance `write`.")
    path = serializers.CharField(help_text="The file or folder that the request is about.")
    description = serializers.CharField(help_text="A sentence for people.")
    params = serializers.DictField(help_text="What the tool shows of the call.")
    agent_path = AgentStepSerializer(
        many=True, required=False, help_text="For a call of a child session: the sessions above."
    )
    files = serializers.ListField(
        child=serializers.CharField(),
        required=False,
        help_text="The files that the call would write, and that a grant covers.",
    )
    always_asks = serializers.BooleanField(
        required=False, help_text="An answer counts once, whatever its scope."
    )
    dangerous = serializers.BooleanField(required=False, help_text="It writes a protected file.")
    cut_output = serializers.CharField(
        required=False,
        help_text="What the call had printed when its server stopped: `allow` runs it again.",
        trim_whitespace=False,
    )
    asked_at = serializers.IntegerField(help_text="When it was opened, in unix seconds.")
    deny_at = serializers.IntegerField(
        required=False, help_text="When the workspace's policy denies it."
    )
    is_overdue = serializers.BooleanField(
        help_text="The policy's time for an answer is over, and users were notified."
    )
    state = serializers.ChoiceField(RequestState.choices, help_text="Whether it is answered.")
    author = AnswererSerializer(allow_null=True, help_text="Who answered.")
    answered_at = serializers.IntegerField(
        allow_null=True, help_text="When it was answered, in unix seconds."
    )


class ApprovalDetailSerializer(ApprovalSerializer):
    """A request with what a person needs to decide."""

    run_key = serializers.IntegerField(help_text="The run that waits.")
    arguments = serializers.DictField(help_text="The call's arguments, as they are stored.")
    schema = serializers.DictField(
        help_text="The JSON Schema of the arguments. Empty: an answer cannot change them."
    )
    diff = serializers.CharField(
        help_text="The change of a file, as a unified diff; empty for other calls.",
        trim_whitespace=False,
    )


class ApprovalFilter(serializers.Serializer[Any]):
    state = serializers.ChoiceField(
        [OPEN, PAST, *RequestState.values],
        default=OPEN,
        help_text="`open` for those that wait, `past` for the others, or one state.",
    )
    workspace_id = serializers.CharField(
        required=False, max_length=ID_LIMIT, help_text="Only of this workspace."
    )
    session_id = serializers.CharField(
        required=False, max_length=ID_LIMIT, help_text="Only of this session."
    )
    tool_name = serializers.CharField(
        required=False, max_length=ID_LIMIT, help_text="Only of this tool."
    )


class ApprovalAnswerSerializer(serializers.Serializer[Any]):
    """An answer to a permission request."""

    answer = serializers.ChoiceField(["allow", "deny"], help_text="Whether the call may run.")
    reason = serializers.CharField(
        default="",
        allow_blank=True,
        max_length=REASON_LIMIT,
        help_text="For the model: below the result, or as the result of a denied call, which"
        " then does not end the turn.",
    )
    scope = serializers.ChoiceField(
        GrantScope.choices,
        default=GrantScope.ONCE.value,
        help_text="How long it also counts for later calls of the same tool, action and files.",
    )
    folder = serializers.CharField(
        default="",
        allow_blank=True,
        max_length=PATH_LIMIT,
        help_text="Everything in this folder, instead of the request's files.",
    )
    until = serializers.IntegerField(
        default=None,
        allow_null=True,
        min_value=0,
        max_value=LATEST_SECONDS,
        help_text="When a scope other than `once` ends, in unix seconds.",
    )
    arguments = serializers.DictField(
        default=None,
        allow_null=True,
        help_text="Other arguments, all of them: the call runs with these, once.",
    )


class ResolutionSerializer(serializers.Serializer[Any]):
    """Whose answer counts."""

    resolved = serializers.BooleanField(help_text="Whether this answer was the first.")
    state = serializers.CharField(help_text="The state now.")
    author = AnswererSerializer(allow_null=True, help_text="Who gave the answer that counts.")


class ApprovalResolutionSerializer(AnswerDetailsSerializer, ResolutionSerializer):
    """Whose answer counts, and what it carries."""


class ApprovalList(Resource):
    """The permission requests of all workspaces that you may read: your inbox."""

    rights: ClassVar = {"get": Right.SIGNED_IN}
    serializer_class = ApprovalSerializer
    queryset = PermissionRequest.objects.all()
    ordering = ("-asked_at", "-id")

    @extend_schema(parameters=[ApprovalFilter])
    def get(self, _: Request) -> Response:
        wanted = self.query(ApprovalFilter)
        state = wanted.pop("state")
        found = self.visible(self.get_queryset()).filter(**wanted)
        return self.page(found.filter(state_is(state)), approval_wire)


class ApprovalDetail(Resource):
    """One permission request, also of a closed workspace."""

    rights: ClassVar = {"get": Right.READ}
    allows_closed = True
    serializer_class = ApprovalDetailSerializer

    def get(self, _: Request, workspace_id: str, approval_id: str) -> Response:
        request = _request(workspace_id, approval_id)
        return Response(
            approval_wire(request)
            | {
                "run_key": request.run_key,
                "arguments": _arguments(request),
                "schema": request.schema,
                "diff": diff_of(request),
            }
        )


class ApprovalAnswer(Resource):
    """Answers a permission request. The first answer counts, and resumes its run."""

    rights: ClassVar = {"post": Right.ANSWER}
    allows_closed = True
    serializer_class = ApprovalAnswerSerializer

    @extend_schema(responses={200: ApprovalResolutionSerializer})
    def post(self, _: Request, workspace_id: str, approval_id: str) -> Response:
        given = self.body()
        _request(workspace_id, approval_id)
        until = given["until"]
        options = AnswerOptions(
            scope=GrantScope(given["scope"]),
            folder=given["folder"],
            until=None if until is None else until * 1000,
            reason=given["reason"],
            arguments=given["arguments"],
        )
        resolution = self.act(
            answer,
            workspace_id,
            request_id=approval_id,
            answer=Answer(given["answer"]),
            options=options,
            actor=self.actor,
        )
        return Response(resolution.wire())


def state_is(state: str) -> Q:
    """Returns the rows of a state in the filter. Requests and questions name open ones the same."""
    if state == OPEN:
        return Q(state=RequestState.PENDING)
    return ~Q(state=RequestState.PENDING) if state == PAST else Q(state=state)


def _request(workspace_id: str, approval_id: str) -> PermissionRequest:
    found = PermissionRequest.objects.filter(pk=approval_id, workspace_id=workspace_id).first()
    if found is None:
        raise ApprovalUnknown
    return found


def _arguments(request: PermissionRequest) -> dict[str, Any]:
    """Returns the arguments of the stored call; empty for calls of sub-agents."""
    replies = Message.objects.filter(
        session_id=request.session_id, run_key=request.run_key, role="assistant"
    )
    for parts in replies.order_by("-position").values_list("parts", flat=True).iterator():
        for part in orjson.loads(parts):
            if part["type"] == "tool_call" and part["data"]["id"] == request.tool_call_id:
                return _object(part["data"].get("input") or "{}")
    return {}


def _object(text: str) -> dict[str, Any]:
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def diff_of(request: PermissionRequest) -> str:
    """Returns the change of a file as a unified diff; empty for other calls."""
    before, after = request.params.get("old_content"), request.params.get("new_content")
    if not isinstance(before, str) or not isinstance(after, str):
        return ""
    return unified(before, after, path=str(request.params.get("file_path", ""))).text
