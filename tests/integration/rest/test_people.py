"""Users, members, tokens, login links and the audit over the native interface."""

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import unquote

import pytest
import pytest_asyncio
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, User
from django.test import override_settings

from people.actions.login_links import is_valid
from people.identities import IDENTITIES, ensure_owner
from people.models import GroupRole, Token
from tests.integration.api.client import Answer, Api
from tests.integration.api.conftest import Opened
from workspaces.access import (
    EVERYWHERE,
    Caller,
    Identity,
    IdentityKind,
    MemberRole,
    Right,
)
from workspaces.log.reader import read
from workspaces.log.writer import writer

NOBODY = "/api/users/999999"


async def on_database(work: Any) -> Any:
    return await writer.write("", lambda _: work())


def identity(user: User, **more: Any) -> Identity:
    return Identity(IdentityKind.USER, user.username, user.pk, is_staff=user.is_staff, **more)


@pytest_asyncio.fixture
async def owner(rest: Api) -> AsyncIterator[User]:
    """The caller of these tests."""
    user = await on_database(ensure_owner)
    rest.caller = Caller(identity(user), address="192.0.2.7")
    yield user
    await on_database(get_user_model().objects.all().delete)
    await on_database(Group.objects.all().delete)


async def send(rest: Api, method: str, path: str, body: Any = None) -> Answer:
    return await rest.call(method, path, body)


async def add(rest: Api, name: str, **more: Any) -> dict[str, Any]:
    answer = await send(rest, "POST", "/api/users", {"name": name, **more})
    assert answer.status == 201, answer
    found: dict[str, Any] = answer.json
    return found


async def acting(rest: Api, made: dict[str, Any], **more: Any) -> None:
    user = await read(lambda: get_user_model().objects.get(pk=made["id"]))
    rest.caller = Caller(identity(user, **more))


async def acts(rest: Api, query: str = "") -> list[tuple[str, str, str]]:
    found = await rest.get(f"/api/audit{query}")
    return [(e["act"], e["target"], e["outcome"]) for e in reversed(found["items"])]


async def test_a_user_is_added_changed_and_kept_out(rest: Api, owner: User) -> None:
    await on_database(lambda: Group.objects.create(name="crew"))
    ann = await add(
        rest, "ann", email="ann@example.com", password="a long phrase 7", groups=["crew"]
    )
    assert ann == {
        "id": ann["id"],
        "name": "ann",
        "email": "ann@example.com",
        "is_staff": False,
        "is_active": True,
        "is_owner": False,
        "has_password": True,
        "groups": ["crew"],
        "roles": [],
    }
    assert not (await add(rest, "bob"))["has_password"]
    changed = await send(
        rest, "PATCH", f"/api/users/{ann['id']}", {"is_active": False, "groups": []}
    )
    assert (changed.status, changed.json["is_active"], changed.json["groups"]) == (200, False, [])
    assert changed.json["email"] == "ann@example.com"
    names = [user["name"] for user in (await rest.get("/api/users"))["items"]]
    assert names == ["ann", "bob", "owner"]
    assert await acts(rest) == [
        ("add user", "ann", "done"),
        ("add user", "bob", "done"),
        ("change user", "ann", "disabled"),
    ]
    assert "long phrase" not in (await send(rest, "GET", "/api/audit")).body.decode()


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "name"),
        ({"name": "a b"}, "name"),
        ({"name": "x" * 151}, "name"),
        ({"name": "ann", "password": "short"}, "password"),
        ({"name": "ann", "email": "no address"}, "email"),
        ({"name": "ann", "groups": ["unknown"]}, "groups"),
    ],
)
async def test_a_wrong_user_is_400(rest: Api, owner: User, body: Any, field: str) -> None:
    answer = await send(rest, "POST", "/api/users", body)
    assert answer.status == 400
    assert answer.json["errors"][0]["field"].startswith(field)


async def test_names_are_unique_and_the_owner_stays(rest: Api, owner: User) -> None:
    await add(rest, "ann")
    assert (await send(rest, "POST", "/api/users", {"name": "ANN"})).status == 409
    assert (await send(rest, "GET", NOBODY)).json["code"] == "user_unknown"
    for change in ({"is_active": False}, {"is_staff": False}):
        answer = await send(rest, "PATCH", f"/api/users/{owner.pk}", change)
        assert (answer.status, answer.json["code"]) == (409, "owner_needed")


