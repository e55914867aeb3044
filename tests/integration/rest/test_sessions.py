"""Sessions and their messages by the native resources."""

import asyncio
from typing import Any

import pytest
import pytest_asyncio

from agents.runs.accept import Prompt, accept_prompt
from tests.integration.api.client import Api
from tests.integration.api.conftest import Opened
from workspaces.access import Caller, Identity, IdentityKind, MemberRole
from workspaces.actions.messages import create_message
from workspaces.actions.sessions import create_session
from workspaces.log.parts import Role, Text
from workspaces.log.writer import writer
from workspaces.models import Workspace


class Sessions:
    """The resources of one workspace."""

    def __init__(self, rest: Api, workspace: Opened) -> None:
        self.rest, self.workspace = rest, workspace
        self.url = f"/api/workspaces/{workspace.id}/sessions"

    async def ask(self, method: str, path: str = "", body: Any = None, *, status: int = 200) -> Any:
        answer = await self.rest.call(method, self.url + path, body)
        assert answer.status == status, answer
        return answer.json if answer.body else None

    async def refused(self, method: str, path: str, body: Any = None) -> tuple[int, str]:
        answer = await self.rest.call(method, self.url + path, body)
        assert answer.content_type == "application/problem+json"
        return answer.status, answer.json["code"]

    async def add(self, title: str = "t") -> str:
        return str((await self.ask("POST", body={"title": title}, status=201))["id"])

    async def talk(self, session_id: str, *texts: str) -> list[str]:
        """Adds prompts; returns their ids."""
        ids = []
        for text in texts:
            message = await writer.write(
                self.workspace.id,
                lambda tx, text=text: create_message(  # type: ignore[misc]
                    tx, self.workspace.id, session_id, role=Role.USER, parts=(Text(text),)
                ),
            )
            ids.append(message["id"])
        return ids

    async def texts(self, session_id: str, query: str = "") -> list[str]:
        page = await self.ask("GET", f"/{session_id}/messages{query}")
        return [message["parts"][0]["data"]["text"] for message in page["items"]]


@pytest_asyncio.fixture
async def sessions(rest: Api, workspace: Opened) -> Sessions:
    return Sessions(rest, workspace)


async def test_a_session_is_created_renamed_marked_and_deleted(sessions: Sessions) -> None:
    made = await sessions.ask("POST", body={"title": "first"}, status=201)
    path = f"/{made['id']}"
    assert await sessions.ask("GET", path) == made
    changed = await sessions.ask("PATCH", path, {"title": "second", "is_pinned": True})
    assert changed["title"] == "second"
    assert changed["pinned_at"] > 0
    assert changed["archived_at"] == 0
    assert await sessions.ask("PATCH", path, {}) == changed
    assert (await sessions.ask("PATCH", path, {"is_pinned": False}))["pinned_at"] == 0
    await sessions.ask("DELETE", path, status=204)
    assert await sessions.refused("GET", path) == (404, "session_unknown")


async def test_a_list_has_the_newest_first_without_children_and_archived_ones(
    sessions: Sessions,
) -> None:
    first, second, archived = [await sessions.add(title) for title in ("one", "two", "three")]
    await sessions.ask("PATCH", f"/{archived}", {"is_archived": True})
    await sessions.ask("PATCH", f"/{first}", {"is_pinned": True})
    await asyncio.sleep(0.002)  # another millisecond: the list is in the order of changes
    await sessions.ask("PATCH", f"/{first}", {"title": "changed"})
    workspace_id = sessions.workspace.id
    await writer.write(
        workspace_id,
        lambda tx: create_session(tx, workspace_id, title="child", parent_session_id=first),
    )

    async def listed(query: str = "") -> list[str]:
        return [each["id"] for each in (await sessions.ask("GET", query))["items"]]

    assert await listed() == [first, second]
    assert await listed("?archived=only") == [archived]
    assert set(await listed("?archived=all")) == {first, second, archived}
    assert await listed("?pinned=true") == [first]
    page = await sessions.ask("GET", "?limit=1")
    assert [each["id"] for each in page["items"]] == [first]
    assert await listed(f"?limit=1&cursor={page['next']}") == [second]
    assert await sessions.refused("GET", "?archived=maybe") == (400, "bad_field")


async def test_the_tree_has_children_of_children(sessions: Sessions) -> None:
    workspace_id, top = sessions.workspace.id, await sessions.add("top")

    async def below(parent: str, title: str) -> str:
        made = await writer.write(
            workspace_id,
            lambda tx: create_session(tx, workspace_id, title=title, parent_session_id=parent),
        )
        return str(made["id"])

    inner = await below(top, "a")
    await below(top, "b")
    await below(inner, "c")

    def titles(tree: Any) -> Any:
        return tree["title"], [titles(child) for child in tree["children"]]

    tree = await sessions.ask("GET", f"/{top}/tree")
    title, children = titles(tree)
    assert title == "top"
    assert sorted(children) == [("a", [("c", [])]), ("b", [])]
    assert {*tree} - {"children"} == {*(await sessions.ask("GET", f"/{top}"))}


