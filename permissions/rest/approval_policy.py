"""A workspace's approval policy: what happens to requests and questions that stay open."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from permissions.actions.policies import (
    LONGEST_SECONDS,
    SHORTEST_SECONDS,
    PolicyTimes,
    policy_wire,
    set_policy,
)
from permissions.models import ApprovalPolicy
from workspaces.access import Right
from workspaces.log.errors import WorkspaceUnknown
from workspaces.log.writer import writer
from workspaces.models import Workspace
from workspaces.rest.messages import AuthorSerializer
from workspaces.rest.view import Resource


class ApprovalPolicySerializer(serializers.Serializer[Any]):
    """How long requests and questions wait. With both times empty, as long as their runs."""

    workspace_id = serializers.CharField(read_only=True, help_text="The workspace.")
    notify_after_seconds = serializers.IntegerField(
        min_value=SHORTEST_SECONDS,
        max_value=LONGEST_SECONDS,
        allow_null=True,
        help_text="After this time, users are notified.",
    )
    deny_after_seconds = serializers.IntegerField(
        min_value=SHORTEST_SECONDS,
        max_value=LONGEST_SECONDS,
        allow_null=True,
        help_text="After this time, requests are denied and questions dismissed.",
    )
    author = AuthorSerializer(read_only=True, allow_null=True, help_text="Who changed it at last.")
    changed_at = serializers.IntegerField(
        read_only=True, allow_null=True, help_text="When, in unix seconds."
    )


class ApprovalPolicyDetail(Resource):
    """The approval policy of a workspace."""

    rights: ClassVar = {"get": Right.READ, "put": Right.CONFIGURE}
    allows_closed = True
    serializer_class = ApprovalPolicySerializer

    def get(self, _: Request, workspace_id: str) -> Response:
        return Response(_shown(workspace_id))

    def put(self, _: Request, workspace_id: str) -> Response:
        """Changes the policy, also for requests and questions that are open."""
        times = PolicyTimes(**self.body())
        self.act(
            writer.write,
            workspace_id,
            partial(set_policy, workspace_id=workspace_id, times=times, actor=self.actor),
        )
        return Response(_shown(workspace_id))


def _shown(workspace_id: str) -> dict[str, Any]:
    if not Workspace.objects.filter(pk=workspace_id).exists():
        raise WorkspaceUnknown
    return policy_wire(workspace_id, ApprovalPolicy.objects.filter(pk=workspace_id).first())