async def test_only_staff_makes_staff(rest: Api, owner: User) -> None:
    ann = await add(rest, "ann")
    await acting(rest, ann, roles={EVERYWHERE: MemberRole.ADMIN})
    assert (await send(rest, "POST", "/api/users", {"name": "x", "is_staff": True})).status == 403
    staff = {"is_staff": True}
    assert (await send(rest, "PATCH", f"/api/users/{ann['id']}", staff)).status == 403
    password = {"password": "a long phrase 8"}
    assert (await send(rest, "PATCH", f"/api/users/{owner.pk}", password)).status == 403
    assert (await send(rest, "POST", "/api/users", {"name": "x"})).status == 201
    link = {"user_id": owner.pk}
    assert (await send(rest, "POST", "/api/login-links", link)).status == 403


async def test_a_limited_token_cannot_widen_itself(rest: Api, owner: User) -> None:
    rest.caller = Caller(
        identity(owner, scopes=frozenset({Right.ADMINISTER, Right.ACCOUNT, Right.READ}))
    )
    group = {"group": "crew", "workspace_id": None, "role": "admin"}
    for path, body in (
        ("/api/users", {"name": "x"}),
        ("/api/login-links", {}),
        ("/api/group-roles", group),
        ("/api/groups", {"name": "crew"}),
        ("/api/tokens", {"name": "x"}),
        ("/api/tokens", {"name": "x", "scopes": ["shell"]}),
    ):
        assert (await send(rest, "POST", path, body)).status == 403, (path, body)
    made = await send(rest, "POST", "/api/tokens", {"name": "x", "scopes": ["read"]})
    assert made.status == 201


async def test_members_get_and_lose_their_role(rest: Api, workspace: Opened, owner: User) -> None:
    path = f"/api/workspaces/{workspace.id}/members"
    ann = await add(rest, "ann")
    for role in ("viewer", "admin"):
        answer = await send(rest, "POST", path, {"name": "ann", "role": role})
        assert (answer.status, answer.json["role"]) == (201, role)
    (member,) = (await rest.get(path))["items"]
    assert (member["user_id"], member["name"], member["role"]) == (ann["id"], "ann", "admin")
    roles = (await rest.get(f"/api/users/{ann['id']}"))["roles"]
    assert roles == [{"workspace_id": workspace.id, "role": "admin"}]
    await acting(rest, ann, roles={workspace.id: MemberRole.ADMIN})
    assert (await send(rest, "DELETE", f"{path}/{ann['id']}")).status == 204
    assert (await send(rest, "DELETE", f"{path}/{ann['id']}")).status == 404
    assert (await send(rest, "DELETE", f"{path}/{2**70}")).status == 404  # no row can have it
    assert (await send(rest, "POST", path, {"name": "x", "role": "admin"})).status == 404
    assert (await send(rest, "POST", path, {"name": "ann", "role": "king"})).status == 400
    own = await rest.get(f"/api/workspaces/{workspace.id}/audit?act=set%20role")
    assert [entry["outcome"] for entry in own["items"]] == ["none", "admin", "viewer"]


async def test_groups_have_roles(rest: Api, workspace: Opened, owner: User) -> None:
    path = "/api/group-roles"
    for where, role in ((workspace.id, "viewer"), (None, "viewer"), (None, "prompter")):
        body = {"group": "crew", "workspace_id": where, "role": role}
        assert (await send(rest, "POST", path, body)).status == 201
    found = (await rest.get(path))["items"]
    assert [(f["group"], f["workspace_id"], f["role"]) for f in found] == [
        ("crew", workspace.id, "viewer"),
        ("crew", None, "prompter"),
    ]
    ann = await add(rest, "ann", groups=["crew"])
    assert ann["roles"] == [
        {"workspace_id": None, "role": "prompter"},
        {"workspace_id": workspace.id, "role": "viewer"},
    ]
    assert (await send(rest, "DELETE", f"{path}/{found[0]['id']}")).status == 204
    assert (await send(rest, "DELETE", f"{path}/{found[0]['id']}")).status == 404
    assert await read(GroupRole.objects.count) == 1
    unknown = {"group": "crew", "workspace_id": "unknown", "role": "viewer"}
    assert (await send(rest, "POST", path, unknown)).status == 400


