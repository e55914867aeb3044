"""Opening, sharing, leaving and returning to a workspace."""

import os
import uuid
from pathlib import Path

import pytest

from agents.config.cache import configs
from tests.integration.api.client import Api
from tests.integration.api.conftest import Opened
from workspaces.actions.claims import attach_stream
from workspaces.log.reader import read
from workspaces.log.writer import writer
from workspaces.models import Workspace


def new_client() -> str:
    return str(uuid.uuid4())


async def open_path(api: Api, path: Path | str, **more: object) -> dict[str, object]:
    body = {"path": str(path), "client_id": new_client(), **more}
    return dict(await api.post("/v1/workspaces", body))


async def test_the_same_path_is_the_same_workspace(
    workspace: Opened, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(folder)
    spellings = [folder, f"{folder}/", f"{folder}/../project/.", tmp_path / "link"]
    ids = {(await open_path(workspace.api, path))["id"] for path in spellings}
    assert ids == {workspace.id}


async def test_the_first_creators_flags_stand(workspace: Opened, folder: Path) -> None:
    await open_path(workspace.api, folder, yolo=True, data_dir="/elsewhere")
    assert await workspace.api.get(f"{workspace.url}/permissions/skip") == {"skip": False}
    assert await workspace.api.get(workspace.url) == workspace.answer


async def test_yolo_asks_nothing(api: Api, folder: Path) -> None:
    opened = await open_path(api, folder, yolo=True)
    url = f"/v1/workspaces/{opened['id']}/permissions/skip"
    assert await api.get(url) == {"skip": True}
    await api.post(url, {"skip": False})
    assert await api.get(url) == {"skip": False}


async def test_a_data_directory_may_be_chosen(api: Api, folder: Path) -> None:
    opened = await open_path(api, folder, data_dir="state")
    assert opened["data_dir"] == f"{folder}/state"


async def test_its_environment_is_sealed_and_told_to_nobody(api: Api, folder: Path) -> None:
    opened = await open_path(api, folder, env=["TOKEN=very-secret", "EMPTY=", "TWICE=a=b"])
    assert "very-secret" not in str(opened)
    assert opened["env"] == []
    row = await read(Workspace.objects.get, pk=opened["id"])
    assert row.sealed_env
    assert "very-secret" not in row.sealed_env
    env = await configs().env_of(row.pk)
    assert env == {"TOKEN": "very-secret", "EMPTY": "", "TWICE": "a=b"}


async def test_opening_without_an_environment_keeps_the_stored_one(api: Api, folder: Path) -> None:
    client_id = new_client()
    body = {"path": str(folder), "client_id": client_id}
    opened = await api.post("/v1/workspaces", body | {"env": ["A=B"]})
    await api.call("DELETE", f"/v1/workspaces/{opened['id']}?client_id={client_id}")
    # A client that was told 404 posts what it last saw.
    again = await api.post("/v1/workspaces", body | {"env": opened["env"]})
    assert again["id"] == opened["id"]
    assert await configs().env_of(again["id"]) == {"A": "B"}


async def test_sessions_are_found_again_when_the_path_is_opened_again(workspace: Opened) -> None:
    session_id = await workspace.session("kept")
    await workspace.api.call("DELETE", f"{workspace.url}?client_id={workspace.client_id}")
    assert (await workspace.api.call("GET", workspace.url)).status == 404
    again = await open_path(workspace.api, workspace.path)
    assert again["id"] == workspace.id
    (session,) = await workspace.api.get(f"{workspace.url}/sessions")
    assert (session["id"], session["title"]) == (session_id, "kept")


async def test_it_stays_while_another_client_holds_it(workspace: Opened, folder: Path) -> None:
    await open_path(workspace.api, folder)
    await workspace.api.call("DELETE", f"{workspace.url}?client_id={workspace.client_id}")
    assert await workspace.api.get(workspace.url) == workspace.answer


async def test_a_retired_client_never_claims_again(workspace: Opened) -> None:
    answer = await workspace.api.call("DELETE", f"/v1/clients/{workspace.client_id.upper()}")
    assert (answer.status, answer.body) == (200, b"")
    assert (await workspace.api.call("GET", workspace.url)).status == 404
    body = {"path": str(workspace.path), "client_id": workspace.client_id}
    answer = await workspace.api.call("POST", "/v1/workspaces", body)
    assert (answer.status, answer.message) == (409, "client retired")
    assert await workspace.api.get("/v1/workspaces") == []


async def test_a_current_session_is_counted(workspace: Opened) -> None:
    session_id = await workspace.session()
    url = f"{workspace.url}/current-session?client_id={workspace.client_id}"
    refused = await workspace.api.call("POST", url, {"session_id": session_id})
    assert (refused.status, refused.message) == (409, "client not attached")

    await writer.write(
        workspace.id,
        lambda tx: attach_stream(tx, workspace.id, workspace.client_id, holder="here"),
    )
    answer = await workspace.api.call("POST", url, {"session_id": session_id})
    assert (answer.status, answer.content_type, answer.body) == (200, "", b"")
    session = f"{workspace.url}/sessions/{session_id}"
    assert (await workspace.api.get(session))["attached_clients"] == 1
    assert (await workspace.api.call("POST", url, {"session_id": ""})).status == 200
    assert (await workspace.api.get(session))["attached_clients"] == 0
    unknown = await workspace.api.call("POST", url, {"session_id": "nope"})
    assert (unknown.status, unknown.message) == (404, "session not found")


async def test_known_providers_are_null_where_the_configuration_wants_none(
    api: Api, folder: Path
) -> None:
    folder.joinpath("crush.json").write_text('{"options": {"disable_default_providers": true}}')
    opened = await open_path(api, folder)
    answer = await api.call("GET", f"/v1/workspaces/{opened['id']}/providers")
    assert answer.body == b"null"


async def test_the_configured_data_directory_is_told(api: Api, folder: Path) -> None:
    folder.joinpath("crush.json").write_text('{"options": {"data_directory": "kept/here"}}')
    opened = await open_path(api, folder)
    assert opened["data_dir"] == f"{folder}/kept/here"


async def test_update_reads_the_configuration_anew(workspace: Opened) -> None:
    file = workspace.path / "crush.json"
    file.write_text('{"options": {"initialize_as": "RULES.md"}}')
    await workspace.api.call("POST", f"{workspace.url}/agent/update")
    config = await workspace.api.get(f"{workspace.url}/config")
    assert config["options"]["initialize_as"] == "RULES.md"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may enter every folder")
async def test_a_folder_that_may_not_be_entered_is_refused(api: Api, folder: Path) -> None:
    inner = folder / "inner"
    inner.mkdir()
    folder.chmod(0)
    answer = await api.call(
        "POST", "/v1/workspaces", {"path": str(inner), "client_id": new_client()}
    )
    folder.chmod(0o700)
    assert answer.message == "path: cannot be opened"


async def test_a_link_to_a_name_that_is_no_text_is_refused(api: Api, tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"\xff")
    odd.mkdir()
    (tmp_path / "link").symlink_to(odd)
    body = {"path": str(tmp_path / "link"), "client_id": new_client()}
    answer = await api.call("POST", "/v1/workspaces", body)
    assert (answer.status, answer.message) == (400, "path: is not UTF-8")


async def test_links_in_a_circle_are_refused(api: Api, tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    body = {"path": str(tmp_path / "a"), "client_id": new_client()}
    answer = await api.call("POST", "/v1/workspaces", body)
    assert (answer.status, answer.message) == (400, "path: cannot be opened")


async def test_a_new_environment_is_known_at_once(api: Api, folder: Path) -> None:
    client_id = new_client()
    body = {"path": str(folder), "client_id": client_id}
    for value in ("old", "new"):
        opened = await api.post("/v1/workspaces", body | {"env": [f"A={value}"]})
        assert await configs().env_of(opened["id"]) == {"A": value}
        await api.call("DELETE", f"/v1/workspaces/{opened['id']}?client_id={client_id}")
