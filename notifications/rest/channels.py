"""Your channels: where you get messages about what waits and what has ended; what was sent."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib.auth.models import User
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from notifications.channels import (
    change_channel,
    create_channel,
    delete_channel,
    own_channel,
    push_key,
    send_test,
)
from notifications.models import ChannelKind, Delivery, DeliveryState, Ends, NotificationChannel
from workspaces.access import Right
from workspaces.api.fields import Flag, PlainText
from workspaces.log.errors import Forbidden, WorkspaceUnknown
from workspaces.log.writer import writer
from workspaces.models import Workspace
from workspaces.rest.answers import Seconds
from workspaces.rest.view import Resource

WAITING_HELP = "Messages about requests and questions that wait, where you may answer."
ENDED_HELP = (
    "Messages about runs that have ended: `own`, of prompts that you have sent; `all`, of all"
    " prompts in your workspaces; `none`."
)


class ChannelSerializer(serializers.ModelSerializer[NotificationChannel]):
    """A way to reach you. Its address and keys are never shown."""

    id = serializers.CharField(read_only=True, help_text="A UUID.")
    kind = serializers.ChoiceField(ChannelKind.choices, help_text="How messages are sent.")
    workspace_id = serializers.CharField(allow_null=True, help_text="Null: all your workspaces.")
    notify_waiting = serializers.BooleanField(help_text=WAITING_HELP)
    notify_ended = serializers.ChoiceField(Ends.choices, help_text=ENDED_HELP)
    name = serializers.CharField(help_text="The host, or the account's address.")
    is_enabled = serializers.BooleanField(
        help_text="A channel that fails again and again is disabled."
    )
    failures = serializers.IntegerField(help_text="Failed attempts in a row.")
    last_error = serializers.CharField(help_text="Why the last attempt failed; else empty.")
    last_sent_at = Seconds(allow_null=True, help_text="When a message was delivered at last.")
    created_at = Seconds(help_text="When it was created.")

    class Meta:
        model = NotificationChannel
        fields = (
            "id",
            "kind",
            "workspace_id",
            "notify_waiting",
            "notify_ended",
            "name",
            "is_enabled",
            "failures",
            "last_error",
            "last_sent_at",
            "created_at",
        )


class ChannelCreatedSerializer(ChannelSerializer):
    """A new channel, with the secret of a webhook, which is shown once."""

    secret = serializers.CharField(
        help_text="Signs the messages of a webhook (Standard Webhooks); empty for other kinds."
    )

    class Meta(ChannelSerializer.Meta):
        fields = (*ChannelSerializer.Meta.fields, "secret")  # type: ignore[assignment]  # one more


class NewChannelSerializer(serializers.Serializer[Any]):
    """A channel to create."""

    kind = serializers.ChoiceField(ChannelKind.choices, help_text="How messages are sent.")
    workspace_id = serializers.CharField(
        required=False,
        allow_null=True,
        default=None,
        max_length=36,
        help_text="Null: all your workspaces.",
    )
    notify_waiting = Flag(required=False, default=True, help_text=WAITING_HELP)
    notify_ended = serializers.ChoiceField(
        Ends.choices, required=False, default=Ends.OWN, help_text=ENDED_HELP
    )
    url = PlainText(limit=2000, required=False, help_text="Of a webhook; https.")
    endpoint = PlainText(limit=2000, required=False, help_text="Of a browser's subscription.")
    p256dh = PlainText(limit=200, required=False, help_text="A key of the subscription.")
    auth = PlainText(limit=200, required=False, help_text="A key of the subscription.")


class ChannelChangeSerializer(serializers.Serializer[Any]):
    """A change of a channel. Fields that are left out stay."""

    is_enabled = Flag(required=False, help_text="False: it gets no messages.")
    notify_waiting = Flag(required=False, help_text=WAITING_HELP)
    notify_ended = serializers.ChoiceField(Ends.choices, required=False, help_text=ENDED_HELP)


class DeliverySerializer(serializers.ModelSerializer[Delivery]):
    """A message to one of your channels."""

    id = serializers.CharField(read_only=True, help_text="Also the `webhook-id` of the message.")
    channel_id = serializers.CharField(help_text="The channel.")
    subject = serializers.CharField(
        source="notice.subject", help_text="`permission`, `question`, `run` or `test`."
    )
    subject_id = serializers.CharField(
        source="notice.subject_id",
        help_text="The request, the batch of questions, or the key of the run.",
    )
    state = serializers.ChoiceField(DeliveryState.choices, help_text="What has become of it.")
    attempts = serializers.IntegerField(help_text="How often it was sent.")
    status_code = serializers.IntegerField(
        allow_null=True, help_text="The receiver's last response."
    )
    error = serializers.CharField(help_text="Why the last attempt failed; else empty.")
    due_at = Seconds(help_text="When the next attempt is due, while it is pending.")
    created_at = Seconds(help_text="When it was created.")
    finished_at = Seconds(allow_null=True, help_text="When it ended.")

    class Meta:
        model = Delivery
        fields = (
            "id",
            "channel_id",
            "subject",
            "subject_id",
            "state",
            "attempts",
            "status_code",
            "error",
            "due_at",
            "created_at",
            "finished_at",
        )


class PushKeySerializer(serializers.Serializer[Any]):
    """The key for `PushManager.subscribe`."""

    public_key = serializers.CharField(help_text="`applicationServerKey`, in base64url.")


class _OwnResource(Resource):
    """A resource of the user who sends the request.

    The right for one's account excludes tools, which would get links and answer with them.
    """

    @property
    def user_id(self) -> int:
        """Raises ``Forbidden`` for an identity without an account."""
        user_id = self.caller.identity.user_id
        if user_id is None:
            raise Forbidden
        return user_id

    def require_scope(self, notify_waiting: bool) -> None:
        """Raises ``Forbidden`` for a token that lacks the right for what a message contains.

        A message about a request has a link that answers.
        """
        scopes = self.caller.identity.scopes
        if scopes is not None and (Right.ANSWER if notify_waiting else Right.READ) not in scopes:
            raise Forbidden


class ChannelList(_OwnResource):
    """Your channels, the newest first; or a new one."""

    rights: ClassVar = {"get": Right.ACCOUNT, "post": Right.ACCOUNT}
    serializer_class = ChannelSerializer
    queryset = NotificationChannel.objects.all()
    ordering = ("-created_at", "-id")

    def get(self, _: Request) -> Response:
        return self.page(self.get_queryset().filter(user_id=self.user_id))

    @extend_schema(request=NewChannelSerializer, responses={201: ChannelCreatedSerializer})
    def post(self, _: Request) -> Response:
        fields = self.body(NewChannelSerializer)
        workspace = self._workspace(fields.pop("workspace_id"), fields["notify_waiting"])
        user = User.objects.get(pk=self.user_id)
        kind = ChannelKind(fields.pop("kind"))
        chosen = {"notify_waiting": fields.pop("notify_waiting")}
        chosen["notify_ended"] = Ends(fields.pop("notify_ended"))
        made = writer.write_and_wait(
            "",
            lambda tx: create_channel(
                tx,
                user=user,
                kind=kind,
                target=fields,
                workspace=workspace,
                actor=self.actor,
                **chosen,
            ),
        )
        shown = ChannelSerializer(made.row).data
        return Response({**shown, "secret": made.secret}, status=201)

    def _workspace(self, workspace_id: str | None, notify_waiting: bool) -> Workspace | None:
        """Raises ``WorkspaceUnknown``, or ``Forbidden`` for a token that may do less."""
        if workspace_id is None:
            self.require_scope(notify_waiting)
            return None
        identity = self.caller.identity
        row = Workspace.objects.filter(pk=workspace_id).first()
        if row is None or not identity.sees(row.pk):
            raise WorkspaceUnknown
        if notify_waiting and not identity.may(Right.ANSWER, row.pk):
            raise Forbidden
        return row


class ChannelDetail(_OwnResource):
    """One of your channels."""

    rights: ClassVar = {
        "get": Right.ACCOUNT,
        "patch": Right.ACCOUNT,
        "delete": Right.ACCOUNT,
    }
    serializer_class = ChannelSerializer

    def get(self, _: Request, channel_id: str) -> Response:
        return Response(self.get_serializer(own_channel(channel_id, self.user_id)).data)

    @extend_schema(request=ChannelChangeSerializer)
    def patch(self, _: Request, channel_id: str) -> Response:
        fields = self.body(ChannelChangeSerializer)
        if fields.get("notify_waiting"):
            self.require_scope(True)
        row = writer.write_and_wait(
            "",
            lambda tx: change_channel(
                tx, channel_id, user_id=self.user_id, actor=self.actor, **fields
            ),
        )
        return Response(self.get_serializer(row).data)

    def delete(self, _: Request, channel_id: str) -> Response:
        writer.write_and_wait(
            "",
            lambda tx: delete_channel(tx, channel_id, user_id=self.user_id, actor=self.actor),
        )
        return Response(status=204)


class ChannelTest(_OwnResource):
    """Sends a test message to one of your channels, within a second."""

    rights: ClassVar = {"post": Right.ACCOUNT}
    serializer_class = DeliverySerializer

    @extend_schema(request=None, responses={202: DeliverySerializer})
    def post(self, _: Request, channel_id: str) -> Response:
        row = writer.write_and_wait("", lambda tx: send_test(tx, channel_id, user_id=self.user_id))
        return Response(self.get_serializer(row).data, status=202)


class DeliveryList(_OwnResource):
    """The messages to your channels, the newest first."""

    rights: ClassVar = {"get": Right.ACCOUNT}
    serializer_class = DeliverySerializer
    queryset = Delivery.objects.select_related("notice")
    ordering = ("-created_at", "-id")

    def get(self, _: Request) -> Response:
        return self.page(self.get_queryset().filter(channel__user_id=self.user_id))


class PushKeyView(_OwnResource):
    """The key with which a browser subscribes to messages."""

    rights: ClassVar = {"get": Right.ACCOUNT}
    serializer_class = PushKeySerializer

    def get(self, _: Request) -> Response:
        return Response({"public_key": writer.write_and_wait("", push_key)})
