"""Sessions, their children, messages and files."""

import re
import uuid

from tests.integration.api.conftest import Opened
from workspaces.actions.files import record_change
from workspaces.actions.messages import create_message, start_message
from workspaces.actions.sessions import create_session
from workspaces.log.parts import Finish, FinishReason, Role, Text
from workspaces.log.rows import without_empty
from workspaces.log.transaction import Transaction
from workspaces.log.writer import writer
from workspaces.models import Session

STOP = Finish(FinishReason.STOP)


async def say(workspace: Opened, session_id: str, text: str, role: Role = Role.USER) -> str:
    parts = (Text(text), STOP)
    message = await writer.write(
        workspace.id,
        lambda tx: create_message(tx, workspace.id, session_id, role=role, parts=parts),
    )
    return str(message["id"])


async def test_the_author_of_a_message_is_for_native_clients_only(workspace: Opened) -> None:
    ann = {"kind": "user", "name": "ann", "user_id": "7"}
    session_id = await workspace.session()
    await writer.write(
        workspace.id,
        lambda tx: create_message(
            tx, workspace.id, session_id, role=Role.USER, parts=(Text("go"), STOP), author=ann
        ),
    )

    native = await workspace.api.get(
        f"/api/workspaces/{workspace.id}/snapshot?session={session_id}"
    )
    assert [message["author"] for message in native["messages"]] == [ann]
    for url in (
        f"{workspace.url}/sessions/{session_id}/messages",
        f"{workspace.url}/sessions/{session_id}/messages/user",
        f"{workspace.url}/messages/user",
    ):
        (message,) = await workspace.api.get(url)
        assert "author" not in message


async def test_a_title_is_all_that_is_taken_of_a_new_session(workspace: Opened) -> None:
    stale = {"title": "New Session", "id": "mine", "cost": 5, "message_count": 7, "created_at": 0}
    made = await workspace.api.post(f"{workspace.url}/sessions", stale)
    assert made["title"] == "New Session"
    assert (made["cost"], made["message_count"]) == (0, 0)
    assert made["id"] != "mine"
    assert made["created_at"] > 0


async def test_a_new_session_is_stored_as_its_model_would_store_it(workspace: Opened) -> None:
    session_id = await workspace.session("new")

    def store(_: Transaction) -> tuple[dict[str, object], dict[str, object]]:
        other = Session.objects.create(workspace_id=workspace.id, title="new")
        stored, expected = (Session.objects.filter(pk=pk).values() for pk in (session_id, other.pk))
        return stored.get(), expected.get()

    stored, expected = await writer.write(workspace.id, store)
    own = ("id", "created_at", "updated_at")
    assert {n: v for n, v in stored.items() if n not in own} == {
        n: v for n, v in expected.items() if n not in own
    }


async def test_a_title_is_all_that_is_taken_of_a_stale_copy(workspace: Opened) -> None:
    session_id = await workspace.session("before")
    url = f"{workspace.url}/sessions/{session_id}"
    await say(workspace, session_id, "hello")
    answer = await workspace.api.call(
        "PUT", url, {"title": "after", "message_count": 0, "cost": 9, "id": "other"}
    )
    assert answer.json == await workspace.api.get(url)
    assert (answer.json["title"], answer.json["message_count"]) == ("after", 1)
    assert (answer.json["cost"], answer.json["id"]) == (0, session_id)


async def test_sessions_are_listed_newest_first_without_children(workspace: Opened) -> None:
    first, second = await workspace.session("first"), await workspace.session("second")
    child = f"{uuid.uuid4()}$$call/1"
    await writer.write(
        workspace.id,
        lambda tx: create_session(
            tx, workspace.id, title="child", session_id=child, parent_session_id=first
        ),
    )
    await writer.write(
        workspace.id,
        lambda tx: tx.execute(
            "UPDATE workspaces_session SET updated_at = %s WHERE id = %s", [tx.now + 5000, first]
        ),
    )
    listed = await workspace.api.get(f"{workspace.url}/sessions")
    assert [session["id"] for session in listed] == [first, second]
    (found,) = await workspace.api.get(f"{workspace.url}/sessions/{first}/children")
    assert (found["id"], found["parent_session_id"]) == (child, first)
    # Ids are opaque: a slash in one must not divide the address.
    escaped = child.replace("/", "%2F").replace("$", "%24")
    assert await workspace.api.get(f"{workspace.url}/sessions/{escaped}") == found
    assert await workspace.api.get(f"{workspace.url}/sessions/{escaped}/messages") == []


async def test_a_deleted_session_is_gone(workspace: Opened) -> None:
    session_id = await workspace.session()
    await say(workspace, session_id, "hello")
    url = f"{workspace.url}/sessions/{session_id}"
    assert (await workspace.api.call("DELETE", url)).status == 200
    assert (await workspace.api.call("GET", url)).status == 404
    assert (await workspace.api.call("DELETE", url)).status == 404
    assert await workspace.api.get(f"{workspace.url}/messages/user") == []


