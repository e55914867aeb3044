"""Restores a text file to an earlier content, unless the file has changed since.

The functions block: call them in a thread. They do not check permission.
"""

from __future__ import annotations

from pathlib import Path

from agents.tools.contract import FileMark, ToolRefusal
from agents.tools.files import safe_files, text_file
from agents.tools.files.text_file import TextFile, TextForm
from agents.tools.limits import MAX_TEXT_BYTES


class FileChanged(ToolRefusal):
    """The file has other content than the newest recorded one."""


def restore(path: Path, *, expected: str | None, content: str | None) -> FileMark | None:
    """Gives the file this content if it has the ``expected`` one; ``None`` stands for no file.

    Returns the file's new state. Repeatable: a file that has the content already stays as it is.
    Encoding, line ends and mode stay. Raises ``ToolRefusal``; ``FileChanged`` is one.
    """
    file = check(path, expected=expected, content=content)
    if (file.text if file is not None else None) == content:
        return file.mark if file is not None else None
    try:
        return _replace(path, file, content)
    except ToolRefusal:
        # Another process may finish the same work at this moment.
        file = _read(path)
        if (file.text if file is not None else None) != content:
            raise
        return file.mark if file is not None else None


def check(path: Path, *, expected: str | None, content: str | None) -> TextFile | None:
    """Returns the file as it is now, and changes nothing. Raises what ``restore`` raises then."""
    file = _read(path)
    if (file.text if file is not None else None) not in (content, expected):
        raise FileChanged(f"{path} has changed since.")
    return file


def _read(path: Path) -> TextFile | None:
    try:
        return text_file.read(path, max_bytes=MAX_TEXT_BYTES)
    except FileNotFoundError:
        return None


def _replace(path: Path, file: TextFile | None, content: str | None) -> FileMark | None:
    if content is not None:
        form, mark = (file.form, file.mark) if file is not None else (TextForm(), None)
        return text_file.write(path, content, form, expected=mark)
    if file is not None:
        try:
            safe_files.remove(path, expected=file.mark)
        except OSError as error:
            raise ToolRefusal(f"{path} cannot be deleted: {error.strerror}.") from None
    return None
