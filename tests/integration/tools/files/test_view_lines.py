"""Which lines view shows, what it says of the rest, and which names it suggests."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from agents.skills.skill import Skill, SkillLocation, SkillSource
from agents.tools.contract import BadArguments, Repetition, ToolContext, ToolRefusal
from agents.tools.files.view import View
from agents.tools.limits import MAX_VIEW_LINES, VIEW_CHARS, VIEW_LINE_CHARS, VIEW_LINES
from tests.doubles.tool_context import ToolDoubles
from tests.integration.tools.calling import call, required_permission


async def shown(doubles: ToolDoubles, **given: Any) -> list[str]:
    """The lines of the file, with their numbers."""
    lines = (await call(View(), doubles, file_path="f", **given)).content.splitlines()
    return lines[lines.index("<file>") + 1 : lines.index("</file>")]


async def refusal(doubles: ToolDoubles, path: str, **given: Any) -> str:
    with pytest.raises(ToolRefusal) as refused:
        await call(View(), doubles, file_path=path, **given)
    return str(refused.value)


async def test_it_shows_the_lines_from_the_offset_to_the_limit(
    doubles: ToolDoubles, root: Path
) -> None:
    (root / "f").write_text("a\nb\nc\nd\n")
    assert await shown(doubles) == ["     1|a", "     2|b", "     3|c", "     4|d"]
    assert await shown(doubles, offset=1, limit=2) == ["     2|b", "     3|c"]
    assert await shown(doubles, offset=3) == ["     4|d"]
    assert await shown(doubles, offset=0, limit=0) == await shown(doubles, offset=None, limit=None)
    for offset in (4, 5):
        sentence = f"has 4 lines; an offset of {offset} is past its end."
        assert sentence in await refusal(doubles, "f", offset=offset)


async def test_an_empty_file_has_no_first_line_to_skip(doubles: ToolDoubles, root: Path) -> None:
    (root / "f").write_text("")
    outcome = await call(View(), doubles, file_path="f")
    assert outcome.content == f"{root / 'f'} is empty."
    assert "has 0 lines" in await refusal(doubles, "f", offset=1)


async def test_an_empty_line_is_a_line(doubles: ToolDoubles, root: Path) -> None:
    (root / "f").write_text("\n\nx")
    assert await shown(doubles) == ["     1|", "     2|", "     3|x"]
    (root / "f").write_text("\n")
    assert await shown(doubles) == ["     1|"]


async def test_line_ends_are_not_shown(doubles: ToolDoubles, root: Path) -> None:
    (root / "f").write_bytes(b"a\r\nb\n")
    outcome = await call(View(), doubles, file_path="f")
    assert outcome.content == "<file>\n     1|a\n     2|b\n</file>"


async def test_it_says_how_many_lines_follow(doubles: ToolDoubles, root: Path) -> None:
    (root / "f").write_text("x\n" * 5)
    outcome = await call(View(), doubles, file_path="f", offset=1, limit=3)
    assert outcome.content.endswith("\n\n(1 more lines follow; use offset 4 to continue.)")
    outcome = await call(View(), doubles, file_path="f", offset=1, limit=4)
    assert outcome.content.endswith("</file>")


async def test_so_many_characters_are_shown_and_no_line_more(
    doubles: ToolDoubles, root: Path
) -> None:
    (root / "f").write_text(("x" * VIEW_LINE_CHARS + "\n") * 1_000)
    fitting = VIEW_CHARS // VIEW_LINE_CHARS
    outcome = await call(View(), doubles, file_path="f", offset=10, limit=MAX_VIEW_LINES)
    assert len(await shown(doubles, offset=10, limit=MAX_VIEW_LINES)) == fitting
    assert f"({990 - fitting} more lines follow; use offset {10 + fitting} " in outcome.content
    assert outcome.metadata is not None
    assert outcome.metadata["content"] == "\n".join(["x" * VIEW_LINE_CHARS] * fitting)


def test_files_are_viewed_side_by_side() -> None:
    assert View().parse({"file_path": "f"})
    assert View().repetition is Repetition.PURE


def test_a_limit_is_the_default_or_at_most_the_largest() -> None:
    for given, limit in ((None, VIEW_LINES), (0, VIEW_LINES), (1, 1), (10**9, MAX_VIEW_LINES)):
        assert View().parse({"file_path": "f", "limit": given}).limit == limit
    for path in ("", " "):
        with pytest.raises(BadArguments, match="file_path must not be empty"):
            View().parse({"file_path": path})


@pytest.mark.parametrize(
    ("names", "named", "suggested"),
    [
        (["catalogue"], "catalog", ["catalogue"]),
        (["Readme.md"], "README.md", ["Readme.md"]),
        (["log"], "my.catalog", ["log"]),
        ([f"{letter}.catalogue" for letter in "hgfedcba"], "log", ["a.catalogue", "b.catalogue", "c.catalogue"]),
        (["file1", "file2", "file3", "file4"], "file5", ["file4", "file3", "file2"]),
        (["lo"], "catalogue.txt", []),
        (["other"], "file", []),
    ],
)  # fmt: skip
async def test_it_suggests_up_to_three_names_each_once(
    names: list[str], named: str, suggested: list[str], doubles: ToolDoubles, root: Path
) -> None:
    for name in names:
        (root / name).write_text("")
    said = ", ".join(str(root / name) for name in suggested)
    expected = f"{root / named} does not exist."
    assert await refusal(doubles, named) == (
        f"{expected} Did you mean: {said}?" if said else expected
    )


async def test_a_missing_folder_is_said_to_be_missing(doubles: ToolDoubles, root: Path) -> None:
    expected = f"{root / 'no' / 'f'} does not exist. Its folder does not exist either."
    assert await refusal(doubles, "no/f") == expected


def with_skill(doubles: ToolDoubles, folder: Path) -> ToolContext:
    place = SkillLocation(
        str(folder / "SKILL.md"), str(folder), str(folder / "SKILL.md"), SkillSource.USER
    )
    skill = Skill("painting", "How to paint.", place)
    return dataclasses.replace(doubles.context, skills=(skill,))


async def test_a_file_of_a_skill_is_shown_without_asking_and_named(
    doubles: ToolDoubles, root: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "painting"
    folder.mkdir()
    for name in ("SKILL.md", "more.md"):
        (folder / name).write_text("words\n")
    (tmp_path / "other.md").write_text("words\n")
    (root / "f").write_text("words\n")
    painter = dataclasses.replace(doubles, context=with_skill(doubles, folder))
    assert (
        await required_permission(View(), painter, file_path=str(tmp_path / "other.md")) is not None
    )
    for path in (folder / "SKILL.md", folder / "more.md"):
        assert await required_permission(View(), doubles, file_path=str(path)) is not None
        assert await required_permission(View(), painter, file_path=str(path)) is None
        assert (await call(View(), painter, file_path=str(path))).metadata == {
            "file_path": str(path),
            "content": "words",
            "resource_type": "skill",
            "resource_name": "painting",
            "resource_description": "How to paint.",
        }
    outcome = await call(View(), painter, file_path="f")
    assert outcome.metadata == {"file_path": str(root / "f"), "content": "words"}
