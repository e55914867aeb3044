"""The sentences and figures of requests for changes to files, and of their results."""

from pathlib import Path
from typing import Any

import jsonschema
import pytest

from agents.tools.contract import BadArguments, Repetition, ToolRefusal
from agents.tools.files.edit import Edit
from agents.tools.files.multiedit import MultiEdit
from agents.tools.files.write import Write
from agents.tools.limits import MAX_EDITS, MAX_TEXT_BYTES
from tests.doubles.tool_context import ToolDoubles
from tests.integration.tools.calling import call, required_permission, view


def edits(*pairs: tuple[str, str]) -> dict[str, Any]:
    return {"edits": [{"old_string": old, "new_string": new} for old, new in pairs]}


NEW = [
    (Edit(), {"old_string": "", "new_string": "a\nb\n"}, "", "Created {}"),
    (MultiEdit(), edits(("", "a\nb\n")), " with 1 edit", "Applied 1 of 1 edits to {}."),
    (Write(), {"content": "a\nb\n"}, "", "Created {}"),
]
OLD = [
    (Edit(), {"old_string": "a\n", "new_string": "x\ny\n"}, "Edit", "", "Edited {}"),
    (Edit(), {"old_string": "a\n", "new_string": ""}, "Delete text from", "", "Deleted text from {}"),
    (MultiEdit(), edits(("a", "x")), "Edit", " with 1 edit", "Applied 1 of 1 edits to {}."),
    (MultiEdit(), edits(("a", "x"), ("b", "y"), ("no", "z")), "Edit", " with 2 edits",
     "Applied 2 of 3 edits to {}.\nEdit 3 failed: old_string was not found"),
    (Write(), {"content": "x\n"}, "Overwrite", "", "Overwrote {}"),
]  # fmt: skip


@pytest.mark.parametrize(("tool", "given", "ending", "result"), NEW)
async def test_a_new_file_is_said_to_be_created(
    tool: Any, given: Any, ending: str, result: str, doubles: ToolDoubles, root: Path
) -> None:
    question = await required_permission(tool, doubles, file_path="f", **given)
    assert question is not None
    assert question.description == f"Create file {root / 'f'}{ending}"
    outcome = await call(tool, doubles, file_path="f", **given)
    assert outcome.content.startswith(result.format(root / "f"))
    assert outcome.metadata is not None
    assert (outcome.metadata["additions"], outcome.metadata["removals"]) == (2, 0)
    assert outcome.metadata.get("edits_applied", 1) == 1
    assert not outcome.is_error


@pytest.mark.parametrize(("tool", "given", "verb", "ending", "result"), OLD)
async def test_what_is_done_to_a_file_is_said(
    tool: Any, given: Any, verb: str, ending: str, result: str, doubles: ToolDoubles, root: Path
) -> None:
    (root / "f").write_text("a\nb\n")
    await view(doubles, "f")
    question = await required_permission(tool, doubles, file_path="f", **given)
    assert question is not None
    assert question.description == f"{verb} file {root / 'f'}{ending}"
    outcome = await call(tool, doubles, file_path="f", **given)
    assert outcome.content.startswith(result.format(root / "f"))
    assert not outcome.is_error


@pytest.mark.parametrize(("tool", "given", "ending", "result"), NEW)
def test_changes_of_one_reply_are_made_one_after_the_other(
    tool: Any, given: Any, ending: str, result: str
) -> None:
    assert tool.parse({"file_path": "f", **given})
    assert tool.repetition is Repetition.EFFECT


async def test_the_lines_that_came_and_went_are_counted(doubles: ToolDoubles, root: Path) -> None:
    (root / "f").write_text("a\nb\n")
    await view(doubles, "f")
    outcome = await call(Edit(), doubles, file_path="f", old_string="a\n", new_string="x\ny\nz\n")
    assert outcome.content == f"Edited {root / 'f'} (+3 -1 lines)."
    outcome = await call(Write(), doubles, file_path="f", content="x\nb\n")
    assert outcome.content == f"Overwrote {root / 'f'} (+0 -2 lines)."


async def test_multiedit_tells_that_no_edit_fits(doubles: ToolDoubles, root: Path) -> None:
    (root / "f").write_text("a\n")
    await view(doubles, "f")
    outcome = await call(MultiEdit(), doubles, file_path="f", **edits(("x", "y"), ("", "z")))
    head, first, second = outcome.content.splitlines()
    assert head == f"None of the 2 edits could be applied to {root / 'f'}; it is unchanged."
    assert first.startswith("Edit 1 failed: old_string was not found")
    assert second.startswith("Edit 2 failed: old_string is empty")
    assert outcome.metadata is not None
    assert outcome.metadata["edits_applied"] == 0


