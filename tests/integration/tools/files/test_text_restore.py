"""Restoring a text file: only from the content that is expected, and never through a link."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.tools.contract import ToolRefusal
from agents.tools.files.text_restore import FileChanged, restore


def test_a_file_gets_its_earlier_content_and_keeps_its_form(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"\xef\xbb\xbfnew\r\n")
    file.chmod(0o640)
    restore(file, expected="new\n", content="old\n")
    assert file.read_bytes() == b"\xef\xbb\xbfold\r\n"
    assert file.stat().st_mode & 0o777 == 0o640
    restore(file, expected="new\n", content="old\n")  # once more
    assert file.read_bytes() == b"\xef\xbb\xbfold\r\n"


def test_a_created_file_is_deleted_and_comes_back(tmp_path: Path) -> None:
    file = tmp_path / "inner" / "a.txt"
    file.parent.mkdir()
    file.write_text("new\n")
    restore(file, expected="new\n", content=None)
    restore(file, expected="new\n", content=None)
    assert list(file.parent.iterdir()) == []
    file.parent.rmdir()
    restore(file, expected=None, content="new\n")
    assert file.read_text() == "new\n"


def test_a_changed_file_stays(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("a person's\n")
    for expected, content in (("new\n", "old\n"), ("new\n", None), (None, "old\n")):
        with pytest.raises(FileChanged):
            restore(file, expected=expected, content=content)
    assert file.read_text() == "a person's\n"
    file.unlink()
    with pytest.raises(FileChanged):
        restore(file, expected="new\n", content="old\n")
    assert not file.exists()


def test_a_binary_file_stays(tmp_path: Path) -> None:
    file = tmp_path / "a.bin"
    file.write_bytes(b"\0\1\2")
    with pytest.raises(ToolRefusal):
        restore(file, expected="new\n", content="old\n")
    with pytest.raises(ToolRefusal):
        restore(file, expected="new\n", content=None)
    assert file.read_bytes() == b"\0\1\2"


def test_a_link_in_place_of_the_file_or_of_its_folder_is_not_followed(tmp_path: Path) -> None:
    away = tmp_path / "away"
    away.mkdir()
    (away / "a.txt").write_text("new\n")
    (tmp_path / "a.txt").symlink_to(away / "a.txt")
    (tmp_path / "folder").symlink_to(away)
    for path in (tmp_path / "a.txt", tmp_path / "folder" / "a.txt"):
        for content in ("old\n", None):
            with pytest.raises(ToolRefusal):
                restore(path, expected="new\n", content=content)
    with pytest.raises(ToolRefusal):
        restore(tmp_path / "folder" / "b.txt", expected=None, content="old\n")
    assert sorted(path.name for path in away.iterdir()) == ["a.txt"]
    assert (away / "a.txt").read_text() == "new\n"
    assert (tmp_path / "a.txt").is_symlink()
