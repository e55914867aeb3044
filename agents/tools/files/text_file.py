"""Reads text files with ``\\n`` line ends, and writes them back in their own form.

Encoding, byte order mark, line endings and mode survive an edit. Binary files are
detected. The functions block: call them in a thread. They do not check permission.
"""

from __future__ import annotations

import codecs
import os
from dataclasses import dataclass
from pathlib import Path

from agents.tools.contract import FileMark, ToolRefusal
from agents.tools.files import safe_files
from agents.tools.files.paths import is_kernel_path

_MARKS = (  # in this order, because the UTF-32 mark begins with the UTF-16 mark
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SNIFF = 8_192
_CONTROLS = bytes(set(range(32)) - {9, 10, 12, 13, 27}) + b"\x7f"
_READ_TRIES = 3


class NotText(ToolRefusal):
    """The file is binary."""


@dataclass(frozen=True, slots=True)
class TextForm:
    """The form of the text in the file's bytes."""

    encoding: str = "utf-8"
    bom: bytes = b""
    newline: str = "\n"  # another value only if every line ends so

    def encode(self, text: str) -> bytes:
        return self.bom + text.replace("\n", self.newline).encode(self.encoding)


@dataclass(frozen=True, slots=True)
class TextFile:
    text: str
    mark: FileMark
    form: TextForm


def read(path: Path, *, max_bytes: int) -> TextFile:
    """Reads a text file. Raises ``FileNotFoundError``, or ``ToolRefusal`` for any other error."""
    raw, mark = read_bytes(path, max_bytes=max_bytes)
    return decode(path, raw, mark)


def decode(path: Path, raw: bytes, mark: FileMark) -> TextFile:
    bom, encoding = next(((m, e) for m, e in _MARKS if raw.startswith(m)), (b"", ""))
    if encoding:
        try:
            text = raw[len(bom) :].decode(encoding)
        except UnicodeDecodeError:
            raise NotText(f"{path} is a binary file, or its {encoding} text is broken.") from None
    else:
        encoding, text = _guess(path, raw)
    if "\0" in text:
        raise NotText(f"{path} is a binary file, which cannot be shown or edited as text.")
    newline = _newline(text)
    return TextFile(text.replace(newline, "\n"), mark, TextForm(encoding, bom, newline))


def _newline(text: str) -> str:
    returns = text.count("\r")
    if returns and returns == text.count("\r\n") == text.count("\n"):
        return "\r\n"
    if returns and "\n" not in text:
        return "\r"
    return "\n"  # or mixed line ends, which all stay as they are


def mark(path: Path) -> FileMark:
    """Returns the file's current state. Raises like ``read``."""
    if is_kernel_path(path):
        raise ToolRefusal(f"{path} is not a file on a disk; this tool does not touch it.")
    try:
        with safe_files.opened(path) as (_descriptor, status):
            return safe_files.mark_of(status)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ToolRefusal(f"{path} cannot be read: {error.strerror}.") from None


def read_bytes(path: Path, *, max_bytes: int) -> tuple[bytes, FileMark]:
    """Returns the content and the state that it belongs to. Raises like ``read``."""
    if is_kernel_path(path):
        raise ToolRefusal(f"{path} is not a file on a disk; it cannot be read with this tool.")
    try:
        for _ in range(_READ_TRIES):
            with safe_files.opened(path) as (descriptor, status):
                if status.st_size > max_bytes:
                    raise ToolRefusal(
                        f"{path} is too large: {status.st_size:,} bytes; {max_bytes:,} are allowed."
                    )
                with os.fdopen(descriptor, "rb", closefd=False) as file:
                    raw = file.read(status.st_size)
                mark = safe_files.mark_of(os.fstat(descriptor))
            if mark == safe_files.mark_of(status):
                return raw, mark
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ToolRefusal(f"{path} cannot be read: {error.strerror}.") from None
    raise ToolRefusal(f"{path} changed while it was read. Try again in a moment.")


def write(path: Path, text: str, form: TextForm, *, expected: FileMark | None) -> FileMark:
    """Writes a text file. Raises ``ToolRefusal``. ``expected`` is ``None`` for a new file."""
    if is_kernel_path(path):
        raise ToolRefusal(f"{path} is not a file on a disk; it cannot be written.")
    try:
        content = form.encode(text)
    except UnicodeEncodeError as error:
        letter = error.object[error.start]
        raise ToolRefusal(
            f"{path} is {form.encoding} text, which cannot contain {letter!r}."
        ) from None
    try:
        return safe_files.place(path, content, expected=expected)
    except OSError as error:
        raise ToolRefusal(f"{path} cannot be written: {error.strerror}.") from None


def _guess(path: Path, raw: bytes) -> tuple[str, str]:
    try:
        return "utf-8", raw.decode()
    except UnicodeDecodeError:
        sample = raw[:_SNIFF]
        if len(sample) - len(sample.translate(None, _CONTROLS)) > len(sample) // 100:
            raise NotText(f"{path} is a binary file, not text.") from None
        # Latin-1 maps every byte to a character, so unedited parts are written back unchanged.
        return "latin-1", raw.decode("latin-1")
