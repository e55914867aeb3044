"""Glob and grep, with ripgrep and without: both must find the same."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agents.tools.contract import BadArguments, ToolRefusal
from agents.tools.search import search_process
from agents.tools.search.files import list_files
from agents.tools.search.glob import Glob
from agents.tools.search.grep import Grep
from agents.tools.search.search_process import search
from tests.doubles.tool_context import ToolDoubles, make_tool_doubles
from tests.integration.tools.calling import call

BINARIES = [
    pytest.param(None, id="python"),
    pytest.param(
        search_process.binary(),
        id="ripgrep",
        marks=pytest.mark.skipif(search_process.binary() is None, reason="no ripgrep"),
    ),
]


@pytest.fixture(params=BINARIES)
def glob(request: pytest.FixtureRequest) -> Glob:
    return Glob(binary=request.param)


@pytest.fixture(params=BINARIES)
def grep(request: pytest.FixtureRequest) -> Grep:
    return Grep(binary=request.param)


def make(root: Path, **files: str) -> None:
    """Files by path; the first is the newest."""
    for age, (path, content) in enumerate(files.items()):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content)
        os.utime(root / path, (1_000_000 - age, 1_000_000 - age))


async def found(tool: Any, doubles: ToolDoubles, **given: Any) -> list[str]:
    outcome = await call(tool, doubles, **given)
    if outcome.content.startswith("No "):
        return []
    if isinstance(tool, Glob):
        return outcome.content.split("\n")
    blocks = outcome.content.split("\n\n")[1:]
    return [
        block.split(":\n")[0] + ":" + number
        for block in blocks
        for number in re.findall(r"^  Line (\d+): ", block, re.MULTILINE)
    ]


async def test_glob_finds_the_newest_first(doubles: ToolDoubles, root: Path, glob: Glob) -> None:
    make(root, **{"b.py": "", "deep/er/a.py": "", "c.txt": "", "a.py": ""})
    assert await found(glob, doubles, pattern="*.py") == ["b.py", "deep/er/a.py", "a.py"]
    assert await found(glob, doubles, pattern="deep/**/*.py") == ["deep/er/a.py"]
    assert await found(glob, doubles, pattern="*.{txt,md}") == ["c.txt"]
    assert await found(glob, doubles, pattern="*.py", path="deep") == ["deep/er/a.py"]
    assert await found(glob, doubles, pattern="nothing") == []


async def test_glob_leaves_out_ignored_and_hidden(
    doubles: ToolDoubles, root: Path, glob: Glob
) -> None:
    make(
        root,
        **{
            ".gitignore": "*.log\n/build/\n!keep.log\n",
            "a.log": "",
            "keep.log": "",
            "build/x": "",
            "sub/build/y": "",
            "sub/.gitignore": "*.tmp\n",
            "sub/z.tmp": "",
            "z.tmp": "",
            ".hidden/h": "",
            ".github/flow.yml": "",
            ".git/config": "",
        },
    )
    assert sorted(await found(glob, doubles, pattern="**")) == ["keep.log", "sub/build/y", "z.tmp"]
    assert await found(glob, doubles, pattern=".github/**") == [".github/flow.yml"]
    assert await found(glob, doubles, pattern=".git/*") == []
    # The rules of the repository's root hold in a search below it, too.
    make(root, **{"sub/b.log": ""})
    assert sorted(await found(glob, doubles, pattern="*", path="sub")) == ["sub/build/y"]


async def test_glob_keeps_gitignore_outside_of_a_repository(
    doubles: ToolDoubles, root: Path, glob: Glob
) -> None:
    make(root, **{".gitignore": "a\n", "a": "", "b": ""})
    make(root.parent, **{".gitignore": "b\n"})
    assert await found(glob, doubles, pattern="*") == ["b"]


async def test_it_follows_no_link(doubles: ToolDoubles, root: Path, glob: Glob, grep: Grep) -> None:
    make(root.parent, **{"outside/secret.txt": "secret\n"})
    (root / "way").symlink_to(root.parent / "outside")
    (root / "file.txt").symlink_to(root.parent / "outside" / "secret.txt")
    assert await found(glob, doubles, pattern="**/*.txt") == []
    assert await found(grep, doubles, pattern="secret") == []


async def test_it_asks_only_outside(
    doubles: ToolDoubles, root: Path, glob: Glob, grep: Grep
) -> None:
    make(root.parent, **{"outside/secret.txt": "secret\n"})
    outside = root.parent / "outside"
    (root / "way").symlink_to(outside)
    for tool, action, more in (
        (glob, "list", {}),
        (grep, "read", {"include": "", "literal_text": False}),
    ):
        for path in ("way", str(outside), "../outside"):
            args = tool.parse({"pattern": "*.txt" if tool is glob else "sec", "path": path})
            question = await tool.required_permission(args, doubles.context)
            assert question is not None
            assert (question.action, question.path) == (action, str(outside))
            assert question.params["path"] == path
            assert more.items() <= question.params.items()
            outcome = await tool.run(args, doubles.context)
            assert "secret.txt" in outcome.content
    args = grep.parse({"pattern": "x", "path": "/proc/self"})
    with pytest.raises(ToolRefusal, match="not a folder on a disk"):
        await grep.run(args, doubles.context)


async def test_it_holds_to_the_folder_that_was_judged(
    doubles: ToolDoubles, root: Path, glob: Glob, grep: Grep
) -> None:
    make(root.parent, **{"outside/secret.txt": "secret\n"})
    make(root, **{"inside/a.txt": "secret\n"})
    (root / "way").symlink_to("inside")
    for tool in (glob, grep):
        args = tool.parse({"pattern": "secret", "path": "way"})
        assert await tool.required_permission(args, doubles.context) is None
        (root / "way").unlink()
        (root / "way").symlink_to(root.parent / "outside")
        with pytest.raises(ToolRefusal, match="path or the file has changed"):
            await tool.run(args, doubles.context)
        (root / "way").unlink()
        (root / "way").symlink_to("inside")


async def test_ripgrep_does_not_begin_in_a_folder_that_was_swapped(
    doubles: ToolDoubles, root: Path
) -> None:
    """Between the last look at the path and its start: what a link leads to is not searched."""
    make(root.parent, **{"outside/secret.txt": "secret\n"})
    (root / "folder").symlink_to(root.parent / "outside")
    listing = await list_files(
        root / "folder", hidden=False, context=doubles.context, binary=search_process.binary()
    )
    assert listing.paths == []
    assert not listing.complete


async def test_glob_says_that_there_are_more(doubles: ToolDoubles, root: Path, glob: Glob) -> None:
    make(root, **{f"{n}": "" for n in range(150)})
    outcome = await call(glob, doubles, pattern="*")
    assert outcome.metadata == {"number_of_files": 100, "truncated": True}
    assert len(outcome.content.split("\n\n")[0].split("\n")) == 100


async def test_it_survives_odd_names(
    doubles: ToolDoubles, root: Path, glob: Glob, grep: Grep
) -> None:
    for name in (b"a\nb.txt", b"\xff.txt", b"-e.txt", b" .txt", b"a:1:b.txt"):
        with open(os.fsencode(root) + b"/" + name, "w") as file:  # noqa: PTH123
            file.write("needle\n")
    outcome = await call(glob, doubles, pattern="*.txt")
    outcome.content.encode()
    assert outcome.metadata == {"number_of_files": 5, "truncated": False}
    outcome = await call(grep, doubles, pattern="needle")
    outcome.content.encode()
    assert "-e.txt:\n  Line 1: needle" in outcome.content


async def test_glob_refuses_bad_arguments(doubles: ToolDoubles, root: Path, glob: Glob) -> None:
    for given in ({}, {"pattern": ""}, {"pattern": "{a,b}" * 20}, {"pattern": 1}):
        with pytest.raises(BadArguments, match="pattern"):
            glob.parse(given)
    with pytest.raises(ToolRefusal, match="does not exist"):
        await call(glob, doubles, pattern="*", path="nowhere")


async def test_grep_finds_lines(doubles: ToolDoubles, root: Path, grep: Grep) -> None:
    make(root, **{"new.py": "a\nfoo1\nfoo2\n", "old.py": "foo3\r\n", "x.txt": "foo4\n"})
    outcome = await call(grep, doubles, pattern=r"foo\d")
    assert outcome.content == (
        "Found 4 matches\n\nnew.py:\n  Line 2: foo1\n  Line 3: foo2\n\n"
        "old.py:\n  Line 1: foo3\n\nx.txt:\n  Line 1: foo4"
    )
    assert outcome.metadata == {"number_of_matches": 4, "truncated": False}
    assert await found(grep, doubles, pattern="foo", include="*.{txt,md}") == ["x.txt:1"]
    assert await found(grep, doubles, pattern="foo", path="old.py") == ["old.py:1"]
    assert await found(grep, doubles, pattern="bar") == []


async def test_grep_finds_in_the_folders_that_include_names(
    doubles: ToolDoubles, root: Path, grep: Grep
) -> None:
    make(root, **{"src/a.py": "x\n", "lib/a.py": "x\n", ".ci/a.yml": "x\n", "src/b.c": "x\n"})
    assert await found(grep, doubles, pattern="x", include="src/*.py") == ["src/a.py:1"]
    assert await found(grep, doubles, pattern="x", include="src/**") == ["src/a.py:1", "src/b.c:1"]
    assert await found(grep, doubles, pattern="x", include=".ci/**") == [".ci/a.yml:1"]
    assert await found(grep, doubles, pattern="x", include="[s]*.py") == []


async def test_grep_does_not_find_what_is_ignored_or_binary(
    doubles: ToolDoubles, root: Path, grep: Grep
) -> None:
    make(
        root,
        **{
            ".gitignore": "*.log\n",
            "a.log": "needle\n",
            ".hidden": "needle\n",
            "b": "needle\n\0",
            "c": "needle\n",
        },
    )
    assert await found(grep, doubles, pattern="needle") == ["c:1"]
    assert await found(grep, doubles, pattern="needle", include="*.log") == []


async def test_grep_takes_a_text_as_it_is(doubles: ToolDoubles, root: Path, grep: Grep) -> None:
    make(root, a="f(x)\nfx\n", b="--flag\n")
    assert await found(grep, doubles, pattern="f(x)", literal_text=True) == ["a:1"]
    assert await found(grep, doubles, pattern="--flag", literal_text=True) == ["b:1"]
    assert await found(grep, doubles, pattern="f(x)") == ["a:2"]


async def test_grep_says_that_a_pattern_is_broken(
    doubles: ToolDoubles, root: Path, grep: Grep
) -> None:
    make(root, a="x\n")
    with pytest.raises(ToolRefusal, match="not a valid regular expression"):
        await call(grep, doubles, pattern="f(")
    with pytest.raises(BadArguments, match="pattern"):
        grep.parse({"pattern": ""})


async def test_grep_cuts_long_lines_and_many(doubles: ToolDoubles, root: Path, grep: Grep) -> None:
    make(root, a="needle " + "x" * 100_000 + "\n", b="needle\n" * 500)
    outcome = await call(grep, doubles, pattern="needle")
    assert outcome.metadata == {"number_of_matches": 100, "truncated": True}
    assert len(outcome.content) < 10_000


async def test_it_heeds_no_configuration_of_the_users(root: Path, grep: Grep) -> None:
    (root / "rc").write_text("--invert-match\n")
    make(root, a="needle\n")
    doubles = make_tool_doubles(root, env={"RIPGREP_CONFIG_PATH": str(root / "rc")})
    assert await found(grep, doubles, pattern="needle", include="a") == ["a:1"]


async def test_both_agree_with_git(doubles: ToolDoubles, root: Path, glob: Glob) -> None:
    rules = "*.o\n!keep.o\n/top\nsub/deep/\n**/any/x\n# note\n\\#odd\ntrail \n"
    paths = ["a.o", "keep.o", "top", "sub/top", "sub/deep/f", "x/sub/deep/f", "q/any/x", "#odd"]
    make(root, **{".gitignore": rules, **dict.fromkeys(paths, "")})
    env = {"PATH": os.environ["PATH"], "HOME": str(root), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "init", "-q", root], check=True, env=env)
    listed = subprocess.run(
        ["git", "-C", root, "ls-files", "-co", "--exclude-standard"],
        check=True,
        env=env,
        capture_output=True,
        text=True,
    ).stdout.split("\n")
    expected = {path for path in listed if path and not path.startswith(".")}
    assert set(await found(glob, doubles, pattern="**")) == expected


async def test_a_search_that_prints_without_end_is_stopped(
    doubles: ToolDoubles, root: Path
) -> None:
    searched = await search(["yes"], root=root, context=doubles.context, limit_bytes=1_000)
    assert searched.output == b"y\n" * 500
    assert not searched.complete


async def test_a_search_that_prints_little_is_complete(doubles: ToolDoubles, root: Path) -> None:
    searched = await search(["echo", "a"], root=root, context=doubles.context, limit_bytes=2)
    assert (searched.output, searched.complete) == (b"a\n", True)
