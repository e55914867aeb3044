"""Links that sign a browser in once. Synchronous: call it in a write's transaction."""

from __future__ import annotations

import secrets

from django.contrib.auth.models import User
from django.db.models import QuerySet

from people.actions.tokens import digest_of
from people.models import LoginLink
from workspaces.log.errors import LoginLinkInvalid
from workspaces.log.timestamps import now_ms

VALID_MS = 10 * 60 * 1000
_BYTES = 32


def create_login_link(user: User) -> str:
    """Returns the secret of a new link; removes those that have ended."""
    LoginLink.objects.filter(expires_at__lt=now_ms()).delete()
    secret = secrets.token_urlsafe(_BYTES)
    LoginLink.objects.create(digest=digest_of(secret), user=user, expires_at=now_ms() + VALID_MS)
    return secret


def is_valid(secret: str) -> bool:
    return _valid(secret).exists()


def use_login_link(secret: str) -> User:
    """Returns the user whom the link signs in, the first time. Raises ``LoginLinkInvalid``."""
    # One statement: of two requests at the same moment only one changes the row.
    if not _valid(secret).update(used_at=now_ms()):
        raise LoginLinkInvalid
    return LoginLink.objects.select_related("user").get(digest=digest_of(secret)).user


def _valid(secret: str) -> QuerySet[LoginLink]:
    return LoginLink.objects.filter(
        digest=digest_of(secret),
        used_at__isnull=True,
        expires_at__gt=now_ms(),
        user__is_active=True,
    )
