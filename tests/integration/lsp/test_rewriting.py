"""Renames and replacements with a real language server, in files of every form."""

import sys
from pathlib import Path

import pytest

from agents.config.settings import LspSettings
from agents.tools.contract import BadArguments, ToolRefusal
from agents.tools.lsp.tools import tools_of
from tests.integration.lsp.conftest import Bench, MakeBench

PYRIGHT = str(Path(sys.executable).parent / "basedpyright-langserver")
SETTINGS = LspSettings("py", command=PYRIGHT, args=("--stdio",), filetypes=("python",))
CODE = "def first() -> int:\n    return 1\n\n\ndef second() -> int:\n    return first()\n"


@pytest.fixture
def bench(make_bench: MakeBench) -> Bench:
    return make_bench(SETTINGS)


async def test_line_ends_and_encodings_survive(bench: Bench) -> None:
    windows = bench.write("a.py", CODE.replace("\n", "\r\n"))
    other = bench.root / "b.py"
    other.write_bytes(b"\xef\xbb\xbf" + "from a import first\n\nx = 'é', first()\n".encode())
    await bench.call("lsp_rename", symbol="first", new_name="erste")
    assert windows.read_bytes() == CODE.replace("first", "erste").replace("\n", "\r\n").encode()
    assert other.read_bytes() == (
        b"\xef\xbb\xbf" + "from a import erste\n\nx = 'é', erste()\n".encode()
    )
    (question,) = bench.asked
    assert question.description == "Rename first to erste in 2 files: a.py, b.py"
    assert {Path(path).name for path, _, _ in bench.doubles.files.versions} == {"a.py", "b.py"}
    bench.mark_read(windows)
    replacement = "def second() -> int:\n    return erste() + 1"
    await bench.call(
        "lsp_replace_symbol", symbol="second", file_path="a.py", replacement=replacement
    )
    assert windows.read_bytes().count(b"\r\n") == windows.read_bytes().count(b"\n")


async def test_a_file_that_the_session_saw_otherwise_is_not_renamed_in(bench: Bench) -> None:
    path = bench.write("a.py", CODE)
    bench.mark_read(path)
    path.write_text(f"# new\n{CODE}")
    with pytest.raises(ToolRefusal, match="has changed since it was read"):
        await bench.call("lsp_rename", symbol="first", new_name="erste")
    assert path.read_text() == f"# new\n{CODE}"


async def test_a_change_after_the_question_is_refused(bench: Bench) -> None:
    path = bench.write("a.py", CODE)
    tool = tools_of(bench.servers)["lsp_rename"]
    args = tool.parse({"symbol": "first", "new_name": "erste"})
    await tool.required_permission(args, bench.doubles.context)
    path.write_text(f"{CODE}\n\nthird = first()\n")
    with pytest.raises(ToolRefusal, match="changed since permission for it was checked"):
        await tool.run(args, bench.doubles.context)
    assert "erste" not in path.read_text()


async def test_links_that_leave_the_workspace_are_not_followed(
    bench: Bench, tmp_path: Path
) -> None:
    outside = tmp_path / "outside.py"
    outside.write_text(CODE)
    (bench.root / "link.py").symlink_to(outside)
    for tool in ("lsp_symbols", "lsp_diagnostics"):
        with pytest.raises(ToolRefusal, match="outside of the working directory"):
            await bench.call(tool, file_path="link.py")
    with pytest.raises(ToolRefusal, match="outside of the working directory"):
        await bench.call("lsp_references", symbol="first", path="link.py")


async def test_a_definition_outside_of_the_workspace_is_named_and_not_quoted(bench: Bench) -> None:
    bench.write("a.py", "import json\n\njson.dumps({})\n")
    found = await bench.call("lsp_definition", symbol="dumps")
    assert "json/__init__.py" in found.content
    assert found.metadata is not None
    assert found.metadata["content"] == ""


async def test_names_that_several_symbols_have_must_be_told_apart(bench: Bench) -> None:
    text = (
        "class A:\n    def run(self) -> None: ...\n\n\nclass B:\n    def run(self) -> None: ...\n"
    )
    path = bench.write("a.py", text)
    bench.mark_read(path)
    with pytest.raises(ToolRefusal, match=r"has 2 symbols run: A\.run on line 2; B\.run on"):
        await bench.call("lsp_replace_symbol", symbol="run", file_path="a.py", action="delete")
    done = await bench.call(
        "lsp_replace_symbol", symbol="B.run", file_path="a.py", replacement="x = 1"
    )
    assert path.read_text().endswith("class B:\n    x = 1\n")
    assert done.metadata is not None
    assert done.metadata["action"] == "replace"


@pytest.mark.parametrize(
    ("tool", "arguments", "sentence"),
    [
        ("lsp_references", {"symbol": "  "}, "symbol must not be empty"),
        ("lsp_references", {"symbol": "x" * 999}, "symbol is too long"),
        ("lsp_rename", {"symbol": "a", "new_name": None}, "new_name is missing"),
        ("lsp_call_hierarchy", {"symbol": "a", "direction": "x"}, "direction must be"),
        ("lsp_replace_symbol", {"symbol": "a", "file_path": "b"}, "replacement is missing"),
        (
            "lsp_replace_symbol",
            {"symbol": "a", "file_path": "b", "action": "explode"},
            "action must be one of replace, add_before, add_after, delete",
        ),
        ("lsp_diagnostics", {"file_path": []}, "file_path must be a string, not a list"),
        ("lsp_restart", {"name": 1}, "name must be a string, not a number"),
    ],
)
async def test_wrong_arguments_are_named(
    tool: str, arguments: dict[str, object], sentence: str, bench: Bench
) -> None:
    with pytest.raises(BadArguments, match=sentence):
        await bench.call(tool, **arguments)


async def test_nothing_is_restarted_that_was_never_started(bench: Bench) -> None:
    with pytest.raises(ToolRefusal, match="No language server has been started yet"):
        await bench.call("lsp_restart")
    with pytest.raises(ToolRefusal, match="No language server is running yet"):
        await bench.call("lsp_diagnostics")
    await bench.servers.refresh()
    with pytest.raises(ToolRefusal, match="there are: py"):
        await bench.call("lsp_restart", name="go")
