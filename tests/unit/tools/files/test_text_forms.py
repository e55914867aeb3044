"""How text is told from binary content, its encoding and line ends, and when it is read whole."""

import contextlib
import itertools
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.tools.contract import FileMark, ToolRefusal
from agents.tools.files import text_file
from agents.tools.files.text_file import NotText, TextForm

LARGE = 32 << 20  # takes so long to read that another thread has its turn
WHITE_SPACE_AND_ESCAPE = {*b"\t\n\f\r\x1b"}


def decode(raw: bytes) -> text_file.TextFile:
    return text_file.decode(Path("/file"), raw, FileMark(0, len(raw)))


@pytest.mark.parametrize("byte", [*range(34), 126, 127, 128])
def test_only_white_space_and_escape_are_controls_that_text_has(byte: int) -> None:
    raw = b"\xe9" + bytes([byte]) * 50
    if (byte < 32 and byte not in WHITE_SPACE_AND_ESCAPE) or byte == 127:
        with pytest.raises(NotText, match="binary"):
            decode(raw)
    else:
        assert decode(raw).form.encoding == "latin-1"


@pytest.mark.parametrize(
    ("controls", "size", "is_text"),
    [(2, 200, True), (3, 200, False), (2, 198, False), (1, 100, True), (1, 99, False)],
)
def test_one_control_in_a_hundred_bytes_is_still_text(
    controls: int, size: int, is_text: bool
) -> None:
    raw = b"\xe9" + b"\x01" * controls + b"x" * (size - controls - 1)
    expected = contextlib.nullcontext() if is_text else pytest.raises(NotText, match="binary")
    with expected:
        assert decode(raw).text.startswith("é\x01")


def test_the_beginning_says_whether_it_is_text() -> None:
    text, controls = b"\xe9" + b"x" * 10_000, b"\x01" * 5_000
    assert decode(text + controls).form.encoding == "latin-1"
    with pytest.raises(NotText, match="binary"):
        decode(controls + text)


def test_no_text_holds_a_nul_in_any_encoding() -> None:
    for raw in (b"a\0b", b"\xe9\0b", "\ufeffa\0b".encode("utf-16-le"), "\ufeffa\0".encode()):
        with pytest.raises(NotText, match="binary"):
            decode(raw)


@pytest.mark.parametrize(
    ("raw", "newline"),
    [
        (b"", "\n"),
        (b"no end", "\n"),
        (b"a\nb", "\n"),
        (b"a\r\nb", "\r\n"),
        (b"a\r\nb\r\n", "\r\n"),
        (b"a\rb", "\r"),
        (b"a\r\nb\n", "\n"),
        (b"a\r\nb\r", "\n"),
        (b"a\n\rb", "\n"),
        (b"a\r\nb\n\rc", "\n"),
    ],
)
def test_line_ends_are_those_that_every_line_has(raw: bytes, newline: str) -> None:
    assert decode(raw).form.newline == newline


def test_a_new_file_is_utf8_with_plain_lines(tmp_path: Path) -> None:
    text_file.write(tmp_path / "file", "é\n", TextForm(), expected=None)
    assert (tmp_path / "file").read_bytes() == b"\xc3\xa9\n"


@contextlib.contextmanager
def touching(path: Path) -> Iterator[None]:
    """Gives the file a new time again and again."""
    is_over = threading.Event()

    def touch() -> None:
        for number in itertools.count(1):
            os.utime(path, ns=(number, number))
            if is_over.is_set():
                return

    thread = threading.Thread(target=touch)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    os.truncate(path, LARGE)
    with touching(path):
        assert "changed while it was read" in refusal_of_reading(path)
    assert text_file.read_bytes(path, max_bytes=LARGE)[0] == bytes(LARGE)


def refusal_of_reading(path: Path) -> str:
    """Of the first time that the other thread was quick enough."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        try:
            text_file.read_bytes(path, max_bytes=LARGE)
        except ToolRefusal as refusal:
            return str(refusal)
    return ""
