"""Folders are watched by the kernel, for files that may not exist yet."""

import queue
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agents.config.watch import CannotWatch, FileWatch, watched


class Heard:
    def __init__(self) -> None:
        self.paths: queue.SimpleQueue[frozenset[str]] = queue.SimpleQueue()

    def wait_for(self, path: Path) -> None:
        while str(path) not in self.paths.get(timeout=60):
            pass


@pytest.fixture
def watch() -> Iterator[Callable[[Path], Heard]]:
    made: list[FileWatch] = []

    def make(folder: Path) -> Heard:
        heard = Heard()
        made.append(FileWatch([str(folder)], heard.paths.put))
        return heard

    yield make
    for one in made:
        one.stop()
        one.stop()
        assert not one.is_alive


def test_it_hears_of_files_made_written_renamed_and_removed(watch, tmp_path: Path):
    heard = watch(tmp_path)
    file = tmp_path / "crush.json"
    file.write_text("{}")
    heard.wait_for(file)
    file.write_text("{ }")
    heard.wait_for(file)
    (tmp_path / "new").write_text("{}")
    (tmp_path / "new").rename(file)
    heard.wait_for(file)
    file.unlink()
    heard.wait_for(file)


def test_a_folder_that_is_not_there_or_may_not_be_read_is_left_out(watch, tmp_path: Path):
    heard = Heard()
    one = FileWatch([str(tmp_path / "missing"), str(tmp_path)], heard.paths.put)
    (tmp_path / "a").write_text("x")
    heard.wait_for(tmp_path / "a")
    one.stop()


def test_a_kernel_that_gives_no_watch_is_told_of(tmp_path: Path):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    import watchfiles  # noqa: F401  what it loads needs files of its own

    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        with pytest.raises(CannotWatch, match="Too many open files"):
            FileWatch([str(tmp_path)], lambda _: None)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_nearest_folder_that_exists_is_watched(tmp_path: Path):
    (tmp_path / "here").mkdir()
    there, missing = tmp_path / "here" / "a.json", tmp_path / "x" / "y" / "b.json"
    asked = watched({"one": [str(there), str(missing)], "two": [str(there)]})
    assert asked.folders == {str(tmp_path / "here"), str(tmp_path)}
    assert asked.files == {str(there): {"one", "two"}, str(missing): {"one"}}
    assert {str(tmp_path / "x"), str(tmp_path / "x" / "y")} <= asked.turning_points


def test_a_link_is_watched_where_it_leads(tmp_path: Path):
    (tmp_path / "dotfiles").mkdir()
    target, link = tmp_path / "dotfiles" / "real.json", tmp_path / "crush.json"
    link.symlink_to(target)
    asked = watched({"one": [str(link)]})
    assert asked.folders == {str(tmp_path), str(tmp_path / "dotfiles")}
    assert asked.files == {str(link): {"one"}, str(target): {"one"}}


def test_impossible_paths_raise_nothing():
    asked = watched({"one": ["/a\0b/crush.json", "relative.json", "/" + "x" * 5_000 + "/y"]})
    assert all(folder.startswith("/") for folder in asked.folders)
