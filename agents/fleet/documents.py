"""Reads the fields of other programs' JSON documents with type checks; writes files atomically.

Errors name a field and its expected type, never its value: a document may hold
secrets. Independent of paths and of the meaning of fields.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

import orjson

_LONGEST_NAME = 200  # bytes; leaves room for the prefix and suffix of a temporary file
_TEMPORARY = re.compile(r"\..+\.(tmp|collecting)\.[0-9a-f-]{32,36}")
_MOST_ENTRIES = 100_000


def is_safe_name(name: str) -> bool:
    """Whether an id can be part of a file name: one path element that is not hidden."""
    return (
        0 < len(name.encode("utf-8", "surrogatepass")) <= _LONGEST_NAME
        and not name.startswith(".")
        and name.isprintable()
        and "/" not in name
        and "\\" not in name
    )


def write_atomically(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Writes a file atomically. Raises ``OSError``. Replaces a link instead of following it."""
    temporary = path.parent / f".{path.name}.tmp.{uuid.uuid4()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(temporary, flags, mode), "wb") as file:
            os.fchmod(file.fileno(), mode)  # regardless of the umask
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Makes a rename durable, on file systems that support it."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def read_regular(path: Path, *, most_bytes: int) -> bytes | None:
    """Returns the whole file, or None if it is missing, a link, a pipe, or too large."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(path, flags), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size > most_bytes:
                return None
            data = file.read(most_bytes + 1)
    except (OSError, ValueError):  # ValueError: an invalid file name
        return None
    return data if len(data) <= most_bytes else None


def visible_json(folder: Path) -> list[str]:
    """Returns the sorted names of the ``.json`` entries that are not hidden."""
    names = (name for name in _names(folder) if not name.startswith("."))
    return sorted(name for name in names if name.endswith(".json"))


def remove_old_temporaries(folder: Path, *, older_than_seconds: float) -> None:
    """Removes temporary files that a crashed writer left behind."""
    before = time.time() - older_than_seconds
    for name in _names(folder):
        if _TEMPORARY.fullmatch(name):
            with contextlib.suppress(OSError):
                if (folder / name).lstat().st_mtime < before:
                    (folder / name).unlink()


def _names(folder: Path) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            for number, entry in enumerate(entries):
                if number >= _MOST_ENTRIES:
                    return
                yield entry.name
    except OSError:
        return


U32: Final = 2**32 - 1
U64: Final = 2**64 - 1


class BadDocument(ValueError):
    """An invalid document. The message is a sentence without any of the document's values."""


class Fields:
    """One JSON object. Every getter raises ``BadDocument`` for a value of another type.

    ``null`` counts as absent only for the ``*_or_none`` getters.
    """

    def __init__(self, values: Mapping[str, Any], *, path: str = "") -> None:
        self.values = values
        self._path = path

    def name(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path else key

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def text(self, key: str, default: str | None = None) -> str:
        return cast("str", self._typed(key, str, "a string", default))

    def text_or_none(self, key: str) -> str | None:
        return None if self.values.get(key) is None else self.text(key)

    def flag(self, key: str, *, default: bool | None = None) -> bool:
        return cast("bool", self._typed(key, bool, "true or false", default))

    def whole(self, key: str, *, most: int = U32, default: int | None = None) -> int:
        value = self._typed(key, int, "a whole number", default)
        if isinstance(value, bool) or not 0 <= cast("int", value) <= most:
            raise BadDocument(f"{self.name(key)} must be a whole number from 0 to {most}.")
        return cast("int", value)

    def whole_or_none(self, key: str, *, most: int = U64) -> int | None:
        return None if self.values.get(key) is None else self.whole(key, most=most)

    def texts(self, key: str) -> tuple[str, ...]:
        """Returns a list of texts; empty if absent or null."""
        items = self.items(key)
        if not all(isinstance(item, str) for item in items):
            raise BadDocument(f"{self.name(key)} must be a list of strings.")
        return tuple(items)

    def items(self, key: str) -> list[Any]:
        """Returns a list; empty if absent or null."""
        if self.values.get(key) is None:
            return []
        return cast("list[Any]", self._typed(key, list, "a list", None))

    def fields(self, key: str, *, optional: bool = False) -> Fields:
        """Returns an object. With ``optional``, an absent one is empty; null stays an error."""
        value = self._typed(key, dict, "an object", {} if optional else None)
        return Fields(cast("dict[str, Any]", value), path=self.name(key))

    def fields_or_none(self, key: str) -> Fields | None:
        return None if self.values.get(key) is None else self.fields(key)

    def each(self, key: str) -> list[Fields]:
        """Returns a list of objects; empty if absent."""
        if key not in self.values:
            return []
        found = []
        for number, item in enumerate(
            cast("list[Any]", self._typed(key, list, "a list of objects", None))
        ):
            if not isinstance(item, dict):
                raise BadDocument(f"{self.name(key)} must be a list of objects.")
            found.append(Fields(item, path=f"{self.name(key)}[{number}]"))
        return found

    def kept(self, *keys: str) -> dict[str, Any]:
        """Returns the given fields that are present and not null, unchanged."""
        return {key: self.values[key] for key in keys if self.values.get(key) is not None}

    def _typed(self, key: str, kind: type, what: str, default: object) -> object:
        if key not in self.values:
            if default is None:
                raise BadDocument(f"{self.name(key)} is missing.")
            return default
        value = self.values[key]
        if not isinstance(value, kind):
            raise BadDocument(f"{self.name(key)} must be {what}.")
        return value


def read_object(data: bytes, *, what: str, most_bytes: int) -> Fields:
    """Parses one JSON object, with optional white space around it. Raises ``BadDocument``."""
    if len(data) > most_bytes:
        raise BadDocument(f"{what} is larger than {most_bytes} bytes.")
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:  # its message may quote the document
        raise BadDocument(f"{what} is not valid JSON.") from None
    if not isinstance(value, dict):
        raise BadDocument(f"{what} is not a JSON object.")
    return Fields(value)


def written(value: object, *, pretty: bool = False) -> bytes:
    """Returns JSON, compact or indented by two. Raises ``BadDocument`` if it cannot."""
    try:
        return orjson.dumps(value, option=orjson.OPT_INDENT_2 if pretty else None)
    except orjson.JSONEncodeError:
        raise BadDocument("The value cannot be written as JSON.") from None


def sorted_keys(value: Any) -> Any:
    """Sorts the keys of every object in a value, as the other side writes opaque values."""
    if isinstance(value, Mapping):
        return {key: sorted_keys(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [sorted_keys(item) for item in value]
    return value
