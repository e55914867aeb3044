"""Edit, multiedit and write on real files."""

import asyncio
import dataclasses
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from agents.tools.contract import BadArguments, FileMark, ToolRefusal
from agents.tools.files.edit import Edit
from agents.tools.files.multiedit import MultiEdit
from agents.tools.files.view import View
from agents.tools.files.write import Write, WriteArgs
from agents.tools.web.download import Download
from tests.doubles.file_tracker import MemoryFileTracker
from tests.doubles.tool_context import ToolDoubles, make_tool_doubles
from tests.integration.tools.calling import call, required_permission, view

EVERY = [
    (Edit(), {"old_string": "one", "new_string": "two"}),
    (MultiEdit(), {"edits": [{"old_string": "one", "new_string": "two"}]}),
    (Write(), {"content": "two\n"}),
]


@pytest.mark.parametrize(("tool", "given"), EVERY)
async def test_it_asks_with_old_and_new(
    tool: Any, given: Any, doubles: ToolDoubles, root: Path
) -> None:
    (root / "f").write_text("one\n")
    await view(doubles, "f")
    question = await required_permission(tool, doubles, file_path="f", **given)
    assert question is not None
    assert (question.tool_name, question.action) == (tool.spec.name, "write")
    assert question.path == str(root)
    assert question.params == {
        "file_path": str(root / "f"),
        "old_content": "one\n",
        "new_content": "two\n",
    }
    assert (root / "f").read_text() == "one\n"


@pytest.mark.parametrize(("tool", "given"), EVERY)
async def test_it_changes_and_records(
    tool: Any, given: Any, doubles: ToolDoubles, root: Path
) -> None:
    (root / "f").write_text("one\n")
    await view(doubles, "f")
    outcome = await call(tool, doubles, file_path="f", **given)
    assert not outcome.is_error
    assert (root / "f").read_text() == "two\n"
    assert doubles.files.versions == [(str(root / "f"), "one\n", "two\n")]
    status = (root / "f").stat()
    assert doubles.files.marks[str(root / "f")] == FileMark(status.st_mtime_ns, status.st_size)


@pytest.mark.parametrize(("tool", "given"), EVERY)
async def test_it_refuses_a_file_not_read(
    tool: Any, given: Any, doubles: ToolDoubles, root: Path
) -> None:
    (root / "f").write_text("one\n")
    for step in (required_permission, call):
        with pytest.raises(ToolRefusal, match="has not been read"):
            await step(tool, doubles, file_path="f", **given)


@pytest.mark.parametrize(("tool", "given"), EVERY)
async def test_it_refuses_a_file_changed_since(
    tool: Any, given: Any, doubles: ToolDoubles, root: Path
) -> None:
    (root / "f").write_text("one\n")
    await view(doubles, "f")
    await required_permission(tool, doubles, file_path="f", **given)
    (root / "f").write_text("one\nmore\n")
    for step in (required_permission, call):
        with pytest.raises(ToolRefusal, match="has changed since"):
            await step(tool, doubles, file_path="f", **given)
    assert (root / "f").read_text() == "one\nmore\n"


@pytest.mark.parametrize(("tool", "given"), EVERY)
async def test_it_may_change_again_what_it_changed(
    tool: Any, given: Any, doubles: ToolDoubles, root: Path
) -> None:
    (root / "f").write_text("one\n")
    await view(doubles, "f")
    await call(tool, doubles, file_path="f", **given)
    await call(Edit(), doubles, file_path="f", old_string="two", new_string="three")
    assert (root / "f").read_text() == "three\n"


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        (Edit(), {"old_string": "", "new_string": "new\n"}),
        (MultiEdit(), {"edits": [{"old_string": "", "new_string": "new\n"}]}),
        (Write(), {"content": "new\n"}),
    ],
)
async def test_it_creates_without_reading(
    tool: Any, given: Any, doubles: ToolDoubles, root: Path
) -> None:
    question = await required_permission(tool, doubles, file_path="a/b/f", **given)
    assert question is not None
    assert question.params["old_content"] == ""
    assert not (root / "a").exists()
    await call(tool, doubles, file_path="a/b/f", **given)
    assert (root / "a/b/f").read_text() == "new\n"
    assert doubles.files.versions == [(str(root / "a/b/f"), None, "new\n")]


@pytest.mark.parametrize(("tool", "given"), EVERY)
async def test_it_asks_for_the_file_itself_outside(
    tool: Any, given: Any, doubles: ToolDoubles, root: Path
) -> None:
    outside = root.parent / "outside"
    outside.write_text("one\n")
    (root / "link").symlink_to(outside)
    await view(doubles, "link")
    question = await required_permission(tool, doubles, file_path="link", **given)
    assert question is not None
    assert question.path == str(outside)
    await call(tool, doubles, file_path="link", **given)
    assert outside.read_text() == "two\n"
    assert (root / "link").is_symlink()


