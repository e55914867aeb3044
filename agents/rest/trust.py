"""Trust in a folder: the powers of its configuration, the requests that wait, and the decision.

A decision has the effect of an answered trust request, also for a folder that is not open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

from django.conf import settings
from django.db.models import OuterRef, Subquery
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from agents.config.cache import config_of_folder
from agents.config.edits.trust_requests import apply_trust, revoke_trust, set_trust, shown_trust
from agents.config.trust.decision import TrustMode, TrustState
from agents.rest.approvals import ID_LIMIT, OPEN, PAST, AnswererSerializer, state_is
from agents.runs.answer import answer
from agents.states import Answer
from people.actions.audit import Act, record
from workspaces.access import Actor, Right
from workspaces.api.paths import PATH_LIMIT, resolved_folder
from workspaces.log.errors import ApprovalUnknown, BadField, Refusal, WorkspaceUnknown
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer
from workspaces.models import TrustRequest, TrustRequestState, Workspace
from workspaces.queries.trust import answered_requests, shown_answer, shown_request
from workspaces.rest.view import Resource

REVOKE = "revoke"


class TrustChanged(Refusal):
    """The configuration of the folder has changed since it was shown: review it again."""

    code = "trust_changed"
    status = 409


class TrustAnswerSerializer(serializers.Serializer[Any]):
    path = serializers.CharField(help_text="The folder.")
    digest = serializers.CharField(help_text="Of what was decided about.")
    allowed = serializers.BooleanField(help_text="Whether its configuration may act.")
    answered_at = serializers.CharField(help_text="When, as RFC 3339.")


class TrustSerializer(serializers.Serializer[Any]):
    """Whether a folder is trusted. Without a path in the query only `mode` and `answers`."""

    mode = serializers.ChoiceField(
        [mode.value for mode in TrustMode],
        help_text="Who decides: a person for each folder, or the operator (`all`, `none`).",
    )
    path = serializers.CharField(required=False, help_text="The folder, symlinks followed.")
    state = serializers.ChoiceField(
        [state.value for state in TrustState],
        required=False,
        help_text="`unneeded` if its configuration does nothing that needs trust.",
    )
    digest = serializers.CharField(
        required=False, help_text="Of all that it would do; to be sent with the answer."
    )
    description = serializers.CharField(required=False, help_text="What it would do, for people.")
    params = serializers.DictField(required=False, help_text="The same in its parts.")
    left_out = serializers.ListField(
        child=serializers.CharField(), required=False, help_text="What does not apply without it."
    )
    answers = TrustAnswerSerializer(
        many=True, required=False, help_text="All decisions, the newest first."
    )


class TrustQuery(serializers.Serializer[Any]):
    path = serializers.CharField(
        required=False, max_length=PATH_LIMIT, help_text="A folder; absent for all decisions."
    )


class WorkspaceTrustDecisionSerializer(serializers.Serializer[Any]):
    """A decision about the folder of a workspace."""

    answer = serializers.ChoiceField(
        ["allow", "deny", REVOKE], help_text="`revoke` removes an earlier decision."
    )
    digest = serializers.CharField(
        default="",
        allow_blank=True,
        max_length=64,
        help_text="Identifies what was reviewed; not needed to revoke.",
    )


class TrustDecisionSerializer(WorkspaceTrustDecisionSerializer):
    """A decision about a folder."""

    path = serializers.CharField(max_length=PATH_LIMIT, help_text="The folder, absolute.")


class TrustResource(Resource):
    """What both resources of trust share."""

    rights: ClassVar = {"get": Right.READ, "post": Right.TRUST}
    folder_methods: ClassVar = frozenset({"get", "post"})
    serializer_class = TrustSerializer

    def shown(self, folder: str) -> Response:
        return Response({"mode": settings.CRUSH_TRUST, **shown_trust(config_of_folder(folder))})

    def decide(self, folder: str, given: Mapping[str, str], workspace_id: str = "") -> Response:
        decide = _decision(folder, given["answer"], given["digest"], self.actor)
        self.act(_decide, folder, given["answer"], decide, self.actor, workspace_id)
        return self.shown(folder)


class Trust(TrustResource):
    """Whether the configuration of a folder may act, and the decision about it."""

    @extend_schema(parameters=[TrustQuery])
    def get(self, _: Request) -> Response:
        path = self.query(TrustQuery).get("path")
        if path is None:
            answers = [shown_answer(one) for one in answered_requests("")]
            return Response({"mode": settings.CRUSH_TRUST, "answers": answers})
        return self.shown(resolved_folder(path))

    @extend_schema(request=TrustDecisionSerializer, responses={200: TrustSerializer})
    def post(self, _: Request) -> Response:
        """Stores the decision. 409 when the configuration has changed since it was shown."""
        given = self.body(TrustDecisionSerializer)
        return self.decide(resolved_folder(given["path"]), given)


class WorkspaceTrust(TrustResource):
    """The same for the folder of a workspace, for those who have the right in it alone."""

    rights: ClassVar = {"get": Right.READ, "post": Right.TRUST}
    allows_closed: ClassVar = True

    def get(self, _: Request, workspace_id: str) -> Response:
        return self.shown(_folder_of(workspace_id))

    @extend_schema(request=WorkspaceTrustDecisionSerializer, responses={200: TrustSerializer})
    def post(self, _: Request, workspace_id: str) -> Response:
        """Stores the decision. 409 when the configuration has changed since it was shown."""
        given = self.body(WorkspaceTrustDecisionSerializer)
        return self.decide(_folder_of(workspace_id), given, workspace_id)


def _folder_of(workspace_id: str) -> str:
    path = Workspace.objects.filter(pk=workspace_id).values_list("path", flat=True).first()
    if path is None:
        raise WorkspaceUnknown
    return resolved_folder(path)


def _decision(
    folder: str, answer: str, digest: str, actor: Actor
) -> Callable[[Transaction], object]:
    if answer == REVOKE:
        return partial(revoke_trust, path=folder)
    if not digest:
        raise BadField("digest is required: it identifies what was reviewed")
    config = config_of_folder(folder)
    if digest != config.trust.powers.digest:
        raise TrustChanged
    return partial(set_trust, path=folder, config=config, is_allowed=answer == "allow", actor=actor)


async def _decide(
    folder: str,
    answer: str,
    decide: Callable[[Transaction], object],
    actor: Actor,
    workspace_id: str,
) -> None:
    def store(tx: Transaction) -> None:
        decide(tx)
        record(tx, actor, Act.TRUST, workspace_id=workspace_id, target=folder, outcome=answer)

    await writer.write("", store)
    await apply_trust(folder)


class TrustRequestSerializer(serializers.Serializer[Any]):
    """A folder whose configuration waits for trust, or waited for it."""

    id = serializers.CharField(help_text="The request's id.")
    workspace_id = serializers.CharField(help_text="The workspace of the folder.")
    session_id = serializers.CharField(help_text="Empty: it belongs to no session.")
    tool_call_id = serializers.CharField(help_text="As in the events about it.")
    tool_name = serializers.CharField(help_text="`trust`.")
    action = serializers.CharField(help_text="`trust`.")
    path = serializers.CharField(help_text="The folder.")
    digest = serializers.CharField(help_text="Of all that its configuration would do.")
    description = serializers.CharField(help_text="What it would do, for people.")
    params = serializers.DictField(help_text="The same in its parts.")
    state = serializers.ChoiceField(TrustRequestState.choices, help_text="Whether it is answered.")
    asked_at = serializers.IntegerField(help_text="When it was opened, in unix seconds.")
    answered_at = serializers.IntegerField(
        allow_null=True, help_text="When it was answered, in unix seconds."
    )
    author = AnswererSerializer(allow_null=True, help_text="Who answered.")


class TrustRequestFilter(serializers.Serializer[Any]):
    state = serializers.ChoiceField(
        [OPEN, PAST, *TrustRequestState.values],
        default=OPEN,
        help_text="`open` for those that wait, `past` for the others, or one state.",
    )
    workspace_id = serializers.CharField(
        required=False, max_length=ID_LIMIT, help_text="Only of this workspace."
    )


class TrustRequestAnswerSerializer(serializers.Serializer[Any]):
    """An answer to a trust request."""

    answer = serializers.ChoiceField(["allow", "deny"], help_text="Whether the folder is trusted.")


class TrustResolutionSerializer(serializers.Serializer[Any]):
    """Which answer counts."""

    resolved = serializers.BooleanField(help_text="Whether this answer was the first.")
    state = serializers.ChoiceField(TrustRequestState.choices, help_text="The state now.")
    author = AnswererSerializer(allow_null=True, help_text="Who gave the answer that counts.")


class TrustRequestList(Resource):
    """The trust requests of open workspaces that you may read."""

    rights: ClassVar = {"get": Right.SIGNED_IN}
    serializer_class = TrustRequestSerializer
    queryset = TrustRequest.objects.all()
    ordering = ("-asked_at", "-id")

    @extend_schema(parameters=[TrustRequestFilter])
    def get(self, _: Request) -> Response:
        wanted = self.query(TrustRequestFilter)
        places = self.visible(Workspace.objects.filter(is_open=True), "pk")
        if "workspace_id" in wanted:
            places = places.filter(pk=wanted["workspace_id"])
        place = places.filter(path=OuterRef("path")).values("pk")[:1]
        requests = TrustRequest.objects.filter(state_is(wanted["state"]))
        found = requests.annotate(workspace_id=Subquery(place))
        return self.page(found.filter(workspace_id__isnull=False), _shown)


class TrustRequestDetail(Resource):
    """One trust request, also of a closed workspace."""

    rights: ClassVar = {"get": Right.READ}
    allows_closed = True
    serializer_class = TrustRequestSerializer

    def get(self, _: Request, workspace_id: str, request_id: str) -> Response:
        return Response(shown_request(_request(workspace_id, request_id), workspace_id))


class TrustRequestAnswer(Resource):
    """Answers a trust request. The first answer counts, and the configuration is read again."""

    rights: ClassVar = {"post": Right.TRUST}
    allows_closed = True
    serializer_class = TrustRequestAnswerSerializer

    @extend_schema(responses={200: TrustResolutionSerializer})
    def post(self, _: Request, workspace_id: str, request_id: str) -> Response:
        given = self.body()
        _request(workspace_id, request_id)
        resolution = self.act(
            answer,
            workspace_id,
            request_id=request_id,
            answer=Answer(given["answer"]),
            actor=self.actor,
        )
        return Response(resolution.wire())


def _shown(request: Any) -> dict[str, Any]:
    return shown_request(request, request.workspace_id)


def _request(workspace_id: str, request_id: str) -> TrustRequest:
    path = Workspace.objects.filter(pk=workspace_id).values("path")[:1]
    found = TrustRequest.objects.filter(pk=request_id, path__in=path).first()
    if found is None:
        raise ApprovalUnknown
    return found