async def test_multiedit_counts_the_edit_that_creates(doubles: ToolDoubles) -> None:
    outcome = await call(MultiEdit(), doubles, file_path="f", **edits(("", "a"), ("no", "b")))
    assert outcome.metadata is not None
    assert outcome.metadata["edits_applied"] == 1
    assert [failed["index"] for failed in outcome.metadata["edits_failed"]] == [2]


@pytest.mark.parametrize(
    ("tool", "given"), [(Edit(), {"old_string": "a", "new_string": "b"}), (MultiEdit(), edits(("a", "b")))]
)  # fmt: skip
async def test_it_says_how_to_create_a_file_that_does_not_exist(
    tool: Any, given: Any, doubles: ToolDoubles, tmp_path: Path
) -> None:
    for step in (required_permission, call):
        with pytest.raises(ToolRefusal, match=r"does not exist\. To create it, leave"):
            await step(tool, doubles, file_path="f", **given)
        with pytest.raises(ToolRefusal, match="outside of the working directory and has not been"):
            await step(tool, doubles, file_path=str(tmp_path / "f"), **given)


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        (Edit(), {"old_string": "one", "new_string": "two"}),
        (Edit(), {"old_string": "", "new_string": "two"}),
        (MultiEdit(), edits(("one", "two"))),
        (MultiEdit(), edits(("", "two"))),
        (Write(), {"content": "two"}),
    ],
)
async def test_after_permission_an_outside_file_must_have_been_read(
    tool: Any, given: Any, doubles: ToolDoubles, tmp_path: Path
) -> None:
    (tmp_path / "outside").write_text("one")
    with pytest.raises(ToolRefusal, match="has not been read in this session"):
        await call(tool, doubles, file_path=str(tmp_path / "outside"), **given)
    assert (tmp_path / "outside").read_text() == "one"


async def test_a_change_that_cannot_be_written_is_refused(doubles: ToolDoubles, root: Path) -> None:
    (root / "f").write_bytes(b"\xe9\n")
    await view(doubles, "f")
    with pytest.raises(ToolRefusal, match="is latin-1 text, which cannot contain '漢'"):
        await call(Edit(), doubles, file_path="f", old_string="é", new_string="漢")
    assert (root / "f").read_bytes() == b"\xe9\n"
    assert doubles.files.versions == []


@pytest.mark.parametrize("tool", [Edit(), MultiEdit()])
async def test_the_size_of_the_new_file_counts_in_bytes(
    tool: Any, doubles: ToolDoubles, root: Path
) -> None:
    given: dict[str, Any] = {"old_string": "a", "new_string": "é", "replace_all": True}
    if isinstance(tool, MultiEdit):
        given = {"edits": [given]}
    for letters in (MAX_TEXT_BYTES // 2, MAX_TEXT_BYTES // 2 + 1):
        (root / "f").write_text("a" * letters)
        await view(doubles, "f")
        if letters * 2 <= MAX_TEXT_BYTES:
            await call(tool, doubles, file_path="f", **given)
            assert (root / "f").read_text() == "é" * letters
        else:
            with pytest.raises(ToolRefusal, match="would be too large: 2,097,154 bytes"):
                await call(tool, doubles, file_path="f", **given)


async def test_write_leaves_carriage_returns_in_a_file_of_plain_ends(
    doubles: ToolDoubles, root: Path
) -> None:
    (root / "f").write_bytes(b"one\n")
    await view(doubles, "f")
    await call(Write(), doubles, file_path="f", content="1\r\n2\n")
    assert (root / "f").read_bytes() == b"1\r\n2\n"


async def test_a_line_that_comes_to_a_file_without_line_ends_has_a_plain_one(
    doubles: ToolDoubles, root: Path
) -> None:
    (root / "f").write_bytes(b"one")
    await view(doubles, "f")
    await call(Edit(), doubles, file_path="f", old_string="one", new_string="1\n2\n")
    assert (root / "f").read_bytes() == b"1\n2\n"


@pytest.mark.parametrize(
    ("tool", "given"),
    [(Edit(), {"old_string": "a", "new_string": "b"}), (MultiEdit(), edits(("a", "b"))), (Write(), {"content": "b"})],
)  # fmt: skip
def test_a_path_of_blanks_is_no_path(tool: Any, given: Any) -> None:
    for path in ("", "  "):
        with pytest.raises(BadArguments, match="file_path must not be empty"):
            tool.parse({"file_path": path, **given})


@pytest.mark.parametrize(("count", "fits"), [(0, False), (1, True), (MAX_EDITS, True), (MAX_EDITS + 1, False)])  # fmt: skip
def test_the_schema_of_multiedit_allows_what_it_takes(count: int, fits: bool) -> None:
    given = {"file_path": "f", **edits(*[("a", "b")] * count)}
    assert jsonschema.Draft202012Validator(MultiEdit.spec.schema).is_valid(given) is fits
    if fits:
        assert len(MultiEdit().parse(given).edits) == count
    else:
        with pytest.raises(BadArguments, match="edits"):
            MultiEdit().parse(given)
