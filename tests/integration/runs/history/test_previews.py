"""A preview of a rewind foresees exactly what the rewind does, and changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agents.runs.history.rewind import preview_rewind
from tests.integration.runs.ground import Ground
from tests.integration.runs.history.session_history import change, go_back, ids, messages, turn
from workspaces.log.errors import MessageUnknown, SessionUnknown
from workspaces.models import Event, FileVersion, Rewind


def preview(ground: Ground, message_id: str = "", **more: Any) -> dict[str, Any]:
    return preview_rewind(ground.workspace_id, ground.session_id, message_id=message_id, **more)


def test_it_shows_the_messages_and_files_of_the_rewind(ground: Ground, project: Path) -> None:
    names = ("edited", "created", "changed", "binary")
    edited, created, changed, binary = (project / f"{name}.txt" for name in names)
    for file in (edited, changed, binary):
        file.write_text("old\n")
    first = turn(ground, "one")
    for file in (edited, created, changed, binary):
        change(ground, file, "new\n")
    second = turn(ground, "\n two \x1b[31m\nmore")
    changed.write_text("by another program\n")
    binary.write_bytes(b"\0\1")
    before = (messages(ground), Event.objects.count(), FileVersion.objects.count())

    found = preview(ground, first[1], with_files=True)

    assert (messages(ground), Event.objects.count(), FileVersion.objects.count()) == before
    assert edited.read_text() == created.read_text() == "new\n"
    assert not Rewind.objects.exists()
    assert found["message_count"] == 2
    assert found["messages"] == [
        {"id": second[0], "role": "user", "first_line": "two [31m more"},
        {"id": second[1], "role": "assistant", "first_line": "two [31m more: done"},
    ]
    assert found["is_busy"] is False
    results = {Path(each["path"]).stem: each["result"] for each in found["files"]}
    assert results == {
        "edited": "restored",
        "created": "deleted",
        "changed": "left",
        "binary": "left",
    }
    assert found["files"] == go_back(ground, first[1], with_files=True)["files"]


def test_without_files_and_without_the_message(ground: Ground, project: Path) -> None:
    turn(ground, "one")
    change(ground, project / "a.txt", "new\n")
    second = turn(ground, "two")
    found = preview(ground, second[0], keeps_message=False)
    assert [each["id"] for each in found["messages"]] == second
    assert found["files"] == []
    assert [each["id"] for each in preview(ground)["messages"]] == ids(ground)


def test_a_busy_session_is_shown_as_busy(ground: Ground) -> None:
    ground.start()
    assert preview(ground)["is_busy"] is True


def test_what_is_unknown_is_refused(ground: Ground) -> None:
    with pytest.raises(MessageUnknown):
        preview(ground, "unknown")
    with pytest.raises(SessionUnknown):
        preview_rewind(ground.workspace_id, "unknown")
