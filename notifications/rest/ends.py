"""Runs that have ended, for hidden pages that no push service reaches."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from agents.models import Run
from notifications.ends import ends_since
from notifications.messages import NotificationMessage, shown_body
from notifications.models import Ends
from workspaces.access import Right
from workspaces.log.timestamps import now_ms
from workspaces.rest.view import Resource

LONGEST_MS = 3_600_000


class EndQuerySerializer(serializers.Serializer[Any]):
    ends = serializers.ChoiceField(
        [Ends.OWN, Ends.ALL], default=Ends.OWN, help_text="As `notify_ended` of a channel."
    )
    cursor = serializers.IntegerField(
        required=False,
        min_value=0,
        help_text="Of the response before. Without it, the ends of the last seconds.",
    )


class EndSerializer(serializers.Serializer[Any]):
    """A run that has ended, as a message to a browser shows it."""

    run_key = serializers.IntegerField(help_text="The run.")
    workspace_id = serializers.CharField(help_text="Its workspace.")
    session_id = serializers.CharField(help_text="Its session.")
    title = serializers.CharField(help_text="How it ended, and the title of its session.")
    body = serializers.CharField(help_text="The same in a sentence, and the workspace's folder.")
    url = serializers.CharField(help_text="The address of the session in the console.")


class EndsSerializer(serializers.Serializer[Any]):
    items = EndSerializer(
        many=True, help_text="The newest first. A few may have been in the response before."
    )
    cursor = serializers.IntegerField(help_text="For the next request.")


class EndList(Resource):
    """The runs that have ended since the response before."""

    rights: ClassVar = {"get": Right.SIGNED_IN}
    serializer_class = EndsSerializer
    pagination_class = None  # type: ignore[assignment]  # the cursor takes its place

    @extend_schema(parameters=[EndQuerySerializer])
    def get(self, _: Request) -> Response:
        """Returns what a channel of yours would get a message about at the moment.

        For pages in the background: nothing of a session that you are looking at, of runs that you
        have cancelled, or of what no person has prompted.
        """
        chosen, now = self.query(EndQuerySerializer), now_ms()
        after = max(chosen.get("cursor", now), now - LONGEST_MS)
        found = ends_since(self.caller.identity, chosen["ends"], after=after)
        return Response({"items": [_wire(*each) for each in found], "cursor": now})


def _wire(run: Run, message: NotificationMessage) -> dict[str, Any]:
    return {
        "run_key": run.pk,
        "workspace_id": run.workspace_id,
        "session_id": run.session_id,
        "title": message.title,
        "body": shown_body(message),
        "url": message.page,
    }
