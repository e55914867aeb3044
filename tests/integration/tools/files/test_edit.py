"""The tools edit and multiedit on real files."""

from pathlib import Path
from typing import Any

import pytest

from agents.tools.contract import ToolRefusal
from agents.tools.files.edit import Edit
from agents.tools.files.multiedit import MultiEdit
from tests.doubles.tool_context import ToolDoubles
from tests.integration.tools.calling import call, required_permission, view


async def test_edit_tells_what_changed(doubles: ToolDoubles, root: Path) -> None:
    (root / "f").write_text("a\nb\nc\n")
    await view(doubles, "f")
    outcome = await call(Edit(), doubles, file_path="f", old_string="b\n", new_string="x\ny\n")
    assert outcome.metadata == {
        "additions": 2,
        "removals": 1,
        "old_content": "a\nb\nc\n",
        "new_content": "a\nx\ny\nc\n",
    }


async def test_edit_deletes_text(doubles: ToolDoubles, root: Path) -> None:
    (root / "f").write_text("a\nb\n")
    await view(doubles, "f")
    question = await required_permission(
        Edit(), doubles, file_path="f", old_string="a\n", new_string=""
    )
    assert question is not None
    assert question.description.startswith("Delete text from file ")
    await call(Edit(), doubles, file_path="f", old_string="a\n", new_string="")
    assert (root / "f").read_text() == "b\n"


async def test_edit_keeps_how_the_file_is_written(doubles: ToolDoubles, root: Path) -> None:
    (root / "f").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    (root / "f").chmod(0o600)
    await view(doubles, "f")
    await call(Edit(), doubles, file_path="f", old_string="one\ntwo", new_string="1\n2\n3")
    assert (root / "f").read_bytes() == b"\xef\xbb\xbf1\r\n2\r\n3\r\n"
    assert (root / "f").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"old_string": "x", "new_string": "y"}, "not found"),
        ({"old_string": "one", "new_string": "y"}, "found 2 times"),
        ({"old_string": "", "new_string": "y"}, "already exists"),
    ],
)
async def test_edit_says_why_it_refuses(
    doubles: ToolDoubles, root: Path, given: dict[str, str], sentence: str
) -> None:
    (root / "f").write_text("one one\n")
    await view(doubles, "f")
    with pytest.raises(ToolRefusal, match=sentence):
        await required_permission(Edit(), doubles, file_path="f", **given)


async def test_edit_says_that_a_file_is_not_there(doubles: ToolDoubles) -> None:
    with pytest.raises(ToolRefusal, match="does not exist"):
        await required_permission(Edit(), doubles, file_path="f", old_string="a", new_string="b")


async def test_multiedit_applies_what_fits_and_tells_the_rest(
    doubles: ToolDoubles, root: Path
) -> None:
    (root / "f").write_text("a b c\n")
    await view(doubles, "f")
    edits = [
        {"old_string": "a", "new_string": "x"},
        {"old_string": "nowhere", "new_string": "y"},
        {"old_string": "x b", "new_string": "z"},
    ]
    outcome = await call(MultiEdit(), doubles, file_path="f", edits=edits)
    assert (root / "f").read_text() == "z c\n"
    assert not outcome.is_error
    metadata = dict(outcome.metadata or {})
    [failed] = metadata.pop("edits_failed")
    assert failed["index"] == 2
    assert "not found" in failed["error"]
    assert failed["edit"] == {**edits[1], "replace_all": False}
    assert metadata == {
        "additions": 1,
        "removals": 1,
        "old_content": "a b c\n",
        "new_content": "z c\n",
        "edits_applied": 2,
    }


async def test_multiedit_is_an_error_when_nothing_fits(doubles: ToolDoubles, root: Path) -> None:
    (root / "f").write_text("a\n")
    await view(doubles, "f")
    edits = [{"old_string": "x", "new_string": "y"}]
    assert await required_permission(MultiEdit(), doubles, file_path="f", edits=edits) is None
    outcome = await call(MultiEdit(), doubles, file_path="f", edits=edits)
    assert outcome.is_error
    assert "Edit 1 failed" in outcome.content
    assert doubles.files.versions == []


async def test_multiedit_goes_on_in_a_file_it_creates(doubles: ToolDoubles, root: Path) -> None:
    edits = [{"old_string": "", "new_string": "a b"}, {"old_string": "a", "new_string": "x"}]
    await call(MultiEdit(), doubles, file_path="f", edits=edits)
    assert (root / "f").read_text() == "x b"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"one\r\nrest\r\n", b"two\r\nmore\r\nrest\r\n"),
        (b"one\rrest\r", b"two\rmore\rrest\r"),
        (b"one\r\nrest\n", b"two\r\nmore\r\nrest\n"),
        ("one\nrest é\n".encode("latin-1"), "two\nmore\nrest é\n".encode("latin-1")),
        ("\ufeffone\nrest\n".encode(), "\ufefftwo\nmore\nrest\n".encode()),
        (
            "\ufeffone\r\nrest\r\n".encode("utf-16-le"),
            "\ufefftwo\r\nmore\r\nrest\r\n".encode("utf-16-le"),
        ),
        ("\ufeffone\nrest".encode("utf-16-be"), "\ufefftwo\nmore\nrest".encode("utf-16-be")),
    ],
)
async def test_edit_keeps_encoding_line_ends_and_mode(
    doubles: ToolDoubles, root: Path, before: bytes, after: bytes
) -> None:
    path = root / "f"
    path.write_bytes(before)
    path.chmod(0o755)
    await view(doubles, "f")
    await call(Edit(), doubles, file_path="f", old_string="one\nrest", new_string="two\nmore\nrest")
    assert path.read_bytes() == after
    assert path.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("old", ["one\r\ntwo", "one\ntwo"])
@pytest.mark.parametrize("new", ["1\r\n2", "1\n2"])
@pytest.mark.parametrize("tool", [Edit(), MultiEdit()])
async def test_edit_takes_either_line_end_in_a_file_with_the_other(
    tool: Any, old: str, new: str, doubles: ToolDoubles, root: Path
) -> None:
    (root / "f").write_bytes(b"one\r\ntwo\r\n")
    await view(doubles, "f")
    given: dict[str, Any] = {"old_string": old, "new_string": new}
    if isinstance(tool, MultiEdit):
        given = {"edits": [given]}
    await call(tool, doubles, file_path="f", **given)
    assert (root / "f").read_bytes() == b"1\r\n2\r\n"