async def test_groups_are_added_and_deleted_with_their_roles(
    rest: Api, workspace: Opened, owner: User
) -> None:
    made = await send(rest, "POST", "/api/groups", {"name": "crew"})
    assert (made.status, made.json["name"], made.json["user_count"]) == (201, "crew", 0)
    again = await send(rest, "POST", "/api/groups", {"name": "crew"})
    assert (again.status, again.json["code"]) == (409, "group_taken")
    assert (await send(rest, "POST", "/api/groups", {"name": " "})).status == 400
    for where in (workspace.id, None):
        role = {"group": "crew", "workspace_id": where, "role": "approver"}
        assert (await send(rest, "POST", "/api/group-roles", role)).status == 201
    other = {"group": "others", "workspace_id": None, "role": "viewer"}
    assert (await send(rest, "POST", "/api/group-roles", other)).status == 201
    ann = await add(rest, "ann", groups=["crew"])
    groups = (await rest.get("/api/groups"))["items"]
    assert [(each["name"], each["user_count"]) for each in groups] == [("crew", 1), ("others", 0)]

    await acting(rest, ann, roles={workspace.id: MemberRole.APPROVER})
    here = (await rest.get(f"/api/workspaces/{workspace.id}/group-roles"))["items"]
    assert [(each["group"], each["workspace_id"]) for each in here] == [
        ("crew", workspace.id),
        ("crew", None),
        ("others", None),
    ]
    assert (await send(rest, "GET", "/api/groups")).status == 403
    rest.caller = Caller(identity(owner), address="192.0.2.7")

    path = f"/api/groups/{groups[0]['id']}"
    assert (await send(rest, "DELETE", path)).status == 204
    assert (await send(rest, "DELETE", path)).json["code"] == "group_unknown"
    left = await rest.get(f"/api/users/{ann['id']}")
    assert (left["groups"], left["roles"]) == ([], [])
    assert [each["group"] for each in (await rest.get("/api/group-roles"))["items"]] == ["others"]
    assert (await acts(rest, "?act=delete%20group")) == [("delete group", "crew", "done")]


async def test_a_token_is_shown_once_works_and_is_revoked(
    rest: Api, workspace: Opened, owner: User
) -> None:
    body = {"name": "laptop", "scopes": ["read"], "workspaces": [workspace.id]}
    made = await send(rest, "POST", "/api/tokens", body | {"expires_at": 4_000_000_000})
    assert made.status == 201
    text, token_id = made.json["token"], made.json["id"]
    found = (await IDENTITIES.of_token(text)).identity
    assert (found.scopes, found.workspaces) == ({Right.READ}, {workspace.id})
    (listed,) = (await rest.get("/api/tokens"))["items"]
    assert listed == {k: v for k, v in made.json.items() if k != "token"} | {
        "last_used_at": listed["last_used_at"]
    }
    assert (listed["expires_at"], listed["revoked_at"]) == (4_000_000_000, None)
    assert (await send(rest, "DELETE", f"/api/tokens/{token_id}")).status == 204
    assert not (await IDENTITIES.of_token(text)).identity.may(Right.SIGNED_IN)
    assert (await rest.get(f"/api/tokens/{token_id}"))["revoked_at"] is not None
    assert text not in (await send(rest, "GET", "/api/audit")).body.decode()


async def test_null_is_the_same_as_no_limit(rest: Api, owner: User) -> None:
    body = {"name": "everywhere", "scopes": None, "workspaces": None, "expires_at": None}
    made = await send(rest, "POST", "/api/tokens", body)
    assert made.status == 201, made
    assert [made.json[name] for name in body if name != "name"] == [None, None, None]
    found = (await IDENTITIES.of_token(made.json["token"])).identity
    assert (found.scopes, found.workspaces) == (None, None)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": ""},
        {"name": "x", "scopes": []},
        {"name": "x", "workspaces": []},
        {"name": "x", "scopes": ["public"]},
        {"name": "x", "workspaces": ["unknown"]},
        {"name": "x", "expires_at": 1},
        {"name": "x", "expires_at": 10**18},
        {"name": "x\0"},
    ],
)
async def test_a_wrong_token_is_400(rest: Api, owner: User, body: Any) -> None:
    assert (await send(rest, "POST", "/api/tokens", body)).status == 400
    assert await read(Token.objects.count) == 0


