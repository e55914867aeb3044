"""One change to several files, as a rename makes it: all are checked, then written in order."""

from pathlib import Path

import pytest

from agents.tools.contract import ToolRefusal
from agents.tools.files import approval_snapshot, changes, text_file
from agents.tools.files.changes import Change
from tests.doubles.tool_context import ToolDoubles

NAMES = ("a", "b", "c")


@pytest.fixture
def planned(root: Path) -> list[Change]:
    for name in NAMES:
        (root / name).write_text(f"old {name}\n")
    return [
        Change(root / name, text_file.read(root / name, max_bytes=100), f"new {name}\n")
        for name in NAMES
    ]


def contents(root: Path) -> list[str]:
    return [(root / name).read_text() for name in NAMES]


async def test_all_are_written_and_recorded(
    doubles: ToolDoubles, root: Path, planned: list[Change]
) -> None:
    approval_snapshot.remember(doubles.context, *changes.facts_of(planned))
    await changes.commit_all(planned, doubles.context)
    assert contents(root) == ["new a\n", "new b\n", "new c\n"]
    assert doubles.files.versions == [
        (str(root / name), f"old {name}\n", f"new {name}\n") for name in NAMES
    ]


async def test_a_failure_names_the_files_that_were_changed_before(
    doubles: ToolDoubles, root: Path, planned: list[Change]
) -> None:
    (root / "c").write_text("theirs\n")
    with pytest.raises(
        ToolRefusal, match=r"c has changed .* These files were changed before: a, b\.$"
    ):
        await changes.commit_all(planned, doubles.context)
    assert contents(root) == ["new a\n", "new b\n", "theirs\n"]
    assert [Path(version[0]).name for version in doubles.files.versions] == ["a", "b"]


async def test_nothing_is_changed_when_the_first_fails(
    doubles: ToolDoubles, root: Path, planned: list[Change]
) -> None:
    (root / "a").write_text("theirs\n")
    with pytest.raises(ToolRefusal, match=r"a has changed in the meantime\. .* retry\.$"):
        await changes.commit_all(planned, doubles.context)
    assert contents(root) == ["theirs\n", "old b\n", "old c\n"]


@pytest.mark.parametrize("change", ["content", "more files", "other file"])
async def test_nothing_is_changed_that_the_question_was_not_about(
    change: str, doubles: ToolDoubles, root: Path, planned: list[Change]
) -> None:
    answered = planned[:2]
    approval_snapshot.remember(doubles.context, *changes.facts_of(answered))
    if change == "content":
        (root / "b").write_text("theirs, and longer\n")
        answered = [planned[0], Change(root / "b", text_file.read(root / "b", max_bytes=100), "x")]
    elif change == "more files":
        answered = planned
    else:
        answered = [planned[0], planned[2]]
    before = contents(root)
    with pytest.raises(ToolRefusal, match="path or the file has changed"):
        await changes.commit_all(answered, doubles.context)
    assert contents(root) == before
