import codecs
import os
import resource
import stat
from pathlib import Path

import pytest

from agents.tools.contract import FileMark, ToolRefusal
from agents.tools.files import text_file
from agents.tools.files.safe_files import Stage, place
from agents.tools.files.text_file import NotText, TextForm

LIMIT = 1_000_000


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"plain\nlines\n",
        b"no end",
        b"one\r\ntwo\r\n",
        b"mixed\r\nends\n",
        b"old\rmac\r",
        "é ü 漢\n".encode(),
        codecs.BOM_UTF8 + b"marked\r\n",
        codecs.BOM_UTF16_LE + "wide é\r\n".encode("utf-16-le"),
        codecs.BOM_UTF16_BE + "wide\n".encode("utf-16-be"),
        codecs.BOM_UTF32_LE + "wider\n".encode("utf-32-le"),
        b"\xe9t\xe9 and more latin text\r\n",
    ],
)
def test_it_writes_back_the_bytes_it_read(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(raw)
    file = text_file.read(path, max_bytes=LIMIT)
    text_file.write(path, file.text, file.form, expected=file.mark)
    assert path.read_bytes() == raw


def test_it_shows_lines_without_carriage_returns(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"one\r\ntwo\r\n")
    assert text_file.read(tmp_path / "file", max_bytes=LIMIT).text == "one\ntwo\n"


@pytest.mark.parametrize(
    "raw", [b"\x7fELF\0\0", b"\xff\xfe\xff", bytes(range(1, 256)), "a\0b".encode("utf-16")]
)
def test_it_recognises_binary_files(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "file").write_bytes(raw)
    with pytest.raises(NotText, match="binary"):
        text_file.read(tmp_path / "file", max_bytes=LIMIT)


def test_it_refuses_what_an_encoding_cannot_hold(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\xe9t\xe9 and more latin text\n")
    file = text_file.read(tmp_path / "file", max_bytes=LIMIT)
    with pytest.raises(ToolRefusal, match="latin-1"):
        text_file.write(tmp_path / "file", "漢", file.form, expected=file.mark)
    assert (tmp_path / "file").read_bytes().startswith(b"\xe9t\xe9")


def test_it_keeps_the_mode_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "script"
    path.write_text("a")
    path.chmod(0o751)
    mark = text_file.write(path, "bb", TextForm(), expected=text_file.mark(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o751
    assert mark == text_file.mark(path) == FileMark(path.stat().st_mtime_ns, 2)
    assert [entry.name for entry in tmp_path.iterdir()] == ["script"]


def test_it_makes_a_new_file_with_its_folders(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file"
    text_file.write(path, "new", TextForm(), expected=None)
    assert path.read_text() == "new"
    assert path.stat().st_nlink == 1


def test_it_does_not_write_over_a_file_that_appeared(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("theirs")
    with pytest.raises(ToolRefusal, match="changed in the meantime"):
        text_file.write(tmp_path / "file", "ours", TextForm(), expected=None)
    assert (tmp_path / "file").read_text() == "theirs"


def test_it_does_not_write_over_a_change(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    mark = text_file.mark(path)
    path.write_text("theirs")
    with pytest.raises(ToolRefusal, match="changed in the meantime"):
        text_file.write(path, "ours", TextForm(), expected=mark)
    path.unlink()
    with pytest.raises(ToolRefusal, match="changed in the meantime"):
        text_file.write(path, "ours", TextForm(), expected=mark)


def test_it_follows_no_link_that_took_the_files_place(tmp_path: Path) -> None:
    secret, path = tmp_path / "secret", tmp_path / "file"
    secret.write_text("secret")
    path.symlink_to(secret)
    with pytest.raises(ToolRefusal):
        text_file.read(path, max_bytes=LIMIT)
    with pytest.raises(ToolRefusal):
        text_file.write(path, "ours", TextForm(), expected=text_file.mark(secret))
    assert secret.read_text() == "secret"


def test_it_follows_no_link_that_took_a_folders_place(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "folder").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ToolRefusal):
        text_file.write(tmp_path / "folder" / "file", "ours", TextForm(), expected=None)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_it_waits_for_no_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ToolRefusal, match="not a regular file"):
        text_file.read(tmp_path / "pipe", max_bytes=LIMIT)


@pytest.mark.parametrize("path", ["/proc/self/environ", "/dev/zero", "/sys/kernel/notes"])
def test_it_touches_nothing_of_the_kernels(path: str) -> None:
    with pytest.raises(ToolRefusal, match="not a file on a disk"):
        text_file.mark(Path(path))
    with pytest.raises(ToolRefusal, match="not a file on a disk"):
        text_file.read(Path(path), max_bytes=LIMIT)
    with pytest.raises(ToolRefusal, match="not a file on a disk"):
        text_file.write(Path(path), "x", TextForm(), expected=None)


def test_it_refuses_folders_and_what_is_too_large(tmp_path: Path) -> None:
    with pytest.raises(ToolRefusal, match="is a directory"):
        text_file.read(tmp_path, max_bytes=LIMIT)
    (tmp_path / "file").write_text("12345")
    assert text_file.read(tmp_path / "file", max_bytes=5).text == "12345"
    with pytest.raises(ToolRefusal, match="5 bytes; 4 are allowed"):
        text_file.read(tmp_path / "file", max_bytes=4)


def test_it_refuses_the_uppermost_folder() -> None:
    for look in (text_file.mark, lambda path: text_file.read(path, max_bytes=LIMIT)):
        with pytest.raises(ToolRefusal, match="/ is a directory"):
            look(Path("/"))


def test_a_change_that_comes_while_content_is_gathered_is_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    stage = Stage(path, expected=text_file.mark(path))
    try:
        stage.write(b"ours")
        path.write_text("theirs, made meanwhile")
        with pytest.raises(ToolRefusal, match="changed in the meantime"):
            stage.put()
    finally:
        stage.close()
    assert path.read_text() == "theirs, made meanwhile"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_file_that_goes_while_content_is_gathered_is_not_made_again(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    stage = Stage(path, expected=text_file.mark(path))
    try:
        path.unlink()
        with pytest.raises(ToolRefusal, match="changed in the meantime"):
            stage.put()
    finally:
        stage.close()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_comes_while_a_new_one_is_gathered_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "file"
    stage = Stage(path, expected=None)
    try:
        stage.write(b"ours")
        path.write_text("theirs")
        with pytest.raises(ToolRefusal, match="has been created in the meantime"):
            stage.put()
    finally:
        stage.close()
    assert path.read_text() == "theirs"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_file_that_cannot_be_written_whole_stays_as_it_was(tmp_path: Path) -> None:
    """Here the limit of a file's size stands for a full disk."""
    path = tmp_path / "file"
    path.write_text("old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            place(path, b"x" * 10_000, expected=text_file.mark(path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_new_file_has_the_mode_that_the_umask_leaves(tmp_path: Path) -> None:
    before = os.umask(0o002)
    try:
        text_file.write(tmp_path / "file", "x", TextForm(), expected=None)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o664


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_the_letter_that_an_encoding_lacks_is_named(tmp_path: Path, newline: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(f"é{newline * 4}".encode("latin-1"))
    file = text_file.read(path, max_bytes=100)
    with pytest.raises(ToolRefusal, match="latin-1 text, which cannot contain '漢'"):
        text_file.write(path, f"{file.text}a漢", file.form, expected=file.mark)
