"""Skills through a running server: their list, what one says, and the events when files change."""

import base64
import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.calling import call, metadata_of, run_call
from tests.acceptance.conversation import Seat, take_seat
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.environment import ROOT
from tests.acceptance.harness.http import UnexpectedStatus
from tests.acceptance.harness.native import NativeSse
from tests.acceptance.harness.shapes import Server
from tests.acceptance.harness.stream import Event

BUNDLED = ["crush-config", "crush-hooks"]


@pytest.fixture
async def seat(
    shared_server: Server, connect: Callable[[Server], Client], project: Callable[..., Path]
) -> Seat:
    folder = project(uuid.uuid4().hex, options={"disabled_skills": ["unwanted"]})
    return await take_seat(connect(shared_server), folder)


def write_skill(seat: Seat, name: str, front: str) -> Path:
    file = seat.workspace.path / ".agents" / "skills" / name / "SKILL.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    # Moved into its place: the server may look at any moment.
    whole = seat.workspace.path / f"{name}.tmp"
    whole.write_text(f"---\nname: {name}\n{front}\n---\n\n# How\n\nLike this.\n")
    return whole.replace(file)


async def announced_state(seat: Seat, file: Path, *, start: int = 0) -> dict[str, Any] | None:
    """What the next event says of the file; nothing where it is not named."""

    def fits(event: Event) -> bool:
        return event.type == "skills_event"

    event = await seat.stream.wait_for(fits, start=start)
    assert event.action == "updated"
    return next((s for s in event.payload["states"] if s["path"] == str(file)), None)


async def test_added_changed_broken_and_removed_skills_are_announced(seat: Seat) -> None:
    start = seat.stream.mark()
    # The one told when the workspace opened may still be on its way.
    file = write_skill(seat, "mend-it", "description: Use when it is broken.")

    def names_the_skill(event: Event) -> bool:
        return event.type == "skills_event" and any(
            state["path"] == str(file) for state in event.payload["states"]
        )

    event = await seat.stream.wait_for(names_the_skill, start=start)
    states = {state["name"]: state for state in event.payload["states"]}
    assert set(states) == {*BUNDLED, "mend-it"}
    assert states["mend-it"] == {"name": "mend-it", "path": str(file), "state": 0}
    assert states["crush-config"]["path"] == "crush://skills/crush-config/SKILL.md"
    start = seat.stream.mark()
    write_skill(seat, "mend-it", "description: [broken]")
    assert await announced_state(seat, file, start=start) == {
        "name": "mend-it",
        "path": str(file),
        "state": 1,
        "error": "description: must be a string",
    }
    assert [s["name"] for s in await seat.workspace.call("GET", "/skills")] == BUNDLED
    start = seat.stream.mark()
    file.unlink()
    assert await announced_state(seat, file, start=start) is None


async def test_skills_are_announced_once_when_a_workspace_opens(
    seat: Seat, shared_server: Server
) -> None:
    workspace = seat.workspace
    reader = await NativeSse(workspace.client.http, workspace.id, after=0).open()
    try:
        event = await reader.wait_for(lambda received: received.type == "skills.changed")
        assert [state["name"] for state in event.body["data"]["states"]] == BUNDLED
    finally:
        await reader.close()
    assert workspace.answer["skills"] == event.body["data"]["states"]


async def test_the_list_and_the_text_of_a_skill(seat: Seat) -> None:
    workspace = seat.workspace
    file = write_skill(seat, "mend-it", "description: Use it.\nuser-invocable: true")
    write_skill(seat, "unwanted", "description: Disabled.")

    def shows_four(event: Event) -> bool:
        return event.type == "skills_event" and len(event.payload["states"]) == 4

    await seat.stream.wait_for(shows_four)
    shown = await workspace.call("GET", "/skills")
    assert [skill["name"] for skill in shown] == [*BUNDLED, "mend-it"]
    assert shown[-1] == {
        "description": "Use it.",
        "id": str(file),
        "label": "project:mend-it",
        "name": "mend-it",
        "source": "project",
        "user_invocable": True,
    }
    read = await workspace.call("POST", "/skills/read", {"skill_id": str(file)})
    assert base64.b64decode(read["content"]) == file.read_bytes()
    assert read["result"] == {
        "name": "mend-it",
        "description": "Use it.",
        "source": "project",
        "builtin": False,
    }
    bundled = await workspace.call("POST", "/skills/read", {"skill_id": shown[0]["id"]})
    assert b"crush.json" in base64.b64decode(bundled["content"])
    assert bundled["result"]["builtin"] is True


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"skill_id": "/etc/passwd"}, 404),
        ({"skill_id": "crush://skills/../SKILL.md"}, 404),
        ({"skill_id": ""}, 400),
        ({"skill_id": 1}, 400),
        ({}, 400),
    ],
)
async def test_nothing_but_a_skill_is_read(seat: Seat, body: Any, status: int) -> None:
    with pytest.raises(UnexpectedStatus) as refused:
        await seat.workspace.call("POST", "/skills/read", body)
    assert refused.value.status == status
    assert set(json.loads(refused.value.text)) == {"message"}


async def test_a_skills_file_is_read_without_permission_and_shown_as_a_skill(seat: Seat) -> None:
    (bundled, *_) = await seat.workspace.call("GET", "/skills")
    where = ROOT / "agents" / "skills" / "builtin" / bundled["name"] / "SKILL.md"
    session = await seat.workspace.session()

    result = await run_call(seat, session, call("view", file_path=str(where)))

    assert not result["is_error"]
    assert seat.stream.of("permission_request") == []
    drawn = metadata_of(result)
    assert drawn["resource_type"] == "skill"
    assert drawn["resource_name"] == bundled["name"]
    assert drawn["resource_description"] == bundled["description"]
