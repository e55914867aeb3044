"""Tokens of programs, and links that sign a browser in."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from people.actions.audit import Act, record
from people.actions.login_links import VALID_MS, create_login_link
from people.actions.tokens import NAME_LIMIT, create_token, revoke_token
from people.identities import IDENTITIES
from people.models import ALL_SCOPES, Token
from people.rest.me import require_unlimited
from workspaces.access import ALL_RIGHTS, Right
from workspaces.log.errors import BadField, Forbidden, TokenUnknown, UserUnknown
from workspaces.log.timestamps import as_seconds, now_ms
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer
from workspaces.models import Workspace
from workspaces.rest.view import Resource

SCOPES = sorted(ALL_RIGHTS - {Right.PUBLIC, Right.SIGNED_IN})
LATEST = 253_402_300_799  # the end of the year 9999


class TokenSerializer(serializers.Serializer[Any]):
    """A token, without its secret."""

    id = serializers.CharField(help_text="A UUID.")
    name = serializers.CharField(help_text="What it is for.")
    prefix = serializers.CharField(help_text="How it begins, to recognise it.")
    user_id = serializers.CharField(help_text="The user whose rights it has, at most.")
    user = serializers.CharField(help_text="The name of that user.")
    scopes = serializers.ListField(
        child=serializers.ChoiceField(SCOPES), allow_null=True, help_text="Its rights; null: all."
    )
    workspaces = serializers.ListField(
        child=serializers.CharField(), allow_null=True, help_text="Where it is valid; null: all."
    )
    created_by = serializers.CharField(allow_null=True, help_text="The id of who created it.")
    created_at = serializers.IntegerField(help_text="When it was created.")
    expires_at = serializers.IntegerField(allow_null=True, help_text="When it ends; null: never.")
    last_used_at = serializers.IntegerField(
        allow_null=True, help_text="When it was used last, to the minute."
    )
    revoked_at = serializers.IntegerField(allow_null=True, help_text="When it was revoked.")


class NewTokenSerializer(TokenSerializer):
    """A new token, with its secret."""

    token = serializers.CharField(help_text="The secret. It is not stored and not shown again.")


class NewTokenBody(serializers.Serializer[Any]):
    """A token to create."""

    name = serializers.CharField(max_length=NAME_LIMIT, help_text="What it is for.")
    scopes = serializers.ListField(
        child=serializers.ChoiceField(SCOPES),
        required=False,
        allow_null=True,
        allow_empty=False,
        help_text="Its rights; without them it has those of its creator.",
    )
    # Written out, because `many=True` passes `allow_null` on to the child alone.
    workspaces = serializers.ManyRelatedField(
        child_relation=serializers.PrimaryKeyRelatedField(queryset=Workspace.objects.all()),
        required=False,
        allow_null=True,
        allow_empty=False,
        help_text="Where it is valid; without them everywhere.",
    )
    expires_at = serializers.IntegerField(
        required=False,
        allow_null=True,
        max_value=LATEST,
        help_text="When it ends, in unix seconds; without it never.",
    )
    user_id = serializers.IntegerField(
        required=False, help_text="Whose it is; without it yours. Others' need staff."
    )


def token_wire(token: Token) -> dict[str, Any]:
    limited = None if token.has_all_workspaces else [w.pk for w in token.workspaces.all()]
    creator = token.created_by_id
    times = ("created_at", "expires_at", "last_used_at", "revoked_at")
    return {
        "id": token.pk,
        "name": token.name,
        "prefix": token.prefix,
        "user_id": str(token.user_id),
        "user": token.user.get_username(),
        "scopes": None if ALL_SCOPES in token.scopes else token.scopes,
        "workspaces": limited,
        "created_by": None if creator is None else str(creator),
        **{name: _seconds(getattr(token, name)) for name in times},
    }


def _seconds(moment: int | None) -> int | None:
    return None if moment is None else as_seconds(moment)


def _user(user_id: int) -> User | None:
    return get_user_model().objects.filter(pk=user_id).first()


class AccountResource(Resource):
    """What concerns one's own account, and for staff those of others."""

    def user(self, user_id: int | None) -> User:
        """Returns the user that a request is about. Raises ``Forbidden`` and ``UserUnknown``."""
        who = self.caller.identity
        wanted = who.user_id if user_id is None else user_id
        if wanted != who.user_id and not who.is_staff:
            raise Forbidden
        found = None if wanted is None else _user(wanted)
        if found is None or not found.is_active:
            raise UserUnknown
        return found


class TokenQuery(serializers.Serializer[Any]):
    user_id = serializers.IntegerField(required=False, help_text="Only this user's; needs staff.")
    everyone = serializers.BooleanField(default=False, help_text="Those of all users; needs staff.")


