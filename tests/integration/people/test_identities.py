"""What a token, a session and the owner's account turn into, on both databases."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from django.contrib.auth import (
    BACKEND_SESSION_KEY,
    HASH_SESSION_KEY,
    SESSION_KEY,
    get_user_model,
)
from django.contrib.auth.models import Group, User
from django.contrib.sessions.backends.db import SessionStore

from people.actions.members import set_role
from people.actions.tokens import PREFIX, create_token, digest_of, revoke_token
from people.identities import (
    EXPIRED_TOKEN,
    INACTIVE_USER,
    KEPT_SECONDS,
    NO_SESSION,
    REVOKED_TOKEN,
    UNKNOWN_TOKEN,
    Identities,
    ensure_owner,
)
from people.models import GroupRole, Token
from workspaces.access import EVERYWHERE, IdentityKind, MemberRole, Right
from workspaces.log.errors import BadField, TokenUnknown
from workspaces.log.reader import stop_reading
from workspaces.log.timestamps import now_ms
from workspaces.log.writer import writer
from workspaces.models import Workspace


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class People:
    identities: Identities
    clock: Clock
    user: User
    workspace: Workspace

    async def of_token(self, text: str) -> Any:
        return await self.identities.of_token(text)


@pytest_asyncio.fixture
async def people(database: str) -> AsyncIterator[People]:
    clock = Clock()
    writer.start(publish=None, loop=asyncio.get_running_loop())
    user = await on_database(lambda _: get_user_model().objects.create_user("ann"))
    workspace = await on_database(
        lambda _: Workspace.objects.create(path="/p", data_dir="/p/.crush")
    )
    yield People(Identities(clock), clock, user, workspace)
    await asyncio.to_thread(writer.stop)
    await asyncio.to_thread(stop_reading)


async def on_database(work: Any) -> Any:
    return await writer.write("", work)


async def a_token(people: People, **more: Any) -> Any:
    def create(tx: Any) -> Any:
        return create_token(tx, user=people.user, name="laptop", created_by=people.user, **more)

    return await on_database(create)


async def test_a_token_is_its_user(people: People) -> None:
    await on_database(lambda tx: set_role(tx, people.user, people.workspace, MemberRole.PROMPTER))
    made = await a_token(people)
    found = await people.of_token(made.text)
    assert found.identity.kind is IdentityKind.TOKEN
    assert (found.identity.name, found.identity.user_id) == ("ann", people.user.pk)
    assert found.identity.token_id == made.row.pk
    assert found.identity.may(Right.PROMPT, people.workspace.pk)
    assert not found.identity.may(Right.ANSWER, people.workspace.pk)


@pytest.mark.parametrize("flag", ["is_staff", "is_superuser"])
async def test_a_token_of_staff_sees_everything(people: People, flag: str) -> None:
    made = await a_token(people)
    assert not (await people.of_token(made.text)).identity.may(Right.READ, people.workspace.pk)
    await on_database(lambda _: get_user_model().objects.update(**{flag: True}))
    people.identities.forget()
    assert (await people.of_token(made.text)).identity.may(Right.READ, people.workspace.pk)


async def test_a_token_is_stored_as_a_digest_and_recognised_by_its_beginning(
    people: People,
) -> None:
    made = await a_token(people)
    assert made.text.startswith(PREFIX)
    assert len(made.text) == len(PREFIX) + 43
    row = await on_database(lambda _: Token.objects.get())
    assert row.digest == digest_of(made.text)
    assert made.text.startswith(row.prefix)
    assert all(made.text not in str(value) for value in vars(row).values())


async def test_scopes_and_workspaces_narrow_a_token(people: People) -> None:
    await on_database(lambda tx: set_role(tx, people.user, people.workspace, MemberRole.ADMIN))
    other = await on_database(lambda _: Workspace.objects.create(path="/q", data_dir="/q"))
    await on_database(lambda tx: set_role(tx, people.user, other, MemberRole.ADMIN))
    made = await a_token(people, scopes={Right.READ}, workspaces=[people.workspace])
    identity = (await people.of_token(made.text)).identity
    assert identity.may(Right.READ, people.workspace.pk)
    assert not identity.may(Right.PROMPT, people.workspace.pk)
    assert not identity.may(Right.READ, other.pk)


async def test_a_token_whose_workspace_is_gone_may_nothing(people: People) -> None:
    made = await a_token(people, workspaces=[people.workspace])
    await on_database(lambda _: Workspace.objects.all().delete())
    identity = (await people.of_token(made.text)).identity
    assert not identity.may(Right.READ, people.workspace.pk)


@pytest.mark.parametrize("text", ["", "x", PREFIX, PREFIX + "é", PREFIX + "x" * 1000, PREFIX + "a"])
async def test_an_unknown_token(people: People, text: str) -> None:
    assert await people.of_token(text) is UNKNOWN_TOKEN


async def test_a_revoked_token_is_refused_at_once_here_and_soon_elsewhere(people: People) -> None:
    made = await a_token(people)
    assert (await people.of_token(made.text)).identity.kind is IdentityKind.TOKEN
    await on_database(lambda tx: revoke_token(tx, made.row.pk))
    assert (
        await people.of_token(made.text)
    ).identity.kind is IdentityKind.TOKEN  # of another process
    people.clock.now += KEPT_SECONDS
    assert await people.of_token(made.text) is REVOKED_TOKEN
    revoked_at = (await on_database(lambda _: Token.objects.get())).revoked_at
    await on_database(lambda tx: revoke_token(tx, made.row.pk))
    assert (await on_database(lambda _: Token.objects.get())).revoked_at == revoked_at

    made = await a_token(people)
    await people.of_token(made.text)
    await on_database(lambda tx: revoke_token(tx, made.row.pk))
    people.identities.forget()
    assert await people.of_token(made.text) is REVOKED_TOKEN


async def test_an_unknown_token_cannot_be_revoked(people: People) -> None:
    with pytest.raises(TokenUnknown):
        await on_database(lambda tx: revoke_token(tx, "no such token"))


async def test_a_token_expires_also_while_it_is_kept(people: People) -> None:
    made = await a_token(people, expires_at=now_ms() + 60_000)
    assert (await people.of_token(made.text)).identity.kind is IdentityKind.TOKEN
    await on_database(lambda _: Token.objects.update(expires_at=now_ms() - 1))
    people.identities.forget()
    assert await people.of_token(made.text) is EXPIRED_TOKEN


async def test_a_disabled_users_token_is_refused(people: People) -> None:
    made = await a_token(people)
    await on_database(lambda _: get_user_model().objects.update(is_active=False))
    assert await people.of_token(made.text) is INACTIVE_USER


async def test_the_last_use_of_a_token_is_stored(people: People) -> None:
    made = await a_token(people)
    await people.of_token(made.text)
    async with asyncio.timeout(30):
        while (await on_database(lambda _: Token.objects.get())).last_used_at is None:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": " "},
        {"name": "x" * 101},
        {"scopes": set()},
        {"workspaces": []},
        {"expires_at": 1},
    ],
)
async def test_a_wrong_token_is_not_created(people: People, wrong: dict[str, Any]) -> None:
    fields = {"user": people.user, "name": "x", "created_by": None} | wrong
    with pytest.raises(BadField):
        await on_database(lambda tx: create_token(tx, **fields))


async def test_a_browsers_session_is_its_user(people: People) -> None:
    def sign_in(_: Any) -> str:
        session = SessionStore()
        session[SESSION_KEY] = str(people.user.pk)
        session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
        session[HASH_SESSION_KEY] = people.user.get_session_auth_hash()
        session.save()
        return str(session.session_key)

    key = await on_database(sign_in)
    found = await people.identities.of_session(key)
    assert (found.identity.kind, found.identity.name) == (IdentityKind.USER, "ann")
    assert await people.identities.of_session("no-such-session") is NO_SESSION
    await on_database(lambda _: get_user_model().objects.update(is_active=False))
    people.identities.forget()
    assert await people.identities.of_session(key) is NO_SESSION


async def test_groups_give_roles_in_one_workspace_or_everywhere(people: People) -> None:
    def join(_: Any) -> None:
        here, everywhere = Group.objects.create(name="here"), Group.objects.create(name="all")
        GroupRole.objects.create(group=here, workspace=people.workspace, role=MemberRole.APPROVER)
        GroupRole.objects.create(group=everywhere, role=MemberRole.VIEWER)
        people.user.groups.set([here, everywhere])

    await on_database(join)
    await on_database(lambda tx: set_role(tx, people.user, people.workspace, MemberRole.PROMPTER))
    identity = (await people.of_token((await a_token(people)).text)).identity
    assert identity.roles == {
        people.workspace.pk: MemberRole.APPROVER,
        EVERYWHERE: MemberRole.VIEWER,
    }
    assert identity.may(Right.ANSWER, people.workspace.pk)
    assert identity.may(Right.READ, "any other")
    assert not identity.may(Right.OPEN)


async def test_a_role_can_be_changed_and_taken_away(people: People) -> None:
    async def roles() -> dict[str, MemberRole]:
        people.identities.forget()
        return dict((await people.of_token(made.text)).identity.roles)

    made = await a_token(people)
    for role in (MemberRole.VIEWER, MemberRole.ADMIN):
        await on_database(lambda tx, role=role: set_role(tx, people.user, people.workspace, role))
        assert await roles() == {people.workspace.pk: role}
    await on_database(lambda tx: set_role(tx, people.user, people.workspace, None))
    assert await roles() == {}


async def test_the_owner_is_one_staff_user_without_a_password(people: People) -> None:
    owner = await on_database(lambda _: ensure_owner())
    assert (owner.username, owner.is_staff, owner.has_usable_password()) == ("owner", True, False)
    assert (await on_database(lambda _: ensure_owner())).pk == owner.pk


async def test_another_user_with_the_owners_name_is_not_taken_over(people: People) -> None:
    await on_database(lambda _: get_user_model().objects.create_user("owner"))
    owner = await on_database(lambda _: ensure_owner())
    assert owner.username == "owner2"
