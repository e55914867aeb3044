"""A person's own account: nobody else's tokens and browsers, and no acts of tools."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.test import AsyncClient, Client
from django.test.client import AsyncClientHandler

from people.actions.tokens import create_token
from people.models import BrowserSession, Token
from people.queries import audit_entries
from tests.integration.api.conftest import transactional_db
from workspaces.access import CALLER, Caller
from workspaces.log.writer import writer

__all__ = ["transactional_db"]

PAGE = "/account/"


@pytest.fixture
def users(transactional_db: None) -> Iterator[list[User]]:
    made = [get_user_model().objects.create_user(name) for name in ("ann", "bob")]
    yield made
    get_user_model().objects.all().delete()


def signed_in(user: User, agent: str = "Firefox/1") -> Client:
    client = Client(headers={"user-agent": agent})
    client.force_login(user)
    return client


def a_token(user: User) -> Token:
    def create(tx: Any) -> Token:
        return create_token(tx, user=user, name="laptop", created_by=user).row

    return writer.write_and_wait("", create)


def test_a_stranger_is_sent_to_the_sign_in(transactional_db: None) -> None:
    answer = Client().get(PAGE)
    assert (answer.status_code, answer.headers["Location"]) == (302, "/sign-in/?next=/account/")
    assert Client().post(PAGE, {"task": "create", "name": "x"}).status_code == 302
    assert not Token.objects.exists()


def test_nobody_revokes_the_token_of_another(users: list[User]) -> None:
    ann, bob = users
    token = a_token(bob)
    answer = signed_in(ann).post(PAGE, {"task": f"revoke {token.pk}"})
    assert answer.status_code == 404
    token.refresh_from_db()
    assert token.revoked_at is None
    assert signed_in(bob).post(PAGE, {"task": f"revoke {token.pk}"}).status_code == 303
    token.refresh_from_db()
    assert token.revoked_at is not None


def test_nobody_ends_the_session_of_another(users: list[User]) -> None:
    ann, bob = users
    theirs, mine = signed_in(bob), signed_in(ann)
    row = BrowserSession.objects.get(user=bob)
    assert mine.post(PAGE, {"task": f"end {row.pk}"}).status_code == 404
    assert theirs.get(PAGE).status_code == 200
    assert signed_in(bob).post(PAGE, {"task": f"end {row.pk}"}).status_code == 303
    assert theirs.get(PAGE).status_code == 302


def test_a_token_is_limited_as_chosen(users: list[User]) -> None:
    ann = users[0]
    fields = {"task": "create", "name": "laptop", "expires": "30", "scopes": ["read", "prompt"]}
    page = signed_in(ann).post(PAGE, fields)
    assert page.status_code == 200
    assert "no-store" in page.headers["Cache-Control"]
    row = Token.objects.get()
    assert (row.user, row.created_by, row.scopes) == (ann, ann, ["prompt", "read"])
    assert row.expires_at is not None
    acts = [(entry.actor, entry.act) for entry in audit_entries()]
    assert ("ann", "create token") in acts


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"task": "unknown"},
        {"task": "end x"},
        {"task": "revoke a\0b"},
        {"task": "end 99999999999999999999"},
        {"task": "create", "expires": "30"},
        {"task": "create", "name": "x" * 101, "expires": "30"},
        {"task": "create", "name": "x", "expires": "2"},
        {"task": "create", "name": "x", "expires": "30", "scopes": ["public"]},
        {"task": "create", "name": "x", "expires": "30", "workspaces": ["unknown"]},
        {"task": "create", "name": "a\0b", "expires": "30"},
    ],
)
def test_a_wrong_form_is_400_and_changes_nothing(users: list[User], fields: Any) -> None:
    assert signed_in(users[0]).post(PAGE, fields).status_code == 400
    assert not Token.objects.exists()


async def yes() -> bool:
    return True


class ToolsHandler(AsyncClientHandler):
    """Requests as the edge hands them on that come from a tool."""

    async def __call__(self, scope: Any) -> Any:
        return await super().__call__(scope | {CALLER: Caller(is_tool=yes)})


@pytest.mark.parametrize(
    "page", [PAGE, "/sign-in/", "/sign-in/link/?key=x", "/account/password/", "/admin/login/"]
)
async def test_a_tool_changes_nothing_even_with_a_persons_session(
    users: list[User], page: str
) -> None:
    client = AsyncClient()
    client.handler = ToolsHandler()
    await client.aforce_login(users[0])
    answer = await client.post(page, {"task": "create"})
    assert answer.status_code == 403
    assert b"A person must do this" in answer.content
    assert (await client.get("/account/")).status_code == 200
