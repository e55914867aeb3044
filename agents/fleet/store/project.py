"""One project's folder: session files, their indices, their mailboxes.

Every file is replaced as a whole. Changes of an index read, change and write
under a lock of the project, for several processes may share the folder. The
sessions are the truth: an index that cannot be read is made again. Blocks.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from agents.fleet.disk import is_safe_name, read_regular, write_atomically
from agents.fleet.documents import BadDocument, read_object, written
from agents.fleet.mailbox import Mailbox
from agents.fleet.store.entries import (
    MOST_BYTES,
    ChildEntry,
    ChildStatus,
    Index,
    RootEntry,
    decode_children,
    decode_index,
    encode_children,
    encode_index,
)
from agents.fleet.times import now_nanos


class BadName(ValueError):
    """An id that cannot be a folder's name."""


class ProjectStore:
    """Every method may raise ``BadName`` and ``OSError``, the writing ones ``BadDocument``."""

    def __init__(self, root: Path, key: str) -> None:
        self.folder = root / "projects" / _named(key)

    # -- sessions

    def session(self, parent_id: str, child_id: str | None = None) -> dict[str, Any] | None:
        """The stored document; None when there is none that can be read."""
        path = self._session_folder(parent_id, child_id) / "session.json"
        data = read_regular(path, most_bytes=MOST_BYTES)
        if data is None:
            return None
        try:
            return dict(read_object(data, what="The session", most_bytes=MOST_BYTES).values)
        except BadDocument:
            return None

    def save_session(
        self, parent_id: str, document: Mapping[str, Any], *, child_id: str | None = None
    ) -> None:
        self._write(self._session_folder(parent_id, child_id) / "session.json", written(document))

    def mailbox(self, parent_id: str, child_id: str | None = None) -> Mailbox:
        return Mailbox(self._session_folder(parent_id, child_id) / "mailbox")

    # -- indices

    def index(self) -> Index:
        data = read_regular(self.folder / "index.json", most_bytes=MOST_BYTES)
        if data is not None:
            with contextlib.suppress(BadDocument):
                return decode_index(data)
        return self._rebuilt()

    def children(self, parent_id: str) -> tuple[ChildEntry, ...]:
        """Sorted by id."""
        path = self._session_folder(parent_id) / "children.json"
        data = read_regular(path, most_bytes=MOST_BYTES)
        if data is not None:
            with contextlib.suppress(BadDocument):
                return tuple(sorted(decode_children(data), key=lambda child: child.child_id))
        return ()

    def put_root(self, root: RootEntry) -> None:
        _named(root.session_id)
        with self._locked():
            index = self.index()
            others = [each for each in index.roots if each.session_id != root.session_id]
            self._write_index(replace(index, roots=(*others, root)))

    def put_child(self, parent_id: str, child: ChildEntry) -> None:
        """Adds or replaces it in the parent's list, and says whose it is."""
        _named(child.child_id)
        with self._locked():
            self._put_child(parent_id, child)
            index = self.index()
            if index.child_lookup.get(child.child_id) != parent_id:
                lookup = {**index.child_lookup, child.child_id: parent_id}
                self._write_index(replace(index, child_lookup=lookup))

    def set_status(self, parent_id: str, child_id: str, status: ChildStatus) -> bool:
        """False when there is no such child."""
        with self._locked():
            for child in self.children(parent_id):
                if child.child_id == child_id:
                    changed = replace(child, status=status, updated_at=now_nanos())
                    self._put_child(parent_id, changed)
                    return True
        return False

    def parent_of(self, child_id: str) -> str | None:
        return self.index().child_lookup.get(child_id)

    def remove_child(self, parent_id: str, child_id: str) -> None:
        """Out of the indices; its session stays on disk. Callable twice."""
        with self._locked():
            left = [each for each in self.children(parent_id) if each.child_id != child_id]
            self._write_children(parent_id, left)
            index = self.index()
            lookup = {c: p for c, p in index.child_lookup.items() if c != child_id}
            self._write_index(replace(index, child_lookup=lookup))

    def _put_child(self, parent_id: str, child: ChildEntry) -> None:
        others = [each for each in self.children(parent_id) if each.child_id != child.child_id]
        self._write_children(parent_id, [*others, child])

    def _write_children(self, parent_id: str, children: list[ChildEntry]) -> None:
        path = self._session_folder(parent_id) / "children.json"
        self._write(path, encode_children(children))

    def _write_index(self, index: Index) -> None:
        self._write(self.folder / "index.json", encode_index(index))

    def _rebuilt(self) -> Index:
        """From the sessions themselves."""
        roots, lookup = [], {}
        for parent_id in self._session_ids():
            session = self.session(parent_id)
            if session is not None:
                path = self._session_folder(parent_id) / "session.json"
                title = session.get("title")
                changed = path.stat().st_mtime_ns
                roots.append(RootEntry(parent_id, title if isinstance(title, str) else "", changed))
            lookup.update({child.child_id: parent_id for child in self.children(parent_id)})
        return Index(tuple(roots), lookup)

    def _session_ids(self) -> list[str]:
        try:
            names = sorted(entry.name for entry in os.scandir(self.folder / "sessions"))
        except OSError:
            return []
        return [name for name in names if is_safe_name(name)]

    # -- files

    def _session_folder(self, parent_id: str, child_id: str | None = None) -> Path:
        folder = self.folder / "sessions" / _named(parent_id)
        return folder if child_id is None else folder / "children" / _named(child_id)

    def _write(self, path: Path, data: bytes) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(path, data, mode=0o600)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(self.folder / ".lock", flags, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)  # which also unlocks


def _named(name: str) -> str:
    if not is_safe_name(name):
        raise BadName("An id or key must be usable as a folder's name.")
    return name
