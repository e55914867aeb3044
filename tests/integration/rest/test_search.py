"""The search by its resource: only what the caller may read, and never a fault."""

from typing import Any
from urllib.parse import quote

import pytest

from tests.integration.api.client import Api
from tests.integration.api.conftest import Opened
from workspaces.access import EVERYWHERE, Caller, Identity, IdentityKind, MemberRole
from workspaces.actions.messages import create_message
from workspaces.log.parts import Role, Text
from workspaces.log.writer import writer


async def store(workspace: Opened, *texts: str) -> str:
    session_id = await workspace.session("about apples")
    for text in texts:
        await writer.write(
            workspace.id,
            lambda tx, text=text: create_message(  # type: ignore[misc]
                tx, workspace.id, session_id, role=Role.USER, parts=(Text(text),)
            ),
        )
    return session_id


async def search(rest: Api, query: str) -> Any:
    return await rest.get(f"/api/search?{query}")


def as_user(roles: dict[str, MemberRole]) -> Caller:
    return Caller(Identity(IdentityKind.USER, "ada", user_id=7, roles=roles))


async def test_titles_and_texts_are_found_in_pages(rest: Api, workspace: Opened) -> None:
    session_id = await store(workspace, "red apples", "green apples", "pears")
    page = await search(rest, "q=apples&limit=1")
    assert [item["kind"] for item in page["items"]] == ["session", "message"]
    title, message = page["items"]
    assert title["message_id"] is None
    assert (message["session_id"], message["role"]) == (session_id, "user")
    assert message["snippet"] == "green apples"
    assert message["highlights"] == [[6, 12]]
    assert page["is_complete"] is True
    rest_of_them = await search(rest, f"q=apples&limit=1&cursor={page['next']}")
    assert [item["snippet"] for item in rest_of_them["items"]] == ["red apples"]
    assert rest_of_them["next"] is None


async def test_only_visible_workspaces_are_searched(rest: Api, workspace: Opened) -> None:
    session_id = await store(workspace, "secret apples")
    for roles, count in (
        ({workspace.id: MemberRole.VIEWER}, 2),
        ({EVERYWHERE: MemberRole.VIEWER}, 2),
        ({"another": MemberRole.ADMIN}, 0),
        ({}, 0),
    ):
        rest.caller = as_user(roles)
        assert len((await search(rest, "q=apples"))["items"]) == count
        narrow = await search(rest, f"q=apples&workspace={workspace.id}")
        assert len(narrow["items"]) == count
        narrow = await search(rest, f"q=apples&session={session_id}")
        assert len(narrow["items"]) == min(count, 1)


@pytest.mark.parametrize(
    "query",
    ['"', "'", "AND", "((((", "apples*", "%", "\\", "*", "NEAR(a b)", "x:y", "-", "💥", "x" * 1000],
)
async def test_a_hostile_query_finds_nothing_and_is_no_fault(
    rest: Api, workspace: Opened, query: str
) -> None:
    await store(workspace, "red pears")
    page = await search(rest, f"q={quote(query)}")
    assert page["items"] == [] or "apples" in query


@pytest.mark.parametrize(
    "query",
    [
        "",
        "q=",
        "q=%00",
        "q=a%00b",
        f"q={'x' * 1001}",
        "q=a&cursor=x",
        "q=a&cursor=1e5",
        f"q=a&cursor={'9' * 25}",
        "q=a&cursor=%C2%B2",
        "q=a&limit=0",
        f"q=a&workspace={'x' * 99}",
    ],
)
async def test_a_wrong_query_is_refused(rest: Api, workspace: Opened, query: str) -> None:
    answer = await rest.call("GET", f"/api/search?{query}")
    assert (answer.status, answer.json["code"]) == (400, "bad_field")
    assert workspace.id
