"""View, ls and todos."""

import base64
import dataclasses
import os
from pathlib import Path
from typing import Any

import pytest

from agents.tools.contract import BadArguments, Todo, ToolRefusal
from agents.tools.files.ls import Ls
from agents.tools.files.view import View
from agents.tools.todos import Todos
from tests.doubles.tool_context import ToolDoubles
from tests.integration.tools.calling import call

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def test_view_numbers_lines(doubles: ToolDoubles, root: Path) -> None:
    (root / "f").write_text("a\nb\n")
    outcome = await call(View(), doubles, file_path="f")
    assert outcome.content == "<file>\n     1|a\n     2|b\n</file>"
    assert outcome.metadata == {"file_path": str(root / "f"), "content": "a\nb"}
    assert doubles.files.reads == [str(root / "f")]


async def test_view_shows_a_part_and_where_to_go_on(doubles: ToolDoubles, root: Path) -> None:
    (root / "f").write_text("".join(f"{n}\n" for n in range(1, 1_001)))
    outcome = await call(View(), doubles, file_path="f")
    assert "   200|200\n</file>\n\n(800 more lines follow; use offset 200" in outcome.content
    outcome = await call(View(), doubles, file_path="f", offset=998, limit=50)
    assert outcome.content == "<file>\n   999|999\n  1000|1000\n</file>"
    with pytest.raises(ToolRefusal, match="past its end"):
        await call(View(), doubles, file_path="f", offset=1_000)


async def test_view_cuts_long_lines_and_long_files(doubles: ToolDoubles, root: Path) -> None:
    (root / "f").write_text(("x" * 5_000 + "\n") * 1_000)
    outcome = await call(View(), doubles, file_path="f", limit=5_000)
    assert "[3,000 more characters in this line]" in outcome.content
    assert "more lines follow" in outcome.content
    assert len(outcome.content) < 250_000


async def test_view_says_that_a_file_is_empty(doubles: ToolDoubles, root: Path) -> None:
    (root / "f").write_text("")
    assert (await call(View(), doubles, file_path="f")).content.endswith("is empty.")


async def test_view_refuses_binary_files(doubles: ToolDoubles, root: Path) -> None:
    (root / "f").write_bytes(b"\x7fELF\0\0")
    with pytest.raises(ToolRefusal, match="binary"):
        await call(View(), doubles, file_path="f")
    assert doubles.files.reads == []


def seeing(doubles: ToolDoubles) -> ToolDoubles:
    return dataclasses.replace(
        doubles, context=dataclasses.replace(doubles.context, sees_images=True)
    )


async def test_view_shows_images_to_models_that_see(doubles: ToolDoubles, root: Path) -> None:
    """The bytes say that it is one, whatever its name."""
    (root / "f.txt").write_bytes(PNG)
    outcome = await call(View(), seeing(doubles), file_path="f.txt")
    assert outcome.mime_type == "image/png"
    assert base64.b64decode(outcome.data) == PNG
    assert "1 x 1 pixels" in outcome.content
    assert doubles.files.reads == [str(root / "f.txt")]
    with pytest.raises(ToolRefusal, match="cannot see images"):
        await call(View(), doubles, file_path="f.txt")
    (root / "words.png").write_text("words\n")
    outcome = await call(View(), seeing(doubles), file_path="words.png")
    assert (outcome.data, "words" in outcome.content) == ("", True)


async def test_view_refuses_images_that_a_provider_would(doubles: ToolDoubles, root: Path) -> None:
    for content, sentence in (
        (PNG[:40], "damaged or incomplete"),
        (PNG + b"\0" * 4_000_000, "too large"),
        (b"II*\0" + b"\0" * 100, "TIFF image, which models do not accept"),
    ):
        (root / "f").write_bytes(content)
        with pytest.raises(ToolRefusal, match=sentence):
            await call(View(), seeing(doubles), file_path="f")


class Servers:
    """Language servers that note what they are told."""

    def __init__(self) -> None:
        self.touched: list[str] = []

    def touch(self, path: str) -> None:
        self.touched.append(path)

    async def after_change(self, path: str) -> str:
        return f"1 error in {path}"


