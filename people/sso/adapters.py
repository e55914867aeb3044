"""What django-allauth does differently here: nobody signs up by a form, and attempts are throttled."""

from __future__ import annotations

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.mfa.signals import authenticator_added, authenticator_removed
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest
from typing_extensions import override

from people.actions.audit import Act, record
from people.pages.form import throttled
from people.pages.sender import actor_of, address_of
from people.sign_in_throttle import PASSWORDS, keys_of
from workspaces.log.writer import writer


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]  # the library is not annotated
    @override
    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    @override
    def get_client_ip(self, request: HttpRequest) -> str:
        return address_of(request)

    @override
    def authenticate(self, request: HttpRequest, **credentials: Any) -> User | None:
        """Checks a password. Raises ``ValidationError`` while account or address are throttled."""
        keys = keys_of(str(credentials.get("username", "")), address_of(request))
        if seconds := PASSWORDS.wait_seconds(*keys):
            raise throttled(seconds)
        user: User | None = super().authenticate(request, **credentials)
        if user is None:
            PASSWORDS.fail(*keys)
        else:
            PASSWORDS.succeed(keys[0])
        return user


class ProviderAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]  # the same
    @override
    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:
        """Without the setting a provider signs in existing users only, by their e-mail address."""
        return bool(settings.CRUSH_OIDC_SIGN_UP)


def connect_signals() -> None:
    """Connects the signals of allauth. Called once, when the app is ready."""
    authenticator_added.connect(_added, dispatch_uid="people.second_factor_added")
    authenticator_removed.connect(_removed, dispatch_uid="people.second_factor_removed")


def _added(request: HttpRequest, user: User, authenticator: Any, **_: Any) -> None:
    _store(request, user, str(authenticator.type), "added")


def _removed(request: HttpRequest, user: User, authenticator: Any, **_: Any) -> None:
    _store(request, user, str(authenticator.type), "removed")


def _store(request: HttpRequest, user: User, kind: str, outcome: str) -> None:
    actor, details = actor_of(request), {"kind": kind}
    target = user.get_username()
    writer.write_and_wait(
        "",
        lambda tx: record(
            tx, actor, Act.SECOND_FACTOR, target=target, outcome=outcome, details=details
        ),
    )
