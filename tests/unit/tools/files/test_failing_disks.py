"""What happens to files where the disk fails, or its file system cannot do all that others do."""

import errno
from pathlib import Path

from agents.tools.contract import FileMark, ToolRefusal
from agents.tools.files import text_file
from agents.tools.files.text_file import TextForm
from tests.doubles.failing_calls import run_while_failing


def write(path: Path, text: str, *, expected: FileMark | None) -> None:
    text_file.write(path, text, TextForm(), expected=expected)


def test_a_file_is_on_the_disk_before_it_replaces_another(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    mark = text_file.mark(path)
    error = run_while_failing("fsync", errno.EIO, lambda: write(path, "new", expected=mark))
    assert isinstance(error, ToolRefusal)
    assert str(error) == f"{path} cannot be written: Input/output error."
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_new_file_is_made_where_there_are_no_hard_links(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert (
        run_while_failing("linkat", errno.EPERM, lambda: write(path, "new", expected=None)) is None
    )
    assert path.read_text() == "new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
