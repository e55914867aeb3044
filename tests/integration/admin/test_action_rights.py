"""Every action of the admin declares the right that it needs, and refuses each wrong identity."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.contrib.sessions.models import Session
from django.db.models import Model
from django.test import AsyncClient, Client
from django.test.client import AsyncClientHandler
from django.utils import timezone
from django.utils.module_loading import autodiscover_modules

from people.actions.tokens import create_token
from people.models import AuditEntry, Member
from tests.integration.admin.conftest import Place
from tests.integration.admin.test_pages import OWN, address
from workspaces.access import CALLER, Caller, MemberRole, Right
from workspaces.log.writer import writer
from workspaces.models import Event

autodiscover_modules("admin")

DELETE = "delete_selected"  # Django's own, which needs the permission to delete
ACTIONS = [
    (model, name)
    for model in OWN
    for name in getattr(admin.site._registry[model], "actions", None) or ()
    if name != DELETE
]


# The pages that Django gives to every model; all others are ours and change something.
STANDARD = {"changelist", "add", "history", "delete", "change", "autocomplete"}
VIEWS = [
    (model, pattern.name.rpartition("_")[2], pattern.callback)
    for model in OWN
    for pattern in admin.site._registry[model].urls
    if pattern.name and pattern.name.rpartition("_")[2] not in STANDARD
]


def test_actions_are_found() -> None:
    assert len(ACTIONS) >= 9
    assert {(model._meta.model_name, name) for model, name, _ in VIEWS} == {
        ("permissionrequest", "answer"),
        ("questionbatch", "answer"),
        ("questionbatch", "dismiss"),
    }


@pytest.mark.parametrize(("model", "name", "view"), VIEWS)
def test_a_view_declares_its_right_and_refuses_wrong_identities(
    model: type[Model], name: str, view: Any, client: Client, everything: Place
) -> None:
    assert view.right in set(Right) - {Right.PUBLIC, Right.SIGNED_IN, Right.READ}
    row = model._default_manager.get()
    where, before = address(model, name, row.pk), Event.objects.count()
    reader = User.objects.create_user("reader", is_staff=True)
    reader.user_permissions.add(*Permission.objects.filter(codename__startswith="view_"))
    for who, status in ((None, 302), (User.objects.create_user("member"), 302), (reader, 403)):
        if who is not None:
            client.force_login(who)
        answer = client.post(where, {"answer": "allow"})
        assert answer.status_code == status
    client.force_login(User.objects.create_superuser("boss"))
    assert client.get(where).status_code == 405
    assert Event.objects.count() == before


@pytest.mark.parametrize(("model", "name", "view"), VIEWS)
async def test_a_view_refuses_tools(
    model: type[Model], name: str, view: Any, transactional_db: None
) -> None:
    assert (await by_a_tool(address(model, name, "1"), {})).status_code == 403


def press(client: Any, model: type[Model], name: str) -> Any:
    keys = list(model._default_manager.values_list("pk", flat=True))
    return client.post(address(model, "changelist"), {"action": name, "_selected_action": keys})


@pytest.mark.parametrize(("model", "name"), ACTIONS)
def test_an_action_declares_its_right(model: type[Model], name: str) -> None:
    action = getattr(type(admin.site._registry[model]), name)
    assert action.right in set(Right) - {Right.PUBLIC, Right.SIGNED_IN}
    # Who may see rows may export them; everything else needs the permission to change them.
    assert action.allowed_permissions == (["view"] if action.right is Right.READ else ["act"])


@pytest.mark.parametrize(("model", "name"), ACTIONS)
def test_an_action_refuses_wrong_identities(
    model: type[Model], name: str, everything: Place
) -> None:
    before, acts = Event.objects.count(), AuditEntry.objects.count()
    for who, browser in wrong_browsers(everything).items():
        answer = press(browser, model, name)
        # For a reader the list opens again, without the action.
        allowed = {200, 302} if who == "a reader" else {302}
        assert answer.status_code in allowed, who
        assert Event.objects.count() == before, who
        assert AuditEntry.objects.exclude(act="sign in").count() == acts, who


def wrong_browsers(place: Place) -> dict[str, Client]:
    """Those who may not press a button."""
    reader = User.objects.create_user("reader", is_staff=True)
    reader.user_permissions.add(*Permission.objects.filter(codename__startswith="view_"))
    boss = User.objects.create_superuser("boss")
    found = {
        "no credential": Client(),
        "a token": Client(headers={"Authorization": f"Bearer {token_of(boss)}"}),
        "a reader": browser_of(reader),
        "an ended session": browser_of(boss),
        "an expired session": browser_of(boss),
        "a disabled user": browser_of(User.objects.create_superuser("gone")),
    }
    for role in MemberRole:
        member = User.objects.create_user(role.value)
        Member.objects.create(user=member, workspace_id=place.workspace_id, role=role.value)
        found[role.value] = browser_of(member)
    found["an ended session"].session.delete()
    key = found["an expired session"].session.session_key
    Session.objects.filter(session_key=key).update(expire_date=timezone.now() - timedelta(1))
    User.objects.filter(username="gone").update(is_active=False)
    return found


def browser_of(user: User) -> Client:
    browser = Client()
    browser.force_login(user)
    return browser


def token_of(user: User) -> str:
    create = partial(create_token, user=user, name="t", created_by=user)
    return writer.write_and_wait("", create).text


async def yes() -> bool:
    return True


class ToolsHandler(AsyncClientHandler):
    async def __call__(self, scope: Any) -> Any:
        return await super().__call__(scope | {CALLER: Caller(is_tool=yes)})


async def by_a_tool(where: str, fields: dict[str, Any]) -> Any:
    """What a tool gets that has the session of a superuser."""
    boss = await User.objects.acreate(username="boss", is_staff=True, is_superuser=True)
    client = AsyncClient()
    client.handler = ToolsHandler()
    await client.aforce_login(boss)
    return await client.post(where, fields)


@pytest.mark.parametrize(("model", "name"), ACTIONS)
async def test_an_action_refuses_tools(
    model: type[Model], name: str, transactional_db: None
) -> None:
    fields = {"action": name, "_selected_action": ["1"]}
    answer = await by_a_tool(address(model, "changelist"), fields)
    assert answer.status_code == 403
    assert b"A person must do this" in answer.content
