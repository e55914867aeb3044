"""The caller itself: who it is, and what it may do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from workspaces.access import EVERYWHERE, Identity, IdentityKind, MemberRole, Right
from workspaces.log.errors import Forbidden
from workspaces.rest.view import SHOWN_RIGHTS, Resource


class RoleSerializer(serializers.Serializer[Any]):
    """A role in one workspace, or in all."""

    workspace_id = serializers.CharField(
        allow_null=True, help_text="The workspace; null: every workspace."
    )
    role = serializers.ChoiceField(
        [role.value for role in MemberRole], help_text="Each role includes the one before it."
    )


class MeSerializer(serializers.Serializer[Any]):
    """An identity."""

    kind = serializers.ChoiceField(
        [kind.value for kind in IdentityKind if kind is not IdentityKind.ANONYMOUS],
        help_text="How the identity was proved: `owner` is a process of the server's own user.",
    )
    name = serializers.CharField(help_text="Shown to others as the author.")
    user_id = serializers.CharField(
        allow_null=True, help_text="The user whose rights it has, at most."
    )
    is_staff = serializers.BooleanField(help_text="Whether it may do everything everywhere.")
    roles = RoleSerializer(many=True, help_text="The roles of its user, also those of groups.")
    can = serializers.ListField(
        child=serializers.ChoiceField([right.value for right in SHOWN_RIGHTS]),
        help_text="The rights on the server as a whole; each workspace has its own `can`.",
    )
    token_id = serializers.CharField(allow_null=True, help_text="The token that it used.")
    scopes = serializers.ListField(
        child=serializers.CharField(),
        allow_null=True,
        help_text="The only rights of its token; null: all of its user.",
    )
    workspaces = serializers.ListField(
        child=serializers.CharField(),
        allow_null=True,
        help_text="The only workspaces of its token; null: all of its user.",
    )


class Me(Resource):
    """Who you are, and what you may do."""

    rights: ClassVar = {"get": Right.SIGNED_IN}
    serializer_class = MeSerializer

    def get(self, _: Request) -> Response:
        who = self.caller.identity
        shown = {
            "kind": who.kind.value,
            "name": who.name,
            "user_id": None if who.user_id is None else str(who.user_id),
            "is_staff": who.is_staff,
            "roles": roles_wire(who.roles),
            "can": self.rights_in(),
            "token_id": who.token_id or None,
            "scopes": None if who.scopes is None else sorted(who.scopes),
            "workspaces": None if who.workspaces is None else sorted(who.workspaces),
        }
        return Response(shown)


def roles_wire(roles: Mapping[str, MemberRole]) -> list[dict[str, Any]]:
    return [
        {"workspace_id": None if key == EVERYWHERE else key, "role": role.value}
        for key, role in sorted(roles.items())
    ]


def require_unlimited(who: Identity) -> None:
    """Raises ``Forbidden`` for a token with fewer rights than its user.

    It could give itself all of them by a new user, a role or a login link.
    """
    if who.scopes is not None or who.workspaces is not None:
        raise Forbidden