@pytest.mark.parametrize(("tool", "given"), EVERY)
async def test_it_holds_to_the_path_that_was_asked_for(
    tool: Any, given: Any, doubles: ToolDoubles, root: Path
) -> None:
    for name in ("asked", "other"):
        (root / name).mkdir()
        (root / name / "f").write_text("one\n")
        await view(doubles, f"{name}/f")
    (root / "way").symlink_to("asked")
    await required_permission(tool, doubles, file_path="way/f", **given)
    (root / "way").unlink()
    (root / "way").symlink_to("other")
    with pytest.raises(ToolRefusal, match="path or the file has changed"):
        await call(tool, doubles, file_path="way/f", **given)
    assert (root / "other/f").read_text() == "one\n"


async def test_it_holds_to_the_state_that_was_asked_about(doubles: ToolDoubles, root: Path) -> None:
    (root / "f").write_text("one\n")
    await view(doubles, "f")
    await required_permission(Write(), doubles, file_path="f", content="two\n")
    (root / "f").write_text("another\n")
    elsewhere = dataclasses.replace(doubles.context, call_id="another call")
    await View().run(View().parse({"file_path": "f"}), elsewhere)
    with pytest.raises(ToolRefusal, match="has changed"):
        await call(Write(), doubles, file_path="f", content="two\n")
    assert (root / "f").read_text() == "another\n"


async def test_write_tells_its_diff(doubles: ToolDoubles, root: Path) -> None:
    (root / "f").write_text("a\n")
    await view(doubles, "f")
    outcome = await call(Write(), doubles, file_path="f", content="b\nc\n")
    assert outcome.metadata == {
        "diff": "--- a/f\n+++ b/f\n@@ -1 +1,2 @@\n-a\n+b\n+c\n",
        "additions": 2,
        "removals": 1,
    }


async def test_write_refuses_what_is_there_already(doubles: ToolDoubles, root: Path) -> None:
    (root / "f").write_text("a\n")
    await view(doubles, "f")
    with pytest.raises(ToolRefusal, match="already has exactly this"):
        await required_permission(Write(), doubles, file_path="f", content="a\n")


async def test_write_refuses_what_is_no_place_for_a_file(doubles: ToolDoubles, root: Path) -> None:
    (root / "file").write_text("")
    for path in (".", "file/inner", "/proc/self/comm"):
        with pytest.raises(ToolRefusal):
            await required_permission(Write(), doubles, file_path=path, content="a")


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        (Edit(), {"file_path": "f", "old_string": "a"}),
        (Edit(), {"file_path": "", "old_string": "a", "new_string": "b"}),
        (MultiEdit(), {"file_path": "f", "edits": []}),
        (MultiEdit(), {"file_path": "f", "edits": [{"old_string": "a"}]}),
        (MultiEdit(), {"file_path": "f", "edits": "none"}),
        (Write(), {"file_path": "f"}),
        (Write(), {"file_path": "f", "content": "x" * 3_000_000}),
    ],
)
def test_it_refuses_arguments_that_do_not_fit(tool: Any, given: dict[str, Any]) -> None:
    with pytest.raises(BadArguments):
        tool.parse(given)


async def test_a_change_once_begun_is_recorded_even_when_cancelled(root: Path) -> None:
    class SlowTracker(MemoryFileTracker):
        async def record_change(self, *args: Any, **options: Any) -> None:
            written.set()
            await go_on.wait()
            await super().record_change(*args, **options)

    written, go_on = asyncio.Event(), asyncio.Event()
    tracker = SlowTracker()
    context = dataclasses.replace(make_tool_doubles(root).context, files=tracker)
    task = asyncio.ensure_future(Write().run(WriteArgs("f", "new"), context))
    await written.wait()
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (root / "f").read_text() == "new"
    assert tracker.versions == [(str(root / "f"), None, "new")]


async def test_a_small_edit_is_asked_about_in_a_few_milliseconds(
    doubles: ToolDoubles, root: Path
) -> None:
    (root / "f").write_text("line\n" * 2_000 + "one\n")
    await view(doubles, "f")
    took: list[float] = []
    for _ in range(20):
        began = time.perf_counter()
        await required_permission(
            Edit(), doubles, file_path="f", old_string="one", new_string="two"
        )
        took.append(time.perf_counter() - began)
    assert min(took) < 0.2  # a hundredth of that on a quiet machine


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
async def test_it_says_that_it_may_not_write(doubles: ToolDoubles, root: Path) -> None:
    root.chmod(0o500)
    with pytest.raises(ToolRefusal, match="cannot be written: Permission denied"):
        await call(Write(), doubles, file_path="f", content="a")


class Servers:
    """Language servers that see a fault in every file."""

    def touch(self, path: str) -> None:
        raise AssertionError(path)

    async def after_change(self, path: str) -> str:
        return f"1 fault in {Path(path).name}"


