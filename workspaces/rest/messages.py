"""The messages of a session, in pages from its end or from its start."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from workspaces.access import Right
from workspaces.log.parts import Role
from workspaces.queries.messages import page_of_messages
from workspaces.queries.sessions import require_session
from workspaces.rest.answers import DEFAULT_LIMIT, LARGEST_LIMIT, NO_CURSOR
from workspaces.rest.view import Resource


class PartSerializer(serializers.Serializer[Any]):
    """A piece of a message."""

    type = serializers.ChoiceField(
        [
            "text",
            "reasoning",
            "tool_call",
            "tool_result",
            "binary",
            "image_url",
            "shell_command",
            "finish",
        ],
        help_text="What kind of piece it is.",
    )
    data = serializers.DictField(  # type: ignore[assignment]  # a field of this name
        help_text="`text`: `text`. `reasoning`: `thinking`, `signature`, `started_at`?,"
        " `finished_at`?. `tool_call`: `id`, `name`, `input` (JSON as the model wrote it),"
        " `finished`?. `tool_result`: `tool_call_id`, `name`, `content`, `metadata`, `is_error`,"
        " `data`?, `mime_type`?. `binary`: `Path`, `MIMEType`, `Data` (base64). `image_url`: `url`,"
        " `detail`?. `shell_command`: `command`, `output`, `exit_code`. `finish`: `reason`, `time`,"
        " `message`?, `details`?."
    )


class AuthorSerializer(serializers.Serializer[Any]):
    kind = serializers.CharField(help_text="`owner`, `user` or `token`.")
    name = serializers.CharField(help_text="Shown to others.")
    user_id = serializers.CharField(allow_null=True, help_text="The user's id.")


class MessageSerializer(serializers.Serializer[Any]):
    """An entry of a session, as in events."""

    id = serializers.CharField(help_text="A UUID.")
    session_id = serializers.CharField(help_text="Its session.")
    role = serializers.ChoiceField([role.value for role in Role], help_text="Who wrote it.")
    parts = PartSerializer(many=True, help_text="Its pieces in order.")
    model = serializers.CharField(help_text="Of a reply: the model.")
    provider = serializers.CharField(help_text="Of a reply: the provider.")
    author = AuthorSerializer(required=False, help_text="Of a prompt: who sent it.")
    is_summary_message = serializers.BooleanField(
        required=False, help_text="It is a summary of what was before it."
    )
    created_at = serializers.IntegerField(help_text="Unix seconds.")
    updated_at = serializers.IntegerField(help_text="Unix seconds.")


class MessageQuerySerializer(serializers.Serializer[Any]):
    before = serializers.CharField(
        max_length=36, default="", help_text="The id of a message: lists those before it."
    )
    after = serializers.CharField(
        max_length=36, default="", help_text="The id of a message: lists those after it."
    )
    limit = serializers.IntegerField(
        min_value=1, max_value=LARGEST_LIMIT, default=DEFAULT_LIMIT, help_text="Of a page."
    )
    cursor = serializers.CharField(
        max_length=50, default="", help_text="The `next` of the page before, in its direction."
    )


class MessagePageSerializer(serializers.Serializer[Any]):
    items = MessageSerializer(many=True, help_text="In their order, the oldest first.")
    next = serializers.CharField(
        allow_null=True, help_text="The `cursor` of the next page in the same direction."
    )
    has_earlier = serializers.BooleanField(help_text="There are messages before these.")
    has_later = serializers.BooleanField(help_text="There are messages after these.")


class MessageList(Resource):
    """The messages of a session: the newest ones, or those before or after one of them."""

    rights: ClassVar = {"get": Right.READ}
    serializer_class = MessagePageSerializer
    pagination_class = None  # type: ignore[assignment]  # its cursors name messages

    @extend_schema(parameters=[MessageQuerySerializer], responses=MessagePageSerializer)
    def get(self, _: Request, workspace_id: str, session_id: str) -> Response:
        wanted = self.query(MessageQuerySerializer)
        before, after = wanted["before"], wanted["after"]
        if before and after:
            raise serializers.ValidationError({"after": ["cannot be given with `before`"]})
        if wanted["cursor"]:
            direction, _separator, message_id = wanted["cursor"].partition(":")
            if direction not in {"before", "after"} or not message_id:
                raise NO_CURSOR
            before, after = (message_id, "") if direction == "before" else ("", message_id)
        require_session(workspace_id, session_id)
        page = page_of_messages(session_id, limit=wanted["limit"], before=before, after=after)
        following: str | None = None
        if after and page.has_later:
            following = f"after:{page.messages[-1]['id']}"
        elif not after and page.has_earlier:
            following = f"before:{page.messages[0]['id']}"
        return Response(
            {
                "items": page.messages,
                "next": following,
                "has_earlier": page.has_earlier,
                "has_later": page.has_later,
            }
        )
