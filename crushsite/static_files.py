"""The files that pages load: named by their content, and compressed once, before the first page.

There is no build step: the first process that serves a page collects the files into the data
folder, and again whenever they have changed. ``manage.py collectstatic`` does the same.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import brotli
from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.contrib.staticfiles.storage import ManifestStaticFilesStorage, staticfiles_storage
from django.core.files.base import ContentFile
from django.core.management import call_command
from typing_extensions import override
from whitenoise.compress import Compressor

logger = logging.getLogger(__name__)

# Files for developers, of pages that we do not serve, and of /api/docs: hashing and compressing its
# 2 MB takes longer than everything else. WhiteNoise serves them from where they are installed.
LEFT_OUT = ["*.d.ts", "*.md", "*.map", "rest_framework", "drf_spectacular_sidecar"]
# Sheets and texts of rooms, of which browsers load one file each. Nothing else may import their parts.
JOINED = ("console/styles/console.css", "console/strings/en.js")
_IMPORT = re.compile(
    rb'^(?:@import|import \{ \w+ \} from) "(?:\./)?([\w-]+\.(?:css|js))";$', re.MULTILINE
)
_OURS = re.compile(r"console/(?!vendor/).*\.js")
_EXPORT = re.compile(rb"^export const ", re.MULTILINE)
STAMP = ".collected"
OLD_SECONDS = 7 * 86_400.0  # pages of an earlier release may still be open


def _ignore(_line: str) -> None:
    """WhiteNoise would print a line for each file."""


class _Compressor(Compressor):  # type: ignore[misc]  # the library is not annotated
    @staticmethod
    @override
    def compress_brotli(data: bytes) -> bytes:
        # The best quality (11) takes twice as long for 3 % less.
        return bytes(brotli.compress(data, quality=10))


class _Prepared:
    """In place of a file's storage: gives the content that browsers get.

    A joined file has the content of those that it imports, and a module of ours has no comments.
    """

    def __init__(self, storage: Any, name: str) -> None:
        self._storage = storage
        self._name = name
        self._content: bytes | None = None

    def open(self, path: str) -> ContentFile[bytes]:
        if self._content is None:  # it is opened several times
            self._content = self._prepare(path)
        return ContentFile(self._content)

    def _prepare(self, path: str) -> bytes:
        content = self._read(path)
        if self._name in JOINED:
            folder = Path(path).parent
            content = _IMPORT.sub(lambda match: self._part(folder / match[1].decode()), content)
        if self._name.endswith(".js"):
            content = without_comments(content.decode()).encode()
        return content

    def _part(self, path: Path) -> bytes:
        return _EXPORT.sub(b"const ", self._read(str(path)))

    def _read(self, path: str) -> bytes:
        with self._storage.open(path) as file:
            return bytes(file.read())


class HashedFiles(ManifestStaticFilesStorage):
    """Adds a hash to each name, also in the imports of modules, so that browsers keep files forever."""

    support_js_module_import_aggregation = True
    manifest_strict = False

    @override
    def load_manifest(self) -> Any:
        """Without a readable manifest files have their own names."""
        try:
            return super().load_manifest()
        except (OSError, ValueError):
            return {}, ""

    @override
    def stored_name(self, name: str) -> str:
        """The hashed name; the name itself while nothing was collected, as in tests of pages."""
        return str(self.hashed_files.get(self.hash_key(self.clean_name(name)), name))

    @override
    def hashed_name(self, name: str, content: Any = None, filename: str | None = None) -> str:
        if name.endswith(".map"):  # left out, but libraries name them
            return name
        return str(super().hashed_name(name, content, filename))

    @override
    def post_process(self, paths: Any, *args: Any, **options: Any) -> Iterator[Any]:
        for name, (storage, path) in paths.items():
            if name in JOINED or _OURS.fullmatch(name):
                paths[name] = (_Prepared(storage, name), path)
        compressor = _Compressor(log=_ignore)
        for name, hashed, was_processed in super().post_process(paths, *args, **options):
            yield name, hashed, was_processed
            if hashed is not None and compressor.should_compress(hashed):
                compressor.compress(self.path(hashed))


def collect_for_pages() -> None:
    """Before WhiteNoise looks at the files. Pages work without, but load more slowly."""
    try:
        ensure_static_files()
    except Exception:
        logger.exception("the files of pages could not be collected and compressed")


def ensure_static_files() -> None:
    """Collects the files unless they are as they were the last time. Blocks."""
    root = Path(settings.STATIC_ROOT)
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (root / ".lock").open("a") as lock:
        # Another process of the same data folder may be doing it.
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp, digest = root / STAMP, _digest()
        if not stamp.exists() or stamp.read_text() != digest:
            call_command("collectstatic", interactive=False, verbosity=0, ignore_patterns=LEFT_OUT)
            _remove_old(root)
            stamp.write_text(digest)
    staticfiles_storage.hashed_files = _manifest()  # type: ignore[attr-defined]  # it is ours


def _manifest() -> dict[str, str]:
    storage: Any = staticfiles_storage
    hashed: dict[str, str] = storage.load_manifest()[0]
    return hashed


def _digest() -> str:
    """Of the files' names, sizes and times: reading them would take longer."""
    found = hashlib.sha256()
    for finder in get_finders():
        for name, storage in finder.list(LEFT_OUT):
            status = Path(storage.path(name)).stat()
            found.update(f"{name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return found.hexdigest()


def _remove_old(root: Path) -> None:
    hashed = _manifest()
    kept = {str(root / name) for name in [*hashed, *hashed.values()]}
    oldest = time.time() - OLD_SECONDS
    for path in root.rglob("*"):
        plain = str(path).removesuffix(".br").removesuffix(".gz")
        if path.is_file() and plain not in kept and path.stat().st_mtime < oldest:
            path.unlink(missing_ok=True)


# A module without its comments, which are a sixth of its compressed size. Lines keep their numbers. It
# reads tokens, because `//` may also be a part of a text, a template or a regular expression.

_TOKEN = re.compile(
    r"""
    (?P<comment>//[^\n]*|/\*.*?\*/)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<template>`)
    |(?P<open>\{)
    |(?P<close>\})
    |(?P<slash>/)
    |(?P<word>[\w$]+)
    |(?P<space>\s+)
    |(?P<other>.)
    """,
    re.DOTALL | re.VERBOSE,
)
# To the template's end, or to a value in it.
_TEMPLATE = re.compile(r"(?:[^`\\$]|\\.|\$(?!\{))*(?:(?P<end>`)|\$\{)", re.DOTALL)
_EXPRESSION = re.compile(r"/(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/[a-z]*")
# After these a slash divides; after anything else it begins a regular expression.
_VALUE_ENDS = re.compile(r"[\w$)\]}\"'`]$")
_BEFORE_VALUES = frozenset(
    [
        "return",
        "typeof",
        "case",
        "in",
        "of",
        "delete",
        "void",
        "throw",
        "new",
        "do",
        "else",
        "await",
    ]
)


class _Unreadable(Exception):
    pass


def without_comments(source: str) -> str:
    """Returns the module without its comments; the module itself where it cannot be read."""
    try:
        return _ModuleReader(source).read()
    except _Unreadable:
        return source


class _ModuleReader:
    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0
        self._kept: list[str] = []
        self._before = ""  # the last token that is neither blank nor a comment
        self._values: list[int] = []  # for each open value of a template: its open braces

    def read(self) -> str:
        while self._at < len(self._source):
            match = self._take(_TOKEN)
            kind = match.lastgroup
            if kind == "comment":
                self._drop(match[0])
            elif kind != "space":
                self._read_token(str(kind), match[0])
        if self._values:
            raise _Unreadable
        return "".join(self._kept)

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str]:
        match = pattern.match(self._source, self._at)
        if match is None:
            raise _Unreadable
        self._at = match.end()
        self._kept.append(match[0])
        return match

    def _drop(self, comment: str) -> None:
        self._kept.pop()
        is_alone = not self._kept or self._kept[-1].isspace()
        if is_alone and self._source[self._at : self._at + 1] in {"", "\n"} and self._kept:
            self._kept[-1] = self._kept[-1].rstrip(" ")
        # A comment of several lines ends a statement, as they do.
        self._kept.append("\n" * comment.count("\n") or " ")

    def _read_token(self, kind: str, text: str) -> None:
        self._before, before = text, self._before
        if kind == "slash" and (before in _BEFORE_VALUES or not _VALUE_ENDS.search(before)):
            self._at -= 1
            self._kept.pop()
            self._take(_EXPRESSION)
            self._before = ")"
        elif text in {'"', "'"}:  # of a text without an end
            raise _Unreadable
        elif kind == "template":
            self._read_template()
        elif self._values and kind == "open":
            self._values[-1] += 1
        elif self._values and kind == "close":
            self._values[-1] -= 1
            if self._values[-1] < 0:
                self._values.pop()
                self._read_template()

    def _read_template(self) -> None:
        part = self._take(_TEMPLATE)
        self._before = part[0][-1]
        if part["end"] is None:
            self._values.append(0)
