"""Each wrong identity, as the edge finds it from real credentials, and the cases to try it on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.urls import URLPattern, URLResolver

from agents.models import Run
from crushsite.asgi.identify import Identification
from people.actions.members import set_role
from people.actions.tokens import create_token, revoke_token
from people.identities import SESSION_COOKIE, Identities
from people.models import Token
from people.sign_in_throttle import SignInThrottle
from tests.integration.api.client import Answer, Api
from workspaces.access import RIGHTS_OF, Caller, Identity, IdentityKind, MemberRole, Right
from workspaces.actions.claims import retire_client
from workspaces.log.reader import read
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer
from workspaces.models import ClientClaim, Workspace

Header = tuple[bytes, bytes]
Case = tuple[str, str, Right]  # a method, an address with its parameters, and the right

RETIRED = "99999999-9999-4999-8999-999999999999"
SIDE_DOORS = frozenset({Right.PUBLIC, Right.SIGNED_IN})  # these need no role


async def yes() -> bool:
    return True


def cases_of(
    patterns: Any, prefix: str, methods_of: Callable[[URLPattern, Any], Iterator[str]]
) -> list[Case]:
    """Returns each method of each view below these addresses."""
    return sorted(set(_cases(patterns, prefix, methods_of)))


def _cases(patterns: Any, prefix: str, methods_of: Any) -> Iterator[Case]:
    for pattern in patterns:
        address = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from _cases(pattern.url_patterns, address, methods_of)
            continue
        assert isinstance(pattern, URLPattern)
        view: Any = getattr(pattern.callback, "view_class", None)
        if view is None:
            continue  # the page for unknown addresses
        for method in methods_of(pattern, view):
            yield method, address, view.rights[method]


def path_of(address: str, **known: str) -> str:
    """Returns the address with some value for each parameter."""
    before, parameter, after = address.partition("<")
    while parameter:
        kind, _, rest = after.partition(">")
        name = kind.rpartition(":")[2]
        value = known.get(name, "1" if kind.startswith("int") else "some")
        before, parameter, after = (before + value + rest).partition("<")
    return f"/{before}"


@dataclass(frozen=True)
class Wrong:
    """Someone who lacks a right, and the status that the server answers with."""

    name: str
    caller: Caller
    status: int


@asynccontextmanager
async def wrong_callers(right: Right, workspace_id: str) -> AsyncIterator[list[Wrong]]:
    """Those who lack the right in the workspace."""
    made = await writer.write("", lambda tx: _Credentials(tx, workspace_id).lacking(right))
    edge = Identification(
        servers=tuple, folder=Path(), identities=Identities(), guesses=SignInThrottle()
    )
    try:
        yield [
            Wrong(name, await edge.caller_of({"headers": headers, "extensions": {}}), status)
            for name, headers, status in made
        ]
    finally:
        await writer.write(
            "", lambda _: User.objects.filter(username__startswith="wrong-").delete()
        )


class _Credentials:
    """Rows of users, tokens and sessions, and the headers that name them."""

    def __init__(self, tx: Transaction, workspace_id: str) -> None:
        self._tx = tx
        self._here = Workspace.objects.get(pk=workspace_id)
        self._elsewhere = Workspace.objects.create(path="/elsewhere", data_dir="/elsewhere/.crush")

    def lacking(self, right: Right) -> list[tuple[str, list[Header], int]]:
        staff = self._user("staff", is_staff=True)
        found = [(name, headers, 401) for name, headers in self._without_identity(staff)]
        if right is Right.SIGNED_IN:
            return found
        scopes = frozenset(Right) - {right, *SIDE_DOORS}
        limited = self._elsewhere if right is not Right.ACCOUNT else self._here
        found += [
            ("a token with other scopes", self._token(staff, scopes=scopes), 403),
            ("a token for one workspace", self._token(staff, workspaces=[limited]), 403),
        ]
        if right is Right.ACCOUNT:  # any unlimited identity has it
            return found
        stranger = self._user("stranger")
        other = self._user("other")
        set_role(self._tx, other, self._elsewhere, MemberRole.ADMIN)
        found += [
            ("no role", self._token(stranger), 403),
            ("a role elsewhere", self._token(other), 403),
        ]
        for role in MemberRole:
            if right not in RIGHTS_OF[role]:
                member = self._user(role.value)
                set_role(self._tx, member, self._here, role)
                found.append((role.value, self._token(member), 403))
                found.append((f"{role.value} in a browser", self._session(member), 403))
        return found

    def _without_identity(self, staff: User) -> Iterator[tuple[str, list[Header]]]:
        yield "no credential", []
        yield "another scheme", [(b"authorization", b"Basic YTpi")]
        yield "an unknown token", [(b"authorization", b"Bearer crush_" + b"x" * 43)]
        expired = self._token(staff)
        Token.objects.filter(user=staff).update(expires_at=1)
        yield "an expired token", expired
        made = create_token(self._tx, user=staff, name="t", created_by=staff)
        revoke_token(self._tx, made.row.pk)
        yield "a revoked token", _bearer(made.text)
        gone = self._user("gone", is_staff=True)
        token, session = self._token(gone), self._session(gone)
        User.objects.filter(pk=gone.pk).update(is_active=False)
        yield "a token of a disabled user", token
        yield "a browser of a disabled user", session
        ended = self._session(staff)
        SessionStore(ended[0][1].decode().partition("=")[2]).delete()
        yield "a browser whose session has ended", ended

    def _user(self, name: str, **more: Any) -> User:
        return User.objects.create_user(f"wrong-{name}", **more)

    def _token(self, user: User, **more: Any) -> list[Header]:
        return _bearer(create_token(self._tx, user=user, name="t", created_by=user, **more).text)

    def _session(self, user: User) -> list[Header]:
        session = SessionStore()
        session[SESSION_KEY] = str(user.pk)
        session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
        session[HASH_SESSION_KEY] = user.get_session_auth_hash()
        session.create()
        return [(b"cookie", f"{SESSION_COOKIE}={session.session_key}".encode())]


def _bearer(token: str) -> list[Header]:
    return [(b"authorization", f"Bearer {token}".encode())]


async def refuse_all(
    api: Api, workspace_id: str, case: Case, check: Callable[[Answer], object]
) -> None:
    """Asserts that an address refuses each wrong identity."""
    method, address, right = case
    path = path_of(address, workspace_id=workspace_id)
    async with wrong_callers(right, workspace_id) as wrong:
        for one in wrong:
            api.caller = one.caller
            answer = await api.call(method.upper(), path, {})
            assert answer.status == one.status, (one.name, answer)
            check(answer)


def member_of(workspace_id: str) -> Caller:
    """Returns someone who may prompt, but neither configure nor run commands."""
    roles = {workspace_id: MemberRole.PROMPTER}
    return Caller(Identity(IdentityKind.USER, name="ann", roles=roles))


async def retire() -> None:
    await writer.write("", lambda tx: retire_client(tx, RETIRED))


async def assert_nothing_for_the_retired() -> None:
    """Asserts that a retired client has no claim, and no run waits for it."""

    def found() -> tuple[int, int]:
        runs = Run.objects.filter(client_id=RETIRED, run_id__isnull=False)
        return ClientClaim.objects.filter(client_id=RETIRED).count(), runs.count()

    assert await read(found) == (0, 0)


async def call_as_retired(api: Api, workspace_id: str, session_id: str, case: Case) -> int:
    """Calls an address by a client that has left for good, and returns the status."""
    await retire()
    method, address, _ = case
    path = path_of(address, workspace_id=workspace_id, session_id=session_id, client_id=RETIRED)
    folder = await read(lambda: Workspace.objects.get(pk=workspace_id).path)
    body = {
        "client_id": RETIRED,
        "path": folder,
        "session_id": session_id,
        "run_id": "run-1",
        "prompt": "hello",
        "text": "hello",
    }
    api.caller = member_of(workspace_id)
    answer = await api.call(method.upper(), f"{path}?client_id={RETIRED}", body, client=RETIRED)
    await assert_nothing_for_the_retired()
    return answer.status
