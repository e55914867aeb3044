import os
from pathlib import Path

import pytest

from agents.tools.contract import ToolRefusal
from agents.tools.files.paths import is_inside, is_kernel_path, resolve, shown
from tests.doubles.tool_context import make_tool_doubles


def test_it_resolves_against_the_working_folder(tmp_path: Path) -> None:
    context = make_tool_doubles(tmp_path).context
    assert resolve("", context) == tmp_path.resolve()
    assert resolve("a/../b", context) == tmp_path.resolve() / "b"
    assert resolve("/a//b/", context) == Path("/a/b")
    assert resolve("~/a", context) == tmp_path.resolve() / "a"


def test_it_judges_a_path_where_its_links_lead(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (inside / "link").symlink_to(outside)
    context = make_tool_doubles(inside).context
    path = resolve("link/new/file", context)
    assert path == outside.resolve() / "new" / "file"
    assert not is_inside(path, context.working_dir)
    assert shown(path, context) == str(path)
    assert shown(resolve("new", context), context) == "new"


def test_it_takes_no_neighbour_for_inside() -> None:
    assert is_inside(Path("/a/b"), Path("/a/b"))
    assert not is_inside(Path("/a/bc"), Path("/a/b"))


@pytest.mark.parametrize("path", ["a\0b", "a/" * 3_000, "a" * 256, "\ud800"])
def test_it_refuses_what_no_disk_takes(tmp_path: Path, path: str) -> None:
    with pytest.raises(ToolRefusal):
        resolve(path, make_tool_doubles(tmp_path).context)


def test_it_takes_the_longest_names_that_a_disk_takes(tmp_path: Path) -> None:
    context = make_tool_doubles(tmp_path).context
    assert resolve("a" * 255, context).name == "a" * 255
    longest = "/" + "a/" * 2_047 + "a"
    assert len(longest) == 4_096
    assert str(resolve(longest, context)) == longest
    for path in (longest + "a", "é" * 128, "a/" + "b" * 256 + "/c"):
        with pytest.raises(ToolRefusal, match="too long"):
            resolve(path, context)


def test_a_tilde_stands_for_home_only_at_the_beginning(tmp_path: Path) -> None:
    context = make_tool_doubles(tmp_path / "work", env={"HOME": "/home/me"}).context
    assert resolve("~", context) == Path("/home/me")
    assert resolve("~/a", context) == Path("/home/me/a")
    for name in ("~other/a", "a~", "~a"):
        assert resolve(name, context) == context.working_dir / name


@pytest.mark.parametrize("home", ["", "relative"])
def test_a_tilde_without_a_home_is_a_name(tmp_path: Path, home: str) -> None:
    context = make_tool_doubles(tmp_path, env={"HOME": home}).context
    assert resolve("~/a", context) == context.working_dir / "~" / "a"


def test_it_refuses_a_link_to_a_name_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(os.fsdecode(b"\xff"))
    with pytest.raises(ToolRefusal, match="not UTF-8"):
        resolve("link", make_tool_doubles(tmp_path).context)


def test_the_working_folder_itself_is_shown_as_a_dot(tmp_path: Path) -> None:
    context = make_tool_doubles(tmp_path).context
    assert shown(context.working_dir, context) == "."


def test_it_survives_a_loop_of_links(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert resolve("a/c", make_tool_doubles(tmp_path).context).is_absolute()


@pytest.mark.parametrize(
    ("path", "is_kernels"),
    [
        ("/proc", True),
        ("/proc/self/environ", True),
        ("/sys/kernel", True),
        ("/dev/null", True),
        ("/dev/shm", False),
        ("/dev/shm/x", False),
        ("/devices", False),
        ("/home/proc", False),
    ],
)
def test_it_knows_what_is_no_file_on_a_disk(path: str, is_kernels: bool) -> None:
    assert is_kernel_path(Path(path)) is is_kernels
