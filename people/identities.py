"""Finds the identity behind a token, a browser's session, and the server's own account.

Found identities are kept for a moment: a request of a known token then costs no query. A change in
this process drops them at once, a change in another process within ``KEPT_SECONDS``.
"""

from __future__ import annotations

import asyncio
import getpass
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import orjson
from django.conf import settings
from django.contrib.auth import get_user, get_user_model
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.db.models import Q
from django.http import HttpRequest

from people.actions.tokens import PREFIX, digest_of
from people.models import ALL_SCOPES, GroupRole, Member, Owner, Token
from workspaces.access import ANONYMOUS, EVERYWHERE, Identity, IdentityKind, MemberRole, Right
from workspaces.log.reader import read
from workspaces.log.statements import statements
from workspaces.log.timestamps import now_ms
from workspaces.log.writer import writer

KEPT_SECONDS = 2.0
MAX_KEPT = 10_000
USE_NOTED_SECONDS = 60.0
TOKEN_CHARS = 200

OWNER_NAME = "owner"


@dataclass(frozen=True, slots=True)
class Found:
    """An identity, or nobody and the reason."""

    identity: Identity
    reason: str = ""
    expires_at: int | None = None  # milliseconds; a token's own end


UNKNOWN_TOKEN = Found(
    ANONYMOUS, "The token is not valid here. Create one with `crush-server token`."
)
REVOKED_TOKEN = Found(ANONYMOUS, "The token was revoked. Create one with `crush-server token`.")
EXPIRED_TOKEN = Found(ANONYMOUS, "The token has expired. Create one with `crush-server token`.")
INACTIVE_USER = Found(ANONYMOUS, "The account of this credential is not active.")
NO_SESSION = Found(ANONYMOUS, "The session has ended. Sign in again.")


class Identities:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: dict[str, tuple[float, Found]] = {}
        self._noted: dict[str, float] = {}
        self._notes: set[asyncio.Task[None]] = set()

    async def of_token(self, text: str) -> Found:
        if not text.startswith(PREFIX) or len(text) > TOKEN_CHARS or not text.isascii():
            return UNKNOWN_TOKEN
        digest = digest_of(text)
        found = await self._found(f"token {digest}", _of_token, digest)
        if found.expires_at is not None and found.expires_at <= now_ms():
            return EXPIRED_TOKEN
        if found.identity.token_id:
            self._note_use(found.identity.token_id)
        return found

    async def of_session(self, key: str) -> Found:
        """The user of a browser that has signed in."""
        return await self._found(f"session {key}", _of_session, key)

    def forget(self) -> None:
        """Looks everything up again, because tokens, roles or users have changed."""
        self._kept.clear()

    async def _found(self, key: str, find: Callable[[str], Found], value: str) -> Found:
        kept = self._kept.get(key)
        now = self._clock()
        if kept is not None and now - kept[0] < KEPT_SECONDS:
            return kept[1]
        found = await read(find, value)
        if len(self._kept) >= MAX_KEPT:
            self._kept.clear()
        self._kept[key] = now, found
        return found

    def _note_use(self, token_id: str) -> None:
        """Stores when the token was used, once a minute, without delaying the request."""
        now = self._clock()
        if now - self._noted.get(token_id, -USE_NOTED_SECONDS) < USE_NOTED_SECONDS:
            return
        if len(self._noted) >= MAX_KEPT:
            self._noted.clear()
        self._noted[token_id] = now
        task = asyncio.create_task(_store_use(token_id), name="token use")
        self._notes.add(task)
        task.add_done_callback(self._notes.discard)


async def _store_use(token_id: str) -> None:
    await writer.write(
        "", lambda _: Token.objects.filter(id=token_id).update(last_used_at=now_ms())
    )


