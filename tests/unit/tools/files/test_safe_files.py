"""How files are opened and replaced: descriptors, ownership, and folders one may not write in."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agents.tools.contract import ToolRefusal
from agents.tools.files import safe_files, text_file
from agents.tools.files.text_file import TextForm

NOBODY = 65534
LIMIT = 1_000


@contextlib.contextmanager
def without_privileges() -> Iterator[None]:
    """As root no mode of a file denies anything."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that another user reaches, which pytest's own do not allow."""
    folder = Path(tempfile.mkdtemp()).resolve()
    folder.chmod(0o755)
    yield folder
    for inner in folder.iterdir():
        inner.chmod(0o700)
    shutil.rmtree(folder)


def locked(public: Path, content: str) -> Path:
    """A file that one may write, in a folder that one may not."""
    folder = public / "locked"
    folder.mkdir()
    path = folder / "file"
    path.write_text(content)
    path.chmod(0o666)
    folder.chmod(0o555)
    return path


def test_a_file_that_cannot_be_replaced_is_written_in_place(public: Path) -> None:
    path = locked(public, "a long text")
    before = path.stat().st_ino
    with without_privileges():
        mark = safe_files.place(path, b"short", expected=text_file.mark(path))
    assert path.read_bytes() == b"short"
    assert path.stat().st_ino == before
    assert mark == text_file.mark(path)


def test_a_new_file_is_refused_where_one_may_not_write(public: Path) -> None:
    path = locked(public, "old")
    with without_privileges(), pytest.raises(ToolRefusal, match="Permission denied"):
        text_file.write(path.with_name("new"), "text", TextForm(), expected=None)


def test_a_folder_on_the_way_need_not_be_readable(public: Path) -> None:
    (public / "way").mkdir()
    (public / "way" / "file").write_text("text")
    (public / "way").chmod(0o311)
    with without_privileges():
        assert text_file.read(public / "way" / "file", max_bytes=LIMIT).text == "text"


def test_a_pipe_in_the_place_of_a_folder_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ToolRefusal, match="Not a directory"):
        text_file.read(tmp_path / "pipe" / "file", max_bytes=LIMIT)


def test_writing_in_place_leaves_a_newer_change_alone(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    mark = text_file.mark(path)
    path.write_text("theirs")
    with pytest.raises(ToolRefusal, match="changed in the meantime"):
        safe_files.rewrite(path, b"ours", expected=mark)
    assert path.read_text() == "theirs"


def test_writing_in_place_follows_no_link(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (tmp_path / "link").symlink_to(secret)
    with pytest.raises(OSError, match="symbolic links"):
        safe_files.rewrite(tmp_path / "link", b"ours", expected=text_file.mark(secret))
    assert secret.read_text() == "secret"


def test_writing_in_place_waits_for_no_pipe(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    mark = text_file.mark(tmp_path / "file")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="No such device"):
        safe_files.rewrite(tmp_path / "pipe", b"ours", expected=mark)


def test_nothing_is_written_in_the_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(ToolRefusal, match="not a regular file"):
        text_file.write(tmp_path / "folder", "text", TextForm(), expected=None)
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


def test_reading_makes_no_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        text_file.read(tmp_path / "a" / "file", max_bytes=LIMIT)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
def test_a_replaced_file_keeps_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    os.chown(path, NOBODY, NOBODY)
    text_file.write(path, "new", TextForm(), expected=text_file.mark(path))
    assert (path.stat().st_uid, path.stat().st_gid) == (NOBODY, NOBODY)


def test_a_replaced_file_keeps_its_attributes(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    try:
        os.setxattr(path, "user.note", b"kept")
    except OSError:
        pytest.skip("this file system has no attributes")
    text_file.write(path, "new", TextForm(), expected=text_file.mark(path))
    assert path.read_text() == "new"
    assert os.getxattr(path, "user.note") == b"kept"


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def read_a_file(folder: Path) -> None:
    text_file.read(folder / "file", max_bytes=LIMIT)


def read_a_folder(folder: Path) -> None:
    text_file.read(folder / "deep", max_bytes=LIMIT)


def read_what_is_missing(folder: Path) -> None:
    text_file.read(folder / "deep" / "no" / "file", max_bytes=LIMIT)


def make_a_file(folder: Path) -> None:
    text_file.write(folder / "deep" / "new" / "file", "new", TextForm(), expected=None)


def replace_a_file(folder: Path) -> None:
    text_file.write(folder / "file", "new", TextForm(), expected=text_file.mark(folder / "file"))


def overwrite_a_change(folder: Path) -> None:
    text_file.write(folder / "file", "new", TextForm(), expected=None)


def write_in_place(folder: Path) -> None:
    safe_files.rewrite(folder / "file", b"new", expected=text_file.mark(folder / "file"))


def list_a_folder(folder: Path) -> None:
    with safe_files.listed(folder) as entries:
        assert {entry.name for entry in entries} == {"deep", "file"}


def give_up(folder: Path) -> None:
    stage = safe_files.Stage(folder / "file", expected=text_file.mark(folder / "file"))
    stage.write(b"half")
    stage.close()
    stage.close()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux")
@pytest.mark.parametrize(
    "work",
    [
        read_a_file,
        read_a_folder,
        read_what_is_missing,
        make_a_file,
        replace_a_file,
        overwrite_a_change,
        write_in_place,
        list_a_folder,
        give_up,
    ],
)
def test_no_descriptor_and_no_temporary_file_is_left(
    work: Callable[[Path], None], tmp_path: Path
) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "file").write_text("old")
    before = descriptors()
    try:
        work(tmp_path)
        after = descriptors()
    except (ToolRefusal, OSError):
        after = descriptors()  # here, because the error keeps what its frames hold
    assert after == before
    assert {entry.name for entry in tmp_path.iterdir()} == {"deep", "file"}