async def test_messages_come_in_pages_in_both_directions(sessions: Sessions) -> None:
    session_id = await sessions.add()
    ids = await sessions.talk(session_id, *(f"m{number}" for number in range(7)))

    assert await sessions.texts(session_id) == [f"m{number}" for number in range(7)]
    page = await sessions.ask("GET", f"/{session_id}/messages?limit=3")
    assert [each["id"] for each in page["items"]] == ids[4:]
    assert (page["has_earlier"], page["has_later"]) == (True, False)
    page = await sessions.ask("GET", f"/{session_id}/messages?limit=3&cursor={page['next']}")
    assert [each["id"] for each in page["items"]] == ids[1:4]
    assert (page["has_earlier"], page["has_later"]) == (True, True)
    page = await sessions.ask("GET", f"/{session_id}/messages?limit=3&cursor={page['next']}")
    assert [each["id"] for each in page["items"]] == ids[:1]
    assert page["next"] is None

    page = await sessions.ask("GET", f"/{session_id}/messages?limit=4&after={ids[0]}")
    assert [each["id"] for each in page["items"]] == ids[1:5]
    page = await sessions.ask("GET", f"/{session_id}/messages?limit=4&cursor={page['next']}")
    assert [each["id"] for each in page["items"]] == ids[5:]
    assert page["next"] is None
    assert await sessions.texts(session_id, f"?before={ids[2]}") == ["m0", "m1"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("?before=nope", (404, "message_unknown")),
        ("?after=nope", (404, "message_unknown")),
        ("?before=a&after=b", (400, "bad_field")),
        ("?limit=0", (400, "bad_field")),
        ("?limit=201", (400, "bad_field")),
        ("?limit=x", (400, "bad_field")),
        ("?cursor=sideways:1", (400, "bad_field")),
        ("?cursor=before:", (400, "bad_field")),
        ("?before=%00", (400, "bad_field")),
        (f"?before={'x' * 300}", (400, "bad_field")),
    ],
)
async def test_a_wrong_page_is_refused(
    sessions: Sessions, query: str, expected: tuple[int, str]
) -> None:
    session_id = await sessions.add()
    assert await sessions.refused("GET", f"/{session_id}/messages{query}") == expected


async def test_the_snapshot_has_the_newest_messages(sessions: Sessions) -> None:
    session_id = await sessions.add()
    ids = await sessions.talk(session_id, *(f"m{number}" for number in range(5)))
    url = f"/api/workspaces/{sessions.workspace.id}/snapshot?session={session_id}"
    api = sessions.workspace.api
    whole = await api.get(url)
    assert [each["id"] for each in whole["messages"]] == ids
    assert whole["has_earlier_messages"] is False
    newest = await api.get(f"{url}&limit=2")
    assert newest["messages"] == whole["messages"][3:]
    assert newest["has_earlier_messages"] is True
    for wrong in ("0", "x", "1001", "9" * 99, "%C2%B2"):
        assert (await api.call("GET", f"{url}&limit={wrong}")).status == 400


async def test_a_fork_a_rewind_and_its_undoing(sessions: Sessions) -> None:
    session_id = await sessions.add("original")
    first, *_ = await sessions.talk(session_id, "one", "two", "three")

    fork = await sessions.ask("POST", f"/{session_id}/forks", {"message_id": first}, status=201)
    assert (fork["title"], fork["forked_from"]) == ("original", session_id)
    assert await sessions.texts(fork["id"]) == ["one"]

    done = await sessions.ask("POST", f"/{session_id}/rewinds", {"message_id": first}, status=201)
    assert (done["state"], done["files"], done["author"]["kind"]) == ("done", [], "owner")
    assert await sessions.texts(session_id) == ["one"]
    (listed,) = (await sessions.ask("GET", f"/{session_id}/rewinds"))["items"]
    assert listed == done | {"can_undo": True}

    undone = await sessions.ask("POST", f"/{session_id}/rewinds/{done['id']}/undo")
    assert undone["state"] == "undone"
    assert await sessions.texts(session_id) == ["one", "two", "three"]
    again = await sessions.refused("POST", f"/{session_id}/rewinds/{done['id']}/undo")
    assert again == (409, "rewind_outdated")
    (listed,) = (await sessions.ask("GET", f"/{session_id}/rewinds"))["items"]
    assert listed == undone | {"can_undo": False}

    await sessions.ask("POST", f"/{session_id}/rewinds", {"message_id": first}, status=201)
    await sessions.talk(session_id, "four")
    listed = (await sessions.ask("GET", f"/{session_id}/rewinds"))["items"]
    assert [each["can_undo"] for each in listed] == [False, False]