async def test_view_tells_language_servers_of_the_file(doubles: ToolDoubles, root: Path) -> None:
    servers = Servers()
    doubles = dataclasses.replace(
        doubles, context=dataclasses.replace(doubles.context, languages=servers)
    )
    (root / "a.py").write_text("x")
    await call(View(), doubles, file_path="a.py")
    assert servers.touched == [str(root / "a.py")]


async def test_view_suggests_similar_names(doubles: ToolDoubles, root: Path) -> None:
    for name in ("settings.py", "Makefile", "other"):
        (root / name).write_text("")
    with pytest.raises(ToolRefusal, match=r"does not exist\. Did you mean: .*/settings\.py\?"):
        await call(View(), doubles, file_path="setting.py")
    with pytest.raises(ToolRefusal, match=r"Did you mean: .*/Makefile\?"):
        await call(View(), doubles, file_path="makefile")
    with pytest.raises(ToolRefusal, match=r"does not exist\.$"):
        await call(View(), doubles, file_path="zzz")
    with pytest.raises(ToolRefusal, match="folder does not exist"):
        await call(View(), doubles, file_path="no/f")


async def test_view_asks_only_outside(doubles: ToolDoubles, root: Path) -> None:
    (root / "way").symlink_to(root.parent)
    (root / "back").symlink_to(root / "f")
    tool = View()
    assert await tool.required_permission(tool.parse({"file_path": "f"}), doubles.context) is None
    assert (
        await tool.required_permission(tool.parse({"file_path": "back"}), doubles.context) is None
    )
    for path in ("way/f", "../f", str(root.parent / "f"), f"{root}-neighbour"):
        question = await tool.required_permission(tool.parse({"file_path": path}), doubles.context)
        assert question is not None
        assert (question.action, question.params) == (
            "read",
            {"file_path": path, "offset": 0, "limit": 200},
        )
        assert Path(question.path).parent == root.parent


@pytest.mark.parametrize(("tool", "field"), [(View(), "file_path"), (Ls(), "path")])
async def test_it_holds_to_the_path_that_was_judged(
    doubles: ToolDoubles, root: Path, tool: Any, field: str
) -> None:
    (root / "f").write_text("")
    (root / "way").symlink_to("f")
    assert await tool.required_permission(tool.parse({field: "way"}), doubles.context) is None
    (root / "way").unlink()
    (root / "way").symlink_to(root.parent)
    with pytest.raises(ToolRefusal, match="path or the file has changed"):
        await call(tool, doubles, **{field: "way"})


