"""Rewinding a session with its files, and what happens to them after a crash."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agents.runs.accept import Prompt, accept_prompt
from agents.runs.history.rewind import (
    begin_rewind,
    begin_undo,
    finish_left,
    finish_rewind,
    restore_where,
)
from tests.integration.runs.ground import (
    Ground,
    claim,
    end,
    say,
    write,
)
from tests.integration.runs.history.session_history import (
    begin_with_files,
    change,
    go_back,
    ids,
    messages,
    next_run,
    results,
    session,
    turn,
    undo,
)
from workspaces.actions.sessions import create_session
from workspaces.log.errors import (
    RewindUnfinished,
)
from workspaces.log.timestamps import now_ms
from workspaces.models import (
    FileRead,
    FileVersion,
    Message,
    Rewind,
)


def test_files_get_their_earlier_content_and_then_their_later_one(
    ground: Ground, project: Path
) -> None:
    edited, created = project / "edited.txt", project / "inner" / "created.txt"
    edited.write_text("old\n")
    created.parent.mkdir()
    first = turn(ground, "one")
    change(ground, edited, "new\n")
    change(ground, created, "made\n")
    change(ground, edited, "newer\n")
    turn(ground, "two")

    rewound = go_back(ground, first[1], with_files=True)

    assert edited.read_text() == "old\n"
    assert not created.exists()
    assert results(rewound["files"]) == {"edited.txt": "restored", "created.txt": "deleted"}
    newest = FileVersion.objects.filter(path=str(edited)).latest("position")
    assert newest.content == "old\n"

    undone = undo(ground, rewound["id"])

    assert edited.read_text() == "newer\n"
    assert created.read_text() == "made\n"
    assert results(undone["undone_files"]) == {"edited.txt": "restored", "created.txt": "restored"}


def test_without_files_they_stay(ground: Ground, project: Path) -> None:
    file = project / "a.txt"
    first = turn(ground, "one")
    change(ground, file, "new\n")
    turn(ground, "two")
    assert go_back(ground, first[1])["files"] == []
    assert file.read_text() == "new\n"


def test_the_model_has_to_view_a_file_again_that_it_read_after_the_message(
    ground: Ground,
) -> None:
    first = turn(ground, "one")
    stayed = Message.objects.get(pk=first[1]).updated_at
    for path, read_at in (("/project/before", stayed), ("/project/after", stayed + 1)):
        FileRead.objects.create(
            session_id=ground.session_id, path=path, mtime_ns=1, size=1, read_at=read_at
        )
    turn(ground, "two")
    go_back(ground, first[1])
    assert FileRead.objects.get().path == "/project/before"


def test_a_file_that_has_changed_since_is_listed_and_left_alone(
    ground: Ground, project: Path
) -> None:
    changed, gone, plain = (project / name for name in ("changed.txt", "gone.txt", "plain.txt"))
    first = turn(ground, "one")
    for file in (changed, gone, plain):
        file.write_text("old\n")
        change(ground, file, "new\n")
    changed.write_text("a person's\n")
    gone.unlink()
    turn(ground, "two")

    rewound = go_back(ground, first[1], with_files=True)

    assert results(rewound["files"]) == {
        "changed.txt": "changed",
        "gone.txt": "changed",
        "plain.txt": "restored",
    }
    assert changed.read_text() == "a person's\n"
    assert not gone.exists()

    plain.write_text("edited after the rewind\n")
    undone = undo(ground, rewound["id"])
    assert results(undone["undone_files"]) == {"plain.txt": "changed"}
    assert plain.read_text() == "edited after the rewind\n"
    assert changed.read_text() == "a person's\n"


def test_files_of_child_sessions_are_undone_too(ground: Ground, project: Path) -> None:
    shared, own = project / "shared.txt", project / "own.txt"
    shared.write_text("old\n")
    first = turn(ground, "one")
    child = write(
        lambda tx: create_session(
            tx, ground.workspace_id, title="child", parent_session_id=ground.session_id
        )
    )["id"]
    change(ground, shared, "parent's\n")
    change(ground, shared, "child's\n", session_id=child)
    change(ground, own, "child's\n", session_id=child)
    turn(ground, "two")
    rewound = go_back(ground, first[1], with_files=True)
    assert shared.read_text() == "old\n"
    assert not own.exists()
    undo(ground, rewound["id"])
    assert (shared.read_text(), own.read_text()) == ("child's\n", "child's\n")


def test_files_outside_of_the_workspace_and_behind_links_are_left_alone(
    ground: Ground, project: Path, tmp_path: Path
) -> None:
    outside, linked = tmp_path / "outside.txt", project / "linked.txt"
    first = turn(ground, "one")
    for file in (outside, linked):
        change(ground, file, "new\n")
    linked.unlink()
    (tmp_path / "target.txt").write_text("new\n")
    linked.symlink_to(tmp_path / "target.txt")
    turn(ground, "two")
    rewound = go_back(ground, first[1], with_files=True)
    assert results(rewound["files"]) == {"outside.txt": "outside", "linked.txt": "unreadable"}
    assert outside.read_text() == "new\n"
    assert (tmp_path / "target.txt").read_text() == "new\n"
    assert linked.is_symlink()


# -- crashes and others at the same time


def begin_with_a_change(ground: Ground, project: Path) -> tuple[Path, list[str], str]:
    """A rewind of the second of two turns, which changed a file: the file, the first turn, its key."""
    file = project / "a.txt"
    file.write_text("old\n")
    first = turn(ground, "one")
    change(ground, file, "new\n")
    turn(ground, "two")
    return file, first, begin_with_files(ground, first[1])


def test_a_rewind_whose_process_died_is_completed(ground: Ground, project: Path) -> None:
    restored, waiting = project / "a.txt", project / "b.txt"
    first = turn(ground, "one")
    for file in (restored, waiting):
        file.write_text("old\n")
        change(ground, file, "new\n")
    turn(ground, "two")
    key = begin_with_files(ground, first[1])
    assert len(ids(ground)) == 4
    restored.write_text("old\n")  # the process died after this one

    asyncio.run(finish_left(begun_before=now_ms() + 1))

    assert ids(ground) == first
    assert (restored.read_text(), waiting.read_text()) == ("old\n", "old\n")
    assert Rewind.objects.get().state == "done"

    write(lambda tx: begin_undo(tx, ground.workspace_id, ground.session_id, key))
    asyncio.run(finish_left(begun_before=now_ms() + 1))
    assert len(ids(ground)) == 4
    assert (restored.read_text(), waiting.read_text()) == ("new\n", "new\n")


def test_two_processes_that_complete_the_same_rewind_do_it_once(
    ground: Ground, project: Path
) -> None:
    _, first, key = begin_with_a_change(ground, project)

    async def both() -> None:
        await asyncio.gather(finish_rewind(key), finish_rewind(key))

    asyncio.run(both())
    assert ids(ground) == first
    assert len(ground.events("session.rewound")) == 1
    assert results(Rewind.objects.get().files) == {"a.txt": "restored"}
    assert session(ground).message_count == 2


def test_a_process_without_the_folder_leaves_the_files_to_one_that_has_it(
    ground: Ground, project: Path
) -> None:
    file, first, key = begin_with_a_change(ground, project)
    restore_where(lambda path: path != str(project))
    try:
        asyncio.run(finish_rewind(key))
        asyncio.run(finish_left(begun_before=now_ms() + 1))
        assert (file.read_text(), len(ids(ground))) == ("new\n", 4)
        assert Rewind.objects.get().state == "applying"
    finally:
        restore_where()
    asyncio.run(finish_left(begun_before=now_ms() + 1))
    assert (file.read_text(), ids(ground)) == ("old\n", first)


def test_runs_wait_until_the_files_are_restored(ground: Ground, project: Path) -> None:
    _, _, key = begin_with_a_change(ground, project)
    ground.accept("instead")
    other = ground.new_session()
    ground.accept("elsewhere", session_id=other)
    assert [claimed.session_id for claimed in claim()] == [other]
    for refused in (lambda: go_back(ground), lambda: undo(ground, key)):
        with pytest.raises(RewindUnfinished):
            refused()
    asyncio.run(finish_rewind(key))
    assert [claimed.session_id for claimed in claim()] == [ground.session_id]


def test_a_prompt_of_the_same_transaction_comes_after_the_rewind(
    ground: Ground, project: Path
) -> None:
    file = project / "a.txt"
    file.write_text("old\n")
    first = turn(ground, "one")
    change(ground, file, "new\n")
    turn(ground, "two")
    workspace_id, session_id = ground.workspace_id, ground.session_id

    def job(tx: Any) -> str:
        key = begin_rewind(tx, workspace_id, session_id, message_id=first[1], with_files=True)
        accept_prompt(tx, workspace_id, Prompt(session_id, "instead"))
        return key

    key = write(job)
    assert claim() == []
    asyncio.run(finish_rewind(key))
    held = next_run()
    say(held, "done")
    end(held)
    assert file.read_text() == "old\n"
    assert [message["parts"][0]["data"].get("text") for message in messages(ground)] == [
        "one",
        "one: done",
        "instead",
        "done",
    ]
