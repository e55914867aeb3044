"""Workspaces: opens one for a client, closes it again, and changes its permission mode."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from agents.config.cache import configs
from agents.runs.teardown import release, release_all_and_wait
from people.actions.audit import Act, record
from workspaces.access import Right
from workspaces.actions.workspaces import set_labels, set_permission_mode
from workspaces.api.paths import PATH_LIMIT
from workspaces.api.workspaces import ENV_CHARS, ENV_COUNT, open_for_client
from workspaces.client_ids import client_id_of
from workspaces.delivery.attachments import close_streams
from workspaces.log.errors import BadField
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer
from workspaces.models import PermissionMode, Workspace
from workspaces.placement.roots import NAME, SEPARATOR, parse_labels
from workspaces.queries.workspaces import require_open
from workspaces.rest.workspaces import WorkspaceDetail, WorkspaceList, WorkspaceSerializer

ID_LIMIT = 200
MOST_LABELS, LABEL_LIMIT = 15, 63


class OpeningSerializer(serializers.Serializer[Any]):
    """A folder to open."""

    path = serializers.CharField(
        max_length=PATH_LIMIT, help_text="An existing folder of the server, absolute."
    )
    client_id = serializers.CharField(
        required=False,
        max_length=ID_LIMIT,
        help_text="A UUID of your choice, or absent for a new one. The workspace stays open while"
        " a stream with this id is open.",
    )
    permission_mode = serializers.ChoiceField(
        PermissionMode.choices,
        required=False,
        help_text="Whether permissions are requested; only if it is not open yet.",
    )
    env = serializers.ListField(
        child=serializers.CharField(max_length=ENV_CHARS),
        required=False,
        max_length=ENV_COUNT,
        help_text="The environment of its commands, as `NAME=VALUE`; only if it has none yet.",
    )


class OpenedSerializer(WorkspaceSerializer):
    """An open workspace, and the client that keeps it open."""

    client_id = serializers.CharField(help_text="The client; streams name it as `client_id`.")

    class Meta(WorkspaceSerializer.Meta):
        fields = (*WorkspaceSerializer.Meta.fields, "client_id")  # type: ignore[assignment]  # one more


class WorkspaceChangeSerializer(serializers.Serializer[Any]):
    permission_mode = serializers.ChoiceField(
        PermissionMode.choices, required=False, help_text="Whether permissions are requested."
    )
    labels = serializers.ListField(
        child=serializers.RegexField(NAME, max_length=LABEL_LIMIT),
        required=False,
        max_length=MOST_LABELS,
        help_text="Those that its worker must have. Only administrators may change them.",
    )


class ClientQuery(serializers.Serializer[Any]):
    client_id = serializers.CharField(
        required=False,
        max_length=ID_LIMIT,
        help_text="The client that leaves. Absent: all clients, which only administrators may do.",
    )


class Workspaces(WorkspaceList):
    """The workspaces that you may read, the newest first."""

    rights: ClassVar = {"get": Right.SIGNED_IN, "post": Right.SIGNED_IN}
    folder_methods: ClassVar = frozenset({"post"})

    @extend_schema(request=OpeningSerializer, responses={201: OpenedSerializer})
    def post(self, _: Request) -> Response:
        """Opens a folder for a client. The same folder is the same workspace.

        A folder that was never open before needs an administrator.
        """
        unset = {"permission_mode": "", "yolo": False, "debug": False, "data_dir": ""}
        given: dict[str, Any] = {**unset, "env": None, "channels": None}
        given |= {"client_id": str(uuid.uuid4())} | self.body(OpeningSerializer)
        workspace_id = self.act(open_for_client, given, self.caller)
        # The cached configuration may belong to an earlier environment of the workspace.
        configs().forget(workspace_id)
        opened = self.get_serializer(Workspace.objects.get(pk=workspace_id)).data
        return Response({**opened, "client_id": client_id_of(given["client_id"])}, status=201)


class OneWorkspace(WorkspaceDetail):
    """One workspace."""

    rights: ClassVar = {"get": Right.READ, "patch": Right.SKIP, "delete": Right.OPEN}

    @extend_schema(request=WorkspaceChangeSerializer)
    def patch(self, _: Request, workspace_id: str) -> Response:
        """Changes the permission mode or the labels. Requests that are open stay open."""
        require_open(workspace_id)
        given = self.body(WorkspaceChangeSerializer)
        if not given:
            raise BadField("permission_mode or labels is required")
        if "labels" in given:
            self.act(self.caller.require, Right.ADMINISTER, workspace_id)
        actor = self.actor

        def change(tx: Transaction) -> None:
            if "labels" in given:
                labels = parse_labels(given["labels"])
                set_labels(tx, workspace_id, labels)
                outcome = SEPARATOR.join(labels)
                record(tx, actor, Act.LABELS, workspace_id=workspace_id, outcome=outcome)
            if "permission_mode" in given:
                mode = PermissionMode(given["permission_mode"])
                set_permission_mode(tx, workspace_id, mode=mode)
                record(tx, actor, Act.PERMISSION_MODE, workspace_id=workspace_id, outcome=mode)

        self.act(writer.write, workspace_id, change)
        return self.get()

    @extend_schema(
        parameters=[ClientQuery],
        responses={204: OpenApiResponse(description="It closes when nothing runs in it.")},
    )
    def delete(self, _: Request, workspace_id: str) -> Response:
        """Releases the workspace from a client. It closes when no client is left."""
        require_open(workspace_id)
        named = self.query(ClientQuery).get("client_id")
        if named is None:
            self.act(self.caller.require, Right.ADMINISTER, workspace_id)
            clients, _closed = release_all_and_wait(workspace_id)
        else:
            clients = [client_id_of(named)]
            self.act(release, workspace_id, clients[0])
        self.act(_close_streams, workspace_id, clients)
        return Response(status=204)


async def _close_streams(workspace_id: str, client_ids: list[str]) -> None:
    for client_id in client_ids:
        close_streams(client_id, workspace_id)