async def test_ls_draws_a_tree(doubles: ToolDoubles, root: Path) -> None:
    for path in ("a/b/c.txt", "a/d.log", "node_modules/x/y.js", ".git/config", "z"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("")
    (root / "way").symlink_to("/")
    outcome = await call(Ls(), doubles, ignore=["*.log"])
    assert outcome.content.splitlines() == [
        f"- {root}/",
        "  - .git/ (not listed)",
        "  - a/",
        "    - b/",
        "      - c.txt",
        "  - node_modules/ (not listed)",
        "  - way (link)",
        "  - z",
    ]
    assert outcome.metadata == {"number_of_files": 7, "truncated": False}
    shallow = await call(Ls(), doubles, path="a", depth=1)
    assert shallow.content.splitlines()[1:] == ["  - b/", "  - d.log"]


async def test_ls_shows_the_upper_part_of_a_large_tree(doubles: ToolDoubles, root: Path) -> None:
    for n in range(1_500):
        (root / "big").mkdir(exist_ok=True)
        (root / "big" / f"{n:04}").write_text("")
    (root / "small").mkdir()
    outcome = await call(Ls(), doubles)
    assert outcome.metadata == {"number_of_files": 1_000, "truncated": True}
    assert "  - small/" in outcome.content.splitlines()
    assert "Only 1,000 entries" in outcome.content


async def test_ls_survives_odd_names_and_depths(doubles: ToolDoubles, root: Path) -> None:
    (root / "a\nb").write_text("")
    Path(os.fsdecode(os.fsencode(root) + b"/\xff")).write_text("")
    deep = root
    for _ in range(150):
        deep = deep / "d"
    deep.mkdir(parents=True)
    outcome = await call(Ls(), doubles)
    outcome.content.encode()
    assert r"  - a\nb" in outcome.content.splitlines()


async def test_ls_asks_only_outside(doubles: ToolDoubles, root: Path) -> None:
    tool = Ls()
    assert await tool.required_permission(tool.parse({}), doubles.context) is None
    question = await tool.required_permission(tool.parse({"path": ".."}), doubles.context)
    assert question is not None
    assert (question.action, question.path) == ("list", str(root.parent))
    assert question.params == {"path": "..", "ignore": [], "depth": 0}


@pytest.mark.parametrize("path", ["nowhere", "f", "/proc/self"])
async def test_ls_refuses_what_is_no_folder(doubles: ToolDoubles, root: Path, path: str) -> None:
    (root / "f").write_text("")
    with pytest.raises(ToolRefusal):
        await call(Ls(), doubles, path=path)


def test_ls_refuses_patterns_that_are_too_much() -> None:
    with pytest.raises(BadArguments, match="ignore"):
        Ls().parse({"ignore": ["{a,b}" * 20]})


async def test_todos_tells_what_is_new(doubles: ToolDoubles) -> None:
    first = [
        {"content": "A", "status": "in_progress", "active_form": "Doing A"},
        {"content": "B", "status": "pending", "active_form": "Doing B"},
    ]
    outcome = await call(Todos(), doubles, todos=first)
    assert outcome.metadata == {
        "is_new": True,
        "todos": first,
        "just_started": "Doing A",
        "completed": 0,
        "total": 2,
    }
    second = [{**first[0], "status": "completed"}, {**first[1], "status": "in_progress"}]
    outcome = await call(Todos(), doubles, todos=second)
    assert outcome.metadata == {
        "is_new": False,
        "todos": second,
        "just_completed": ["A"],
        "just_started": "Doing B",
        "completed": 1,
        "total": 2,
    }
    assert doubles.todos.todos[0] == Todo("A", "completed", "Doing A")
    again = await call(Todos(), doubles, todos=second)
    assert again.metadata is not None
    assert not {"just_completed", "just_started"} & again.metadata.keys()


@pytest.mark.parametrize(
    "todos",
    [
        None,
        [{"content": "A"}],
        [{"content": "A", "status": "done", "active_form": ""}],
        [{"content": "", "status": "pending", "active_form": ""}],
        [1],
    ],
)
def test_todos_refuses_what_does_not_fit(todos: object) -> None:
    with pytest.raises(BadArguments, match="todos"):
        Todos().parse({"todos": todos})


async def test_ls_leaves_the_servers_own_folders_out(doubles: ToolDoubles, root: Path) -> None:
    for name in (".crush", "deep/.crush", "data", "src"):
        (root / name).mkdir(parents=True)
        (root / name / "inside").write_text("")
    context = dataclasses.replace(doubles.context, data_dir=str(root / "data"))
    own = dataclasses.replace(doubles, context=context)
    shown = (await call(Ls(), own)).content
    assert ".crush" not in shown
    assert "data" not in shown.replace(str(root), "")
    assert "src/" in shown
    assert "inside" in (await call(Ls(), own, path=".crush")).content


@pytest.mark.parametrize(
    ("asked", "is_suggested"), [("log", True), ("lo", False), ("my.catalogues", True)]
)
async def test_view_suggests_names_that_hold_what_was_asked_for(
    doubles: ToolDoubles, root: Path, asked: str, is_suggested: bool
) -> None:
    (root / "catalogue").write_text("")
    with pytest.raises(ToolRefusal) as refused:
        await call(View(), doubles, file_path=asked)
    assert ("Did you mean" in str(refused.value)) is is_suggested
