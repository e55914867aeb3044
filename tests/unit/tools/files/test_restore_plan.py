"""Which files a rewind restores, and which it leaves alone."""

from __future__ import annotations

from agents.tools.files.restore_plan import FileEntry, VersionFacts, entries_of, plan_files

FOLDER = "/project"
FILE = "/project/a.txt"


def plan(*history: tuple[int, bool, str], after: int, path: str = FILE) -> list[FileEntry]:
    """The plan for one file. ``history``: position, whether it was found, and the content."""
    contents = {f"v{position}": content for position, _, content in history}
    versions = [
        VersionFacts(f"v{position}", path, position, is_found) for position, is_found, _ in history
    ]
    return plan_files(
        versions,
        folder=FOLDER,
        after=after,
        is_same=lambda one, other: contents[one.id] == contents[other.id],
    )


def restored(expected: str, content: str) -> list[FileEntry]:
    return [FileEntry(FILE, expected=expected, restored=content)]


def left(reason: str, path: str = FILE) -> list[FileEntry]:
    return [FileEntry(path, result="left", reason=reason)]


def test_a_file_gets_the_version_before_the_first_removed_change() -> None:
    history = ((1, True, "old"), (2, False, "one"), (5, False, "two"), (8, False, "three"))
    assert plan(*history, after=0) == restored("v8", "v1")
    assert plan(*history, after=2) == restored("v8", "v2")
    assert plan(*history, after=5) == restored("v8", "v5")
    assert plan(*history, after=8) == []


def test_what_a_person_wrote_before_the_removed_change_is_what_the_file_gets() -> None:
    history = ((1, True, "old"), (2, False, "one"), (6, True, "a person's"), (7, False, "two"))
    assert plan(*history, after=3) == restored("v7", "v6")


def test_what_a_person_wrote_between_two_removed_changes_is_not_undone() -> None:
    history = ((4, True, "old"), (5, False, "one"), (6, True, "a person's"), (7, False, "two"))
    assert plan(*history, after=3) == left("changed_between")


def test_a_child_sessions_first_version_is_no_change_of_a_person() -> None:
    """It found what the parent's tool had written."""
    history = ((4, True, "old"), (5, False, "one"), (6, True, "one"), (7, False, "two"))
    assert plan(*history, after=3) == restored("v7", "v4")


def test_a_file_that_would_get_the_content_that_it_has_is_left_out() -> None:
    history = ((4, True, "old"), (5, False, "one"), (6, False, "old"))
    assert plan(*history, after=3) == []


def test_a_file_outside_of_the_workspace_is_left_alone() -> None:
    for path in ("/elsewhere/a.txt", "/project-two/a.txt", "/a.txt"):
        assert plan((4, True, "old"), (5, False, "new"), after=3, path=path) == left(
            "outside", path
        )


def test_a_change_without_an_earlier_version_is_left_alone() -> None:
    assert plan((5, False, "new"), after=3) == left("missing_version")


def test_a_later_rewind_undoes_an_earlier_ones_restored_version_too() -> None:
    history = ((1, True, "old"), (2, False, "one"), (5, False, "two"), (9, False, "one"))
    assert plan(*history, after=1) == restored("v9", "v1")
    assert plan(*history, after=2) == []


def test_an_entry_is_stored_and_undone() -> None:
    entry = FileEntry(FILE, "new", "old", "restored")
    assert entries_of([entry.to_json()]) == [entry]
    assert entry.undoing() == FileEntry(FILE, "old", "new")


def test_files_are_planned_one_by_one_in_the_order_of_their_paths() -> None:
    versions = [
        VersionFacts("b0", "/project/b", 1, True),
        VersionFacts("a0", "/project/a", 2, True),
        VersionFacts("a1", "/project/a", 3, False),
        VersionFacts("b1", "/project/b", 4, False),
    ]
    planned = plan_files(versions, folder=FOLDER, after=0, is_same=lambda one, other: False)
    assert [(entry.path, entry.restored) for entry in planned] == [
        ("/project/a", "a0"),
        ("/project/b", "b0"),
    ]
