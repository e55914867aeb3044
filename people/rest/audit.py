"""The audit: who did what to what, with what outcome."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from people.actions.audit import Act
from people.models import AuditEntry
from workspaces.access import IdentityKind, Right
from workspaces.rest.answers import Seconds
from workspaces.rest.view import Resource

LATEST = 253_402_300_799  # the end of the year 9999


class AuditActorSerializer(serializers.Serializer[Any]):
    """Who acted."""

    kind = serializers.ChoiceField(
        [kind.value for kind in IdentityKind], help_text="How the actor was identified."
    )
    name = serializers.CharField(source="actor", help_text="The user's name at that time.")
    user_id = serializers.SerializerMethodField(help_text="The user; null if none is known.")
    token_id = serializers.CharField(help_text="The token that was used, or empty.")

    def get_user_id(self, entry: AuditEntry) -> str | None:
        return None if entry.user_id is None else str(entry.user_id)


class AuditEntrySerializer(serializers.ModelSerializer[AuditEntry]):
    """One act."""

    id = serializers.CharField(read_only=True, help_text="A number that grows, as text.")
    at = Seconds(help_text="When it was done.")
    actor = AuditActorSerializer(source="*", help_text="Who acted.")
    client_id = serializers.CharField(help_text="The client that was used, or empty.")
    address = serializers.CharField(help_text="Where the request came from, or empty.")
    act = serializers.ChoiceField([act.value for act in Act], help_text="What was done.")
    workspace_id = serializers.CharField(help_text="In which workspace, or empty.")
    session_id = serializers.CharField(help_text="In which session, or empty.")
    target = serializers.CharField(help_text="To what, for example a user, a path or an id.")
    outcome = serializers.CharField(help_text="The result, for example `done` or `failed`.")
    details = serializers.DictField(help_text="More about some acts. Never a secret.")

    class Meta:
        model = AuditEntry
        fields = (
            "id",
            "at",
            "actor",
            "client_id",
            "address",
            "act",
            "workspace_id",
            "session_id",
            "target",
            "outcome",
            "details",
        )


class AuditQuery(serializers.Serializer[Any]):
    act = serializers.ChoiceField(
        [act.value for act in Act], required=False, help_text="Only this act."
    )
    user_id = serializers.IntegerField(required=False, help_text="Only acts of this user.")
    session_id = serializers.CharField(
        required=False, max_length=200, help_text="Only acts in this session."
    )
    outcome = serializers.CharField(
        required=False, max_length=40, help_text="Only with this outcome."
    )
    since = serializers.IntegerField(
        required=False, min_value=0, max_value=LATEST, help_text="Not earlier, in unix seconds."
    )
    until = serializers.IntegerField(
        required=False, min_value=0, max_value=LATEST, help_text="Earlier, in unix seconds."
    )


class ServerAuditQuery(AuditQuery):
    workspace_id = serializers.CharField(
        required=False, max_length=36, help_text="Only acts in this workspace."
    )


class AuditResource(Resource):
    """What both lists share."""

    serializer_class = AuditEntrySerializer
    queryset = AuditEntry.objects.all()
    ordering = ("-id",)

    def found(self, query: type[AuditQuery]) -> QuerySet[AuditEntry]:
        wanted = dict(self.query(query))
        since, until = wanted.pop("since", None), wanted.pop("until", None)
        entries: QuerySet[AuditEntry] = self.get_queryset().filter(**wanted)
        if since is not None:
            entries = entries.filter(at__gte=since * 1000)
        if until is not None:
            entries = entries.filter(at__lt=until * 1000)
        return entries


class AuditList(AuditResource):
    """The audit of the whole server, the newest first."""

    rights: ClassVar = {"get": Right.ADMINISTER}

    @extend_schema(parameters=[ServerAuditQuery])
    def get(self, _: Request) -> Response:
        return self.page(self.found(ServerAuditQuery))


class WorkspaceAuditList(AuditResource):
    """The audit of one workspace, the newest first; also of a closed one."""

    rights: ClassVar = {"get": Right.ADMINISTER}
    allows_closed: ClassVar = True

    @extend_schema(parameters=[AuditQuery])
    def get(self, _: Request, workspace_id: str) -> Response:
        return self.page(self.found(AuditQuery).filter(workspace_id=workspace_id))