# Statements: a request waits for them when its token has not been seen for a moment. One statement
# in place of three queries of the ORM takes 0.08 instead of 1.0 ms (`python -m tests.bench.identity`).
_ONE = (
    "SELECT t.id, t.scopes, t.has_all_workspaces, t.expires_at, t.revoked_at, u.id, u.username,"
    " u.is_active, u.is_staff OR u.is_superuser, {held}.workspace_id, {held}.role"
    " FROM people_token t JOIN auth_user u ON u.id = t.user_id"
)
_WITH_ROLES = (
    f"{_ONE.format(held='m')} LEFT JOIN people_member m ON m.user_id = u.id WHERE t.digest = %s"
    f" UNION ALL {_ONE.format(held='r')} JOIN auth_user_groups g ON g.user_id = u.id"
    " JOIN people_grouprole r ON r.group_id = g.group_id WHERE t.digest = %s"
)
_LIMITS = "SELECT workspace_id FROM people_token_workspaces WHERE token_id = %s"


def _of_token(digest: str) -> Found:
    with statements() as cursor:
        cursor.execute(_WITH_ROLES, [digest, digest])
        rows = cursor.fetchall()
        if not rows:
            return UNKNOWN_TOKEN
        key, scopes, has_all, expires_at, revoked_at, *user = rows[0][:-2]
        limited = None
        if not has_all:
            cursor.execute(_LIMITS, [key])
            limited = frozenset(workspace_id for (workspace_id,) in cursor.fetchall())
    user_id, name, is_active, is_staff = user
    if revoked_at is not None:
        return REVOKED_TOKEN
    if expires_at is not None and expires_at <= now_ms():
        return EXPIRED_TOKEN
    if not is_active:
        return INACTIVE_USER
    rights = orjson.loads(scopes)
    identity = Identity(
        IdentityKind.TOKEN,
        name=name,
        user_id=user_id,
        is_staff=bool(is_staff),
        roles=_highest((row[-2], row[-1]) for row in rows if row[-1] is not None),
        scopes=None if ALL_SCOPES in rights else frozenset(map(Right, rights)),
        workspaces=limited,
        token_id=key,
    )
    return Found(identity, expires_at=expires_at)


def _of_session(key: str) -> Found:
    request: Any = HttpRequest()
    request.session = SessionStore(key)
    user = get_user(request)
    if not user.is_authenticated or not isinstance(user, User):
        return NO_SESSION
    return Found(identity_of(user, IdentityKind.USER))


def identity_of(user: User, kind: IdentityKind, **more: Any) -> Identity:
    """Returns the identity of a user with all roles."""
    return Identity(
        kind,
        name=user.get_username(),
        user_id=user.pk,
        is_staff=user.is_staff or user.is_superuser,
        roles=_roles_of(user),
        **more,
    )


def _roles_of(user: User) -> dict[str, MemberRole]:
    return _highest(
        [
            *Member.objects.filter(user=user).values_list("workspace_id", "role"),
            *GroupRole.objects.filter(Q(group__user=user)).values_list("workspace_id", "role"),
        ]
    )


def _highest(found: Iterable[tuple[str | None, str]]) -> dict[str, MemberRole]:
    """Returns the highest role in each workspace."""
    order = list(MemberRole)
    roles: dict[str, MemberRole] = {}
    for workspace_id, name in found:
        key = workspace_id or EVERYWHERE
        role = MemberRole(name)
        if key not in roles or order.index(role) > order.index(roles[key]):
            roles[key] = role
    return roles


def ensure_owner() -> User:
    """Returns the user of the server's own account; creates it at the first start."""
    owner = Owner.objects.select_related("user").first()
    if owner is not None:
        return owner.user
    users = get_user_model().objects
    name, number = OWNER_NAME, 1
    while users.filter(username=name).exists():  # someone else has this name
        number += 1
        name = f"{OWNER_NAME}{number}"
    user = users.create(username=name, first_name=_account(), is_staff=True, is_superuser=True)
    user.set_unusable_password()
    user.save(update_fields=["password"])
    Owner.objects.create(user=user)
    return user


def _account() -> str:
    try:
        return getpass.getuser()[:150]
    except (KeyError, OSError):
        return ""


IDENTITIES = Identities()
SESSION_COOKIE = settings.SESSION_COOKIE_NAME