async def test_tokens_of_others_are_for_staff(rest: Api, owner: User) -> None:
    ann = await add(rest, "ann")
    mine = (await send(rest, "POST", "/api/tokens", {"name": "mine"})).json
    others = {"name": "hers", "user_id": int(ann["id"])}
    hers = (await send(rest, "POST", "/api/tokens", others)).json
    assert (hers["user"], hers["created_by"]) == ("ann", str(owner.pk))
    assert len((await rest.get("/api/tokens?everyone=true"))["items"]) == 2
    await acting(rest, ann)
    assert [t["name"] for t in (await rest.get("/api/tokens"))["items"]] == ["hers"]
    for query in ("everyone=true", f"user_id={owner.pk}"):
        assert (await send(rest, "GET", f"/api/tokens?{query}")).status == 403
    for method in ("GET", "DELETE"):
        assert (await send(rest, method, f"/api/tokens/{mine['id']}")).status == 404
    assert (await send(rest, "POST", "/api/tokens", others | {"user_id": owner.pk})).status == 403


async def test_a_login_link_is_made(rest: Api, owner: User) -> None:
    link = await send(rest, "POST", "/api/login-links", {})
    assert link.status == 201
    secret = link.json["path"].rpartition("key=")[2]
    assert await read(is_valid, secret)
    assert (link.json["user_id"], link.json["url"]) == (str(owner.pk), None)
    assert await acts(rest) == [("create login link", "owner", "done")]


async def test_a_login_link_for_a_phone_is_a_picture(rest: Api, owner: User) -> None:
    with override_settings(CRUSH_PUBLIC_URL="https://crush.example.com"):
        link = (await send(rest, "POST", "/api/login-links", {})).json
    assert link["url"] == f"https://crush.example.com{link['path']}"
    kind, _, picture = link["qr"].partition(",")
    assert kind.startswith("data:image/svg+xml")
    assert unquote(picture).startswith("<svg")


async def test_who_one_is(rest: Api, workspace: Opened, owner: User) -> None:
    me = await rest.get("/api/me")
    assert (me["kind"], me["name"], me["is_staff"], me["scopes"]) == ("user", "owner", True, None)
    ann = await add(rest, "ann")
    limits = {"scopes": frozenset({Right.READ}), "workspaces": frozenset({workspace.id})}
    await acting(rest, ann, roles={workspace.id: MemberRole.VIEWER}, token_id="t", **limits)
    assert await rest.get("/api/me") == {
        "kind": "user",
        "name": "ann",
        "user_id": ann["id"],
        "is_staff": False,
        "roles": [{"workspace_id": workspace.id, "role": "viewer"}],
        "can": [],
        "token_id": "t",
        "scopes": ["read"],
        "workspaces": [workspace.id],
    }


async def test_the_audit_is_filtered_and_comes_in_pages(rest: Api, owner: User) -> None:
    for number in range(5):
        await add(rest, f"user-{number}")
    first = await rest.get("/api/audit?limit=2")
    second = await rest.get(f"/api/audit?limit=2&cursor={first['next']}")
    found = [entry["target"] for entry in first["items"] + second["items"]]
    assert found == ["user-4", "user-3", "user-2", "user-1"]
    entry = first["items"][0]
    assert entry["actor"]["user_id"] == str(owner.pk)
    assert entry["address"] == "192.0.2.7"
    assert entry["at"] > 1_700_000_000
    assert await acts(rest, "?act=set%20role") == []
    assert await acts(rest, f"?until={entry['at'] - 100}") == []
    assert len(await acts(rest, f"?since={entry['at'] - 100}&user_id={owner.pk}")) == 5
    for query in ("act=unknown", "since=x", f"until={10**20}", "user_id=x", "cursor=x"):
        assert (await send(rest, "GET", f"/api/audit?{query}")).status == 400, query
