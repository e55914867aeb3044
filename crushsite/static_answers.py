"""Collected files without Django: a page of the console loads dozens of them at once.

No thread changes, and headers are half as long (`python -m tests.bench.web --figure load`).
Everything unusual is left to Django and WhiteNoise: names that the manifest does not have, parts of
files, other methods.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.staticfiles.storage import staticfiles_storage

PREFIX = "/static/"
_TYPES = {
    ".css": b"text/css",  # in UTF-8, as the pages
    ".js": b"text/javascript",
    ".svg": b"image/svg+xml",
}
# By preference: what a client accepts, and the end of the compressed file's name.
_ENCODINGS = ((b"br", ".br"), (b"gzip", ".gz"), (b"", ""))
# The name has a hash of the content.
_FOREVER = (b"cache-control", b"max-age=31536000, public, immutable")
_VARY = (b"vary", b"Accept-Encoding")
# What Django adds to every answer; its other headers count for documents only.
_NO_GUESSES = (b"x-content-type-options", b"nosniff")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]


class StaticAnswers:
    """Wraps an application, which answers everything else."""

    def __init__(self, app: Application) -> None:
        self._app = app
        self._manifest: Mapping[str, str] = {}
        self._names: frozenset[str] = frozenset()
        self._answers: dict[tuple[str, str], tuple[Headers, bytes]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_file = scope["type"] == "http" and scope["path"].startswith(PREFIX)
        # Files of pages have no owner, so no identity is looked up.
        if not is_file or not await self._answer(scope, send):
            await self._app(scope, receive, send)

    async def _answer(self, scope: Scope, send: Send) -> bool:
        """Sends the file, and returns whether it did."""
        name = scope["path"].removeprefix(PREFIX)
        if scope["method"] != "GET" or not self._has(name):
            return False
        accepted = _accepted(scope)
        if accepted is None:
            return False
        for encoding, suffix in _ENCODINGS:
            if encoding and encoding not in accepted:
                continue
            found = self._answers.get((name, suffix))
            if found is None:
                found = await asyncio.to_thread(_read, name, encoding, suffix)
            if found is not None:
                self._answers[name, suffix] = found
                await _send(*found, send)
                return True
        return False

    def _has(self, name: str) -> bool:
        storage: Any = staticfiles_storage
        if storage.hashed_files is not self._manifest:  # the files were collected
            self._manifest = storage.hashed_files
            self._names = frozenset(
                each for each in self._manifest.values() if Path(each).suffix in _TYPES
            )
            self._answers.clear()
        return name in self._names


def _accepted(scope: Scope) -> frozenset[bytes] | None:
    """The encodings that the client accepts; ``None``: it wants a part of the file."""
    found: set[bytes] = set()
    for key, value in scope["headers"]:
        if key == b"range":
            return None
        if key == b"accept-encoding":
            parts = [each.replace(b" ", b"") for each in value.lower().split(b",")]
            found.update(each.partition(b";")[0] for each in parts if not _is_refused(each))
    return frozenset(found)


def _is_refused(part: bytes) -> bool:
    weight = part.partition(b";q=")[2]
    return weight != b"" and not weight.strip(b"0.")


def _read(name: str, encoding: bytes, suffix: str) -> tuple[Headers, bytes] | None:
    try:
        body = (Path(settings.STATIC_ROOT) / f"{name}{suffix}").read_bytes()
    except OSError:
        return None  # too small to be compressed, or removed
    headers = [
        (b"content-type", _TYPES[Path(name).suffix]),
        (b"content-length", b"%d" % len(body)),
        _FOREVER,
        _VARY,
        _NO_GUESSES,
    ]
    if encoding:
        headers.append((b"content-encoding", encoding))
    return headers, body


async def _send(headers: Headers, body: bytes, send: Send) -> None:
    start = {"type": "http.response.start", "status": 200, "headers": headers, "trailers": False}
    await send(start)
    await send({"type": "http.response.body", "body": body, "more_body": False})