async def test_messages_come_in_order_with_their_parts(workspace: Opened) -> None:
    session_id = await workspace.session()
    ids = [
        await say(workspace, session_id, "one"),
        await say(workspace, session_id, "two", Role.ASSISTANT),
        await say(workspace, session_id, "three"),
    ]
    messages = await workspace.api.get(f"{workspace.url}/sessions/{session_id}/messages")
    assert [message["id"] for message in messages] == ids
    assert set(messages[0]) == {
        "created_at", "id", "model", "parts", "provider", "role", "session_id", "updated_at",
    }  # fmt: skip
    assert messages[0]["parts"] == [
        {"type": "text", "data": {"text": "one"}},
        {"type": "finish", "data": {"reason": "stop", "time": 0}},
    ]
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]


async def test_what_was_prompted_comes_newest_first(workspace: Opened) -> None:
    one, other = await workspace.session(), await workspace.session()
    first = await say(workspace, one, "first")
    await say(workspace, one, "an answer", Role.ASSISTANT)
    second = await say(workspace, one, "second")
    third = await say(workspace, other, "third")
    url = f"{workspace.url}/sessions/{one}/messages/user"
    assert [message["id"] for message in await workspace.api.get(url)] == [second, first]
    prompted = await workspace.api.get(f"{workspace.url}/messages/user")
    assert [message["id"] for message in prompted] == [third, second, first]


async def test_the_history_of_a_file_begins_with_what_was_there(workspace: Opened) -> None:
    session_id = await workspace.session()
    await writer.write(
        workspace.id,
        lambda tx: record_change(
            tx, workspace.id, session_id, path="/a.txt", before="old", after="new"
        ),
    )
    history = await workspace.api.get(f"{workspace.url}/sessions/{session_id}/history")
    assert set(history[0]) == {
        "Content", "CreatedAt", "ID", "Path", "SessionID", "UpdatedAt", "Version",
    }  # fmt: skip
    assert [(v["Path"], v["Version"], v["Content"]) for v in history] == [
        ("/a.txt", 0, "old"),
        ("/a.txt", 1, "new"),
    ]
    assert {version["SessionID"] for version in history} == {session_id}


async def test_a_file_that_a_client_read_is_known(workspace: Opened) -> None:
    session_id = await workspace.session()
    file = workspace.path / "a.txt"
    file.write_text("hello")
    (workspace.path / "link").symlink_to(file)
    last = f"{workspace.url}/filetracker/lastread?session_id={session_id}&path="
    assert await workspace.api.get(f"{last}{file}") == "0001-01-01T00:00:00Z"
    read = {"session_id": session_id, "path": "link"}
    answer = await workspace.api.call("POST", f"{workspace.url}/filetracker/read", read)
    assert (answer.status, answer.content_type, answer.body) == (200, "", b"")
    files = f"{workspace.url}/sessions/{session_id}/filetracker/files"
    assert await workspace.api.get(files) == [str(file)]
    for spelling in (str(file), "a.txt", "./a.txt"):
        moment = await workspace.api.get(f"{last}{spelling}")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", moment)
        assert not moment.startswith("0001")


async def test_a_file_is_read_for_a_session_that_exists(workspace: Opened) -> None:
    (workspace.path / "a.txt").touch()
    read = {"session_id": "nope", "path": "a.txt"}
    answer = await workspace.api.call("POST", f"{workspace.url}/filetracker/read", read)
    assert (answer.status, answer.message) == (404, "session not found")


async def test_a_snapshot_has_the_number_that_it_is_true_at(workspace: Opened) -> None:
    one, other = await workspace.session("one"), await workspace.session("other")
    message_id = await say(workspace, one, "hello")
    number, _ = await writer.write(
        workspace.id,
        lambda tx: start_message(tx, workspace.id, one, run_key=1, model="m", provider="p"),
    )
    url = f"/api/workspaces/{workspace.id}/snapshot"
    snapshot = await workspace.api.get(url)
    assert {"messages"}.isdisjoint(snapshot)  # of a session that is named alone
    assert snapshot["number"] == number
    assert snapshot["workspace"] == {
        "id": workspace.id, "path": str(workspace.path), "skip_permissions": False,
            "permission_mode": "normal",
    }  # fmt: skip
    listed = await workspace.api.get(f"{workspace.url}/sessions")
    told = [without_empty(session) for session in listed]
    assert sorted(snapshot["sessions"], key=str) == sorted(told, key=str)
    messages = (await workspace.api.get(f"{url}?session={one}"))["messages"]
    assert messages == await workspace.api.get(f"{workspace.url}/sessions/{one}/messages")
    assert messages[0]["id"] == message_id
    assert (await workspace.api.get(f"{url}?session={other}"))["messages"] == []


async def test_a_snapshot_leaves_nothing_open_behind_it(workspace: Opened) -> None:
    # A transaction that stayed open would show its thread the old state for ever.
    url = f"/api/workspaces/{workspace.id}/snapshot"
    for count in range(1, 13):
        await workspace.session()
        assert len((await workspace.api.get(url))["sessions"]) == count
        assert (await workspace.api.call("GET", f"{url}?session=nope")).status == 404
        assert len(await workspace.api.get(f"{workspace.url}/sessions")) == count