class TokenList(AccountResource):
    """Your tokens, the newest first."""

    rights: ClassVar = {"get": Right.ACCOUNT, "post": Right.ACCOUNT}
    serializer_class = TokenSerializer
    queryset = Token.objects.select_related("user").prefetch_related("workspaces")
    ordering = ("-created_at", "-id")

    @extend_schema(parameters=[TokenQuery])
    def get(self, _: Request) -> Response:
        wanted = self.query(TokenQuery)
        found = self.get_queryset()
        if wanted["everyone"]:
            if not self.caller.identity.is_staff:
                raise Forbidden
        else:
            found = found.filter(user=self.user(wanted.get("user_id")))
        return self.page(found, token_wire)

    @extend_schema(request=NewTokenBody, responses={201: NewTokenSerializer})
    def post(self, _: Request) -> Response:
        """Creates a token. One with limited rights creates others with these rights at most."""
        body, who = self.body(NewTokenBody), self.caller.identity
        user = self.user(body.get("user_id"))
        scopes = body.get("scopes")
        wanted = None if scopes is None else frozenset(map(Right, scopes))
        if who.scopes is not None and not (wanted or ALL_RIGHTS) <= who.scopes:
            raise Forbidden
        ends = body.get("expires_at")
        if ends is not None and ends * 1000 <= now_ms():
            raise BadField("expires_at: must be in the future")
        create = partial(
            create_token,
            user=user,
            name=body["name"],
            created_by=None if who.user_id is None else _user(who.user_id),
            scopes=wanted,
            workspaces=body.get("workspaces"),
            expires_at=None if ends is None else ends * 1000,
            actor=self.actor,
        )
        made = self.act(writer.write, "", create)
        return Response({**token_wire(made.row), "token": made.text}, status=201)


class TokenDetail(AccountResource):
    """One of your tokens."""

    rights: ClassVar = {"get": Right.ACCOUNT, "delete": Right.ACCOUNT}
    serializer_class = TokenSerializer
    queryset = Token.objects.select_related("user").prefetch_related("workspaces")

    def get(self, _: Request, token_id: str) -> Response:
        return Response(token_wire(self._token(token_id)))

    @extend_schema(responses={204: None})
    def delete(self, _: Request, token_id: str) -> Response:
        """Revokes the token for good. It stays in the list."""
        token = self._token(token_id)
        revoke = partial(revoke_token, token_id=token.pk, actor=self.actor)
        self.act(writer.write, "", revoke)
        IDENTITIES.forget()
        return Response(status=204)

    def _token(self, token_id: str) -> Token:
        found: Token | None = self.get_queryset().filter(pk=token_id).first()
        who = self.caller.identity
        if found is None or (found.user_id != who.user_id and not who.is_staff):
            raise TokenUnknown
        return found


class LoginLinkSerializer(serializers.Serializer[Any]):
    """A link that signs a browser in, once."""

    path = serializers.CharField(help_text="The address below the server's. Keep it secret.")
    url = serializers.CharField(
        allow_null=True, help_text="The whole address; null without a public URL."
    )
    qr = serializers.CharField(
        allow_null=True,
        help_text="The whole address as a QR code: a data URI of an SVG image, for a phone. Null"
        " without a public URL.",
    )
    user_id = serializers.CharField(help_text="Whom it signs in.")
    expires_at = serializers.IntegerField(help_text="When it ends, in unix seconds.")


class NewLoginLinkBody(serializers.Serializer[Any]):
    """Whom a link signs in."""

    user_id = serializers.IntegerField(
        required=False, help_text="Without it you. Others need staff."
    )


class LoginLinkList(AccountResource):
    """Links that sign a browser in."""

    rights: ClassVar = {"post": Right.ACCOUNT}
    serializer_class = LoginLinkSerializer

    @extend_schema(request=NewLoginLinkBody, responses={201: LoginLinkSerializer})
    def post(self, _: Request) -> Response:
        """Creates a link. It works once, within ten minutes."""
        require_unlimited(self.caller.identity)
        user = self.user(self.body(NewLoginLinkBody).get("user_id"))

        def create(tx: Transaction) -> str:
            record(tx, self.actor, Act.CREATE_LOGIN_LINK, target=user.get_username())
            return create_login_link(user)

        path = f"/sign-in/link/?key={self.act(writer.write, '', create)}"
        public = settings.CRUSH_PUBLIC_URL.rstrip("/")
        shown = {
            "path": path,
            "url": f"{public}{path}" if public else None,
            "qr": _qr_code(f"{public}{path}") if public else None,
            "user_id": str(user.pk),
            "expires_at": as_seconds(now_ms() + VALID_MS),
        }
        return Response(shown, status=201)


def _qr_code(text: str) -> str:
    """Returns a data URI with a light background, so that dark pages can show it, too."""
    import segno  # noqa: PLC0415  seldom used

    return str(segno.make(text, error="l", micro=False).svg_data_uri(scale=4, light="#fff"))
