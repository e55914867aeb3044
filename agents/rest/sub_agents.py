"""Sub-agents: processes of their own that do delegated runs."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from agents.models import SubAgent
from agents.states import SubAgentState
from workspaces.access import Right
from workspaces.rest.answers import Seconds
from workspaces.rest.view import Resource

ID_LIMIT = 200


class SubAgentSerializer(serializers.ModelSerializer[SubAgent]):
    """One assignment of a sub-agent. Its text is in its session."""

    run_key = serializers.IntegerField(source="run_id", help_text="The run that it does.")
    session_id = serializers.CharField(source="run.session_id", help_text="Its child session.")
    parent_session_id = serializers.CharField(
        source="run.session.parent_session_id", help_text="The session whose run waits for it."
    )
    role = serializers.CharField(help_text="The configured kind of sub-agent.")
    child_id = serializers.CharField(help_text="The id of its process; empty until it has one.")
    state = serializers.ChoiceField(
        [state.value for state in SubAgentState], help_text="Where it stands."
    )
    ending = serializers.CharField(help_text="How it ended; empty until then.")
    events = serializers.IntegerField(help_text="The number of events that it has sent.")
    last_event = serializers.CharField(help_text="The type of the last one; may be empty.")
    last_event_at = Seconds(allow_null=True, help_text="When that came; null without one.")
    started_at = Seconds(help_text="When it was started.")
    ended_at = Seconds(allow_null=True, help_text="When it ended; null until then.")

    class Meta:
        model = SubAgent
        fields = (
            "run_key",
            "session_id",
            "parent_session_id",
            "role",
            "child_id",
            "state",
            "ending",
            "events",
            "last_event",
            "last_event_at",
            "started_at",
            "ended_at",
        )


class SubAgentFilter(serializers.Serializer[Any]):
    state = serializers.ChoiceField(
        [state.value for state in SubAgentState], required=False, help_text="Only in this state."
    )
    session_id = serializers.CharField(
        required=False, max_length=ID_LIMIT, help_text="Only those that a run of it waits for."
    )


class SubAgentList(Resource):
    """The sub-agents of a workspace, the newest first."""

    rights: ClassVar = {"get": Right.READ}
    serializer_class = SubAgentSerializer
    ordering = ("-started_at", "-run_id")

    @extend_schema(parameters=[SubAgentFilter])
    def get(self, _: Request, workspace_id: str) -> Response:
        given = self.query(SubAgentFilter)
        found = SubAgent.objects.filter(workspace_id=workspace_id).select_related("run__session")
        if "state" in given:
            found = found.filter(state=given["state"])
        if "session_id" in given:
            found = found.filter(run__session__parent_session_id=given["session_id"])
        return self.page(found)
