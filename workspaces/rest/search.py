"""The search in titles of sessions and texts of messages."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from workspaces.access import Right
from workspaces.log.parts import Role
from workspaces.queries.search import search
from workspaces.rest.answers import DEFAULT_LIMIT, LARGEST_LIMIT, NO_CURSOR
from workspaces.rest.view import Resource

QUERY_CHARS = 1_000
_LARGEST_ID = 2**62


class SearchQuerySerializer(serializers.Serializer[Any]):
    q = serializers.CharField(
        max_length=QUERY_CHARS,
        help_text="Words that must all occur; the last may be the beginning of one. Punctuation"
        " is ignored.",
    )
    workspace = serializers.CharField(
        max_length=36, default="", help_text="Searches this workspace alone."
    )
    session = serializers.CharField(
        max_length=200, default="", help_text="Searches the messages of this session alone."
    )
    limit = serializers.IntegerField(
        min_value=1, max_value=LARGEST_LIMIT, default=DEFAULT_LIMIT, help_text="Of a page."
    )
    cursor = serializers.CharField(
        max_length=30, default="", help_text="The `next` of the page before."
    )


class FoundSerializer(serializers.Serializer[Any]):
    """A session whose title matches, or a message whose text does."""

    kind = serializers.ChoiceField(["session", "message"], help_text="What was found.")
    workspace_id = serializers.CharField(help_text="Its workspace.")
    session_id = serializers.CharField(help_text="The session, or the message's.")
    session_title = serializers.CharField(help_text="The title of that session.")
    message_id = serializers.CharField(allow_null=True, help_text="The message, if it is one.")
    role = serializers.ChoiceField(
        [role.value for role in Role], allow_null=True, help_text="Who wrote the message."
    )
    created_at = serializers.IntegerField(help_text="Unix seconds.")
    snippet = serializers.CharField(help_text="A piece of the text, with a match if possible.")
    highlights = serializers.ListField(
        child=serializers.ListField(child=serializers.IntegerField()),
        help_text="Where words are in the snippet: pairs of start and end, in characters.",
    )


class SearchPageSerializer(serializers.Serializer[Any]):
    items = FoundSerializer(
        many=True, help_text="On the first page titles, then messages, the newest first."
    )
    next = serializers.CharField(allow_null=True, help_text="The `cursor` of the next page.")
    is_complete = serializers.BooleanField(
        help_text="False while messages of an earlier release are still being indexed."
    )


class SearchView(Resource):
    """What you may read."""

    rights: ClassVar = {"get": Right.SIGNED_IN}
    serializer_class = SearchPageSerializer
    pagination_class = None  # type: ignore[assignment]  # its cursors name rows of the index

    @extend_schema(parameters=[SearchQuerySerializer], responses=SearchPageSerializer)
    def get(self, _: Request) -> Response:
        wanted = self.query(SearchQuerySerializer)
        page = search(
            wanted["q"],
            limit=wanted["limit"],
            workspaces=self._workspaces(wanted["workspace"]),
            session_id=wanted["session"],
            before_id=_id_of(wanted["cursor"]),
        )
        following = None if page.next_id is None else str(page.next_id)
        return Response({"items": page.items, "next": following, "is_complete": page.is_complete})

    def _workspaces(self, wanted: str) -> list[str] | None:
        """Returns the workspaces to search; ``None`` for all."""
        identity = self.caller.identity
        if wanted:
            return [wanted] if identity.sees(wanted) else []
        visible = identity.visible_workspaces
        return None if visible is None else sorted(visible)


def _id_of(cursor: str) -> int | None:
    if not cursor:
        return None
    digits = cursor.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or int(digits) > _LARGEST_ID:
        raise NO_CURSOR
    return int(cursor)
