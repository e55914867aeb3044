"""Whether a workspace asks: the flag of older clients and the mode of newer ones are one state."""

from pathlib import Path
from typing import Any

import pytest

from tests.integration.api.client import Api
from tests.integration.api.conftest import Opened
from workspaces.log.reader import read
from workspaces.models import Event


async def shown(workspace: Opened) -> tuple[str, bool, Any, Any]:
    mode = (await workspace.api.get(f"{workspace.url}/permissions/mode"))["mode"]
    skip = (await workspace.api.get(f"{workspace.url}/permissions/skip"))["skip"]
    answer = await workspace.api.get(workspace.url)
    return mode, skip, answer.get("permission_mode"), answer.get("yolo")


async def test_each_interface_shows_what_the_other_one_set(workspace: Opened) -> None:
    assert await shown(workspace) == ("normal", False, None, None)
    for mode in ("yolo", "sysadmin"):
        await workspace.api.post(f"{workspace.url}/permissions/mode", {"mode": mode})
        assert await shown(workspace) == (mode, True, mode, True)
    # An older client that says what is so already changes nothing.
    await workspace.api.post(f"{workspace.url}/permissions/skip", {"skip": True})
    assert (await shown(workspace))[0] == "sysadmin"
    await workspace.api.post(f"{workspace.url}/permissions/skip", {"skip": False})
    assert await shown(workspace) == ("normal", False, None, None)
    await workspace.api.post(f"{workspace.url}/permissions/skip", {"skip": True})
    assert await shown(workspace) == ("yolo", True, "yolo", True)


async def test_a_change_is_an_event_and_a_repetition_is_none(workspace: Opened) -> None:
    for _ in range(2):
        await workspace.api.post(f"{workspace.url}/permissions/mode", {"mode": "sysadmin"})

    def updates() -> list[str]:
        rows = Event.objects.filter(workspace_id=workspace.id, kind="workspace.updated")
        return [row.payload for row in rows]

    (payload,) = await read(updates)
    assert '"permission_mode":"sysadmin"' in str(payload)


async def test_other_modes_are_refused_with_the_known_ones(workspace: Opened) -> None:
    answer = await workspace.api.call("POST", f"{workspace.url}/permissions/mode", {"mode": "root"})
    assert answer.status == 400
    assert "normal, yolo, sysadmin" in answer.message
    gone = await workspace.api.call(
        "POST", "/v1/workspaces/unknown/permissions/mode", {"mode": "yolo"}
    )
    assert gone.status == 404


@pytest.mark.parametrize(
    ("body", "mode"),
    [
        ({"yolo": True}, "yolo"),
        ({"permission_mode": "sysadmin"}, "sysadmin"),
        ({"permission_mode": "normal", "yolo": True}, "normal"),
        ({"permission_mode": ""}, "normal"),
    ],
)
async def test_a_workspace_is_opened_in_a_mode(
    api: Api, folder: Path, body: dict[str, Any], mode: str
) -> None:
    body = {"path": str(folder), "client_id": "11111111-1111-4111-8111-111111111111", **body}
    answer = await api.post("/v1/workspaces", body)
    assert answer.get("permission_mode", "normal") == mode