async def test_a_busy_session_is_not_rewound(sessions: Sessions) -> None:
    session_id = await sessions.add()
    await writer.write(
        sessions.workspace.id,
        lambda tx: accept_prompt(tx, sessions.workspace.id, Prompt(session_id, "go")),
    )
    refused = await sessions.refused("POST", f"/{session_id}/rewinds", {})
    assert refused == (409, "session_busy")


@pytest.mark.parametrize("name", ["nope", "%00", "x" * 300, "%F0%9F%92%A9"])
async def test_an_unknown_session_is_404_everywhere(sessions: Sessions, name: str) -> None:
    for method, path, body in (
        ("GET", "", None),
        ("PATCH", "", {"title": "x"}),
        ("DELETE", "", None),
        ("GET", "/tree", None),
        ("GET", "/messages", None),
        ("GET", "/rewinds", None),
        ("POST", "/rewinds", {}),
        ("POST", "/rewinds/x/undo", None),
        ("POST", "/forks", {}),
    ):
        status, code = await sessions.refused(method, f"/{name}{path}", body)
        assert (status, code) in {(404, "session_unknown"), (404, "not_found")}


async def test_wrong_bodies_are_refused(sessions: Sessions) -> None:
    session_id = await sessions.add()
    for method, path, body in (
        ("POST", "", {"title": "x" * 501}),
        ("POST", "", {"title": "a\0b"}),
        ("POST", "", []),
        ("PATCH", f"/{session_id}", {"is_pinned": "often"}),
        ("POST", f"/{session_id}/forks", {"message_id": ["x"]}),
        ("POST", f"/{session_id}/rewinds", {"with_files": "sometimes"}),
    ):
        status, _ = await sessions.refused(method, path, body)
        assert status == 400


async def test_sessions_of_all_workspaces_are_listed_also_of_closed_ones(
    rest: Api, sessions: Sessions, workspace: Opened
) -> None:
    first, second = await sessions.add("one"), await sessions.add("two")
    await asyncio.to_thread(lambda: Workspace.objects.update(is_open=False))
    listed = (await rest.get("/api/sessions"))["items"]
    assert {each["id"] for each in listed} == {first, second}
    assert listed[0]["path"] == str(workspace.path)
    assert (listed[0]["workspace_id"], listed[0]["is_workspace_open"]) == (workspace.id, False)
    (found,) = (await rest.get(f"/api/sessions?id={first[:9]}"))["items"]
    assert found["title"] == "one"
    assert (await rest.get("/api/sessions?path=/elsewhere"))["items"] == []
    assert (await rest.get("/api/sessions?id=%25"))["items"] == []
    page = await rest.get("/api/sessions?limit=1")
    (other,) = (await rest.get(f"/api/sessions?limit=1&cursor={page['next']}"))["items"]
    assert {page["items"][0]["id"], other["id"]} == {first, second}
    rest.caller = Caller(Identity(IdentityKind.USER, "ann", 7, roles={"other": MemberRole.ADMIN}))
    assert (await rest.get("/api/sessions"))["items"] == []


async def test_closed_workspaces_are_listed_on_request(rest: Api, workspace: Opened) -> None:
    assert (await rest.get("/api/workspaces?state=closed"))["items"] == []
    await asyncio.to_thread(lambda: Workspace.objects.update(is_open=False))
    assert (await rest.get("/api/workspaces"))["items"] == []
    for state in ("closed", "all"):
        (found,) = (await rest.get(f"/api/workspaces?state={state}"))["items"]
        assert (found["id"], found["is_open"]) == (workspace.id, False)


async def test_a_session_of_a_closed_workspace_is_cancelled_and_stays_closed(
    rest: Api, sessions: Sessions, workspace: Opened
) -> None:
    session_id = await sessions.add()
    prompt = Prompt(session_id, "hi", "r1")
    await writer.write(workspace.id, lambda tx: accept_prompt(tx, workspace.id, prompt))
    await asyncio.to_thread(lambda: Workspace.objects.update(is_open=False))
    await sessions.ask("POST", f"/{session_id}/cancel", status=204)
    (run,) = (await rest.get(f"/api/workspaces/{workspace.id}/runs"))["items"]
    assert run["outcome"] == "cancelled"
    assert not await asyncio.to_thread(lambda: Workspace.objects.get().is_open)
    assert await sessions.refused("POST", "/unknown/cancel") == (404, "session_unknown")
