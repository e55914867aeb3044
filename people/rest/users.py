"""Users: for staff and for administrators of the whole server."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, cast

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, User
from django.contrib.auth.password_validation import validate_password
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.exceptions import ValidationError
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from people.actions.users import UserChange, add_user, change_user
from people.identities import IDENTITIES, identity_of
from people.models import Owner
from people.rest.me import RoleSerializer, require_unlimited, roles_wire
from workspaces.access import IdentityKind, Right
from workspaces.log.errors import Forbidden, UserUnknown
from workspaces.log.writer import writer
from workspaces.rest.view import Resource

NAME_LIMIT = 150
PASSWORD_LIMIT = 1_000


class UserSerializer(serializers.Serializer[Any]):
    """A user."""

    id = serializers.CharField(help_text="A number, as text.")
    name = serializers.CharField(help_text="By which the user signs in; unique.")
    email = serializers.CharField(help_text="May be empty.")
    is_staff = serializers.BooleanField(help_text="Whether the user may do everything everywhere.")
    is_active = serializers.BooleanField(help_text="A user who is not active is kept out.")
    is_owner = serializers.BooleanField(
        help_text="Whether processes of the server's own account are this user."
    )
    has_password = serializers.BooleanField(help_text="Whether the user can sign in with one.")
    groups = serializers.ListField(child=serializers.CharField(), help_text="The user's groups.")
    roles = RoleSerializer(many=True, help_text="The user's roles, also those of groups.")


class UserBody(serializers.Serializer[Any]):
    """The values of a user that can be changed; those left out stay as they are."""

    email = serializers.EmailField(
        required=False, allow_blank=True, help_text="An address, or empty."
    )
    is_staff = serializers.BooleanField(required=False, help_text="Only staff can change it.")
    is_active = serializers.BooleanField(required=False, help_text="False keeps the user out.")
    password = serializers.CharField(
        required=False,
        max_length=PASSWORD_LIMIT,
        write_only=True,
        trim_whitespace=False,
        help_text="A new password.",
    )
    groups = serializers.SlugRelatedField(
        slug_field="name",
        many=True,
        queryset=Group.objects.all(),
        required=False,
        help_text="The names of all groups that the user is in.",
    )

    def validate_password(self, value: str) -> str:
        try:
            validate_password(value)
        except ValidationError as error:
            raise serializers.ValidationError(error.messages) from error
        return value


class NewUserBody(UserBody):
    """A new user."""

    name = serializers.CharField(
        max_length=NAME_LIMIT,
        validators=[UnicodeUsernameValidator()],
        help_text="Letters, digits and @/./+/-/_ only.",
    )


def user_wire(user: User) -> dict[str, Any]:
    return {
        "id": str(user.pk),
        "name": user.get_username(),
        "email": user.email,
        "is_staff": user.is_staff,
        "is_active": user.is_active,
        "is_owner": Owner.objects.filter(user=user).exists(),
        "has_password": user.has_usable_password(),
        "groups": sorted(group.name for group in user.groups.all()),
        "roles": roles_wire(identity_of(user, IdentityKind.USER).roles),
    }


class UserResource(Resource):
    """What both resources of users share."""

    serializer_class = UserSerializer
    queryset = get_user_model().objects.prefetch_related("groups")

    def check(self, user: User | None, is_staff: bool | None) -> None:
        """Raises ``Forbidden``: only staff makes staff, or changes it."""
        who = self.caller.identity
        require_unlimited(who)
        concerns_staff = bool(is_staff) or (user is not None and user.is_staff)
        if concerns_staff and not who.is_staff:
            raise Forbidden


class UserList(UserResource):
    """The users of this server, by name."""

    rights: ClassVar = {"get": Right.ADMINISTER, "post": Right.ADMINISTER}
    ordering = ("username",)

    def get(self, _: Request) -> Response:
        return self.page(self.get_queryset(), user_wire)

    @extend_schema(request=NewUserBody, responses={201: UserSerializer})
    def post(self, _: Request) -> Response:
        """Adds a user. Without a password the user has tokens and login links only."""
        body = self.body(NewUserBody)
        self.check(None, body.get("is_staff"))
        is_staff = bool(body.get("is_staff"))
        user = get_user_model()(
            username=body["name"],
            email=body.get("email", ""),
            is_staff=is_staff,
            is_superuser=is_staff,
            is_active=body.get("is_active", True),
        )
        user.set_password(body.get("password"))
        groups = body.get("groups", [])

        def add(tx: Any) -> User:
            added = add_user(tx, user, actor=self.actor)
            added.groups.set(groups)
            return added

        return Response(user_wire(self.act(writer.write, "", add)), status=201)


class UserDetail(UserResource):
    """One user."""

    rights: ClassVar = {"get": Right.ADMINISTER, "patch": Right.ADMINISTER}

    def get(self, _: Request, user_id: int) -> Response:
        return Response(user_wire(self._user(user_id)))

    @extend_schema(request=UserBody)
    def patch(self, _: Request, user_id: int) -> Response:
        """Changes a user. The owner stays active, and staff."""
        body = self.body(UserBody)
        self.check(self._user(user_id), body.get("is_staff"))
        change = partial(change_user, user_id=user_id, change=UserChange(**body), actor=self.actor)
        user = self.act(writer.write, "", change)
        IDENTITIES.forget()
        return Response(user_wire(user))

    def _user(self, user_id: int) -> User:
        found = self.get_queryset().filter(pk=user_id).first()
        if found is None:
            raise UserUnknown
        return cast("User", found)