@pytest.mark.parametrize(("tool", "given"), EVERY)
async def test_it_ends_with_what_language_servers_say(
    tool: Any, given: Any, doubles: ToolDoubles, root: Path
) -> None:
    (root / "f").write_text("one\n")
    await view(doubles, "f")
    doubles = dataclasses.replace(
        doubles, context=dataclasses.replace(doubles.context, languages=Servers())
    )
    told = (await call(tool, doubles, file_path="f", **given)).content
    assert told.endswith("\n\n1 fault in f")


@pytest.mark.parametrize(("tool", "given"), EVERY)
async def test_a_link_stays_a_link(tool: Any, given: Any, doubles: ToolDoubles, root: Path) -> None:
    (root / "real").mkdir()
    (root / "real" / "f").write_text("one\n")
    (root / "link").symlink_to("real/f")
    await view(doubles, "link")
    question = await required_permission(tool, doubles, file_path="link", **given)
    assert question is not None
    assert question.path == str(root)
    await call(tool, doubles, file_path="link", **given)
    assert (root / "link").is_symlink()
    assert (root / "real" / "f").read_text() == "two\n"
    assert [version[0] for version in doubles.files.versions] == [str(root / "real" / "f")]


@pytest.mark.parametrize(("tool", "given"), EVERY)
async def test_a_link_out_of_the_workspace_is_asked_for(
    tool: Any, given: Any, doubles: ToolDoubles, root: Path
) -> None:
    outside = root.parent / "outside"
    outside.write_text("one\n")
    (root / "link").symlink_to(outside)
    await view(doubles, "link")
    question = await required_permission(tool, doubles, file_path="link", **given)
    assert question is not None
    assert question.path == str(outside)


@pytest.mark.parametrize("content", ["1\r\n2\r\n", "1\n2\n", "1\r\n2\n", "1\r2\r"])
async def test_write_keeps_the_line_ends_of_the_file(
    doubles: ToolDoubles, root: Path, content: str
) -> None:
    (root / "f").write_bytes(b"one\r\n")
    await view(doubles, "f")
    await call(Write(), doubles, file_path="f", content=content)
    assert (root / "f").read_bytes() == b"1\r\n2\r\n"


OUTSIDE = [
    (Edit(), {"old_string": "one", "new_string": "two"}),
    (Edit(), {"old_string": "", "new_string": "two"}),
    (MultiEdit(), {"edits": [{"old_string": "one", "new_string": "two"}]}),
    (MultiEdit(), {"edits": [{"old_string": "", "new_string": "two"}]}),
    (Write(), {"content": "two"}),
    (Download(), {"url": "https://example.org/x"}),
]


@pytest.mark.parametrize(("tool", "given"), OUTSIDE)
@pytest.mark.parametrize("kind", ["file", "folder"])
async def test_before_permission_nothing_tells_whether_an_outside_file_exists(
    tool: Any, given: Any, kind: str, doubles: ToolDoubles, tmp_path: Path
) -> None:
    async def answer() -> object:
        try:
            question = await required_permission(tool, doubles, file_path=str(there), **given)
        except ToolRefusal as refusal:
            return str(refusal)
        assert question is not None
        return question

    there = tmp_path / "outside"
    missing = await answer()
    if kind == "file":
        there.write_text("one")
    else:
        there.mkdir()
    assert await answer() == missing


async def test_a_question_says_which_files_it_is_about_and_whether_it_always_asks(
    doubles: ToolDoubles, root: Path
) -> None:
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    subprocess.run(["git", "config", "core.hooksPath", "my/hooks"], cwd=root, check=True)
    (root / "link").symlink_to(".git")
    (root / "guard.sh").touch()
    (root / "inner.py").touch()
    context = dataclasses.replace(
        doubles.context,
        skill_folders=(str(root / "abilities"),),
        hook_commands=("FOO=1 sh -c './guard.sh \"$X\"'", 'python3 "$CRUSH_PROJECT_DIR/inner.py"'),
        data_dir=str(root / "state"),
    )
    asked = {}
    for name in ("a.txt", "link/x", ".git/x", "my/hooks/x", "abilities/x", "guard.sh", "inner.py",
                 "GUARD.sh", "state/crush", "src/b.txt"):  # fmt: skip
        if (root / name).exists():
            viewing = dataclasses.replace(context, call_id=f"view {name}")
            await View().run(View().parse({"file_path": name}), viewing)
        tool = Write()
        question = await tool.required_permission(
            tool.parse({"file_path": name, "content": "x"}), context
        )
        assert question is not None
        asked[name] = question.always_asks
        assert question.files == (os.path.realpath(root / name),)
    assert [name for name, always in asked.items() if not always] == ["a.txt", "src/b.txt"]
