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
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
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

from crushsite.console.joined_modules import file_of, joined

logger = logging.getLogger(__name__)

# Files for developers, of pages that we do not serve, and of /api/docs: hashing and compressing its
# 2 MB takes longer than everything else. WhiteNoise serves them from where they are installed.
LEFT_OUT = ["*.d.ts", "*.md", "*.map", "rest_framework", "drf_spectacular_sidecar"]
# A sheet of which browsers load one file, with those that it imports.
JOINED_SHEET = "console/styles/console.css"
_IMPORT = re.compile(rb'^@import "(?:\./)?([\w-]+\.css)";$', re.MULTILINE)
_COMMENT = re.compile(rb'("(?:[^"\\\n]|\\.)*")|/\*.*?\*/', re.DOTALL)
_INDENTATION = re.compile(rb"\n\s+")
# The service worker is no module, and has a view of its own.
_MODULE = re.compile(r"console/(?!vendor/|service_worker)(.*\.js)")
STAMP = ".collected"
OLD_SECONDS = 7 * 86_400.0  # pages of an earlier release may still be open


def _ignore(_line: str) -> None:
    """WhiteNoise would print a line for each file."""


class _Compressor(Compressor):  # type: ignore[misc]  # the library is not annotated
    @staticmethod
    @override
    def compress_brotli(data: bytes) -> bytes:
        # The best quality takes half a second more than the next one, once, and gives 2 % less.
        return bytes(brotli.compress(data, quality=11))


class _Prepared:
    """In place of a file's storage: gives the content that browsers get."""

    def __init__(self, make: Callable[[], bytes]) -> None:
        self._make = make
        self._content: bytes | None = None

    def open(self, _: str) -> ContentFile[bytes]:
        if self._content is None:  # it is opened several times
            self._content = self._make()
        return ContentFile(self._content)


def _with_joined_files(paths: dict[str, Any]) -> dict[str, Any]:
    """The console's modules and sheets as fewer files."""

    def read(name: str) -> bytes:
        storage, path = paths[name]
        with storage.open(path) as file:
            return bytes(file.read())

    def joined_modules(file: str, modules: list[str]) -> bytes:
        return joined(file, modules, lambda module: read(f"console/{module}").decode()).encode()

    def joined_sheet() -> bytes:
        folder = JOINED_SHEET.rpartition("/")[0]
        sheet = _IMPORT.sub(lambda match: read(f"{folder}/{match[1].decode()}"), read(JOINED_SHEET))
        return _INDENTATION.sub(b"\n", _COMMENT.sub(rb"\1", sheet))

    left, modules = {}, defaultdict[str, list[str]](list)
    for name, found in paths.items():
        if match := _MODULE.fullmatch(name):
            modules[file_of(match[1])].append(match[1])
        else:
            left[name] = found
    for file, parts in modules.items():
        left[f"console/{file}"] = (_Prepared(partial(joined_modules, file, parts)), file)
    if JOINED_SHEET in paths:
        left[JOINED_SHEET] = (_Prepared(joined_sheet), JOINED_SHEET)
    return left


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
        paths = _with_joined_files(paths)
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
