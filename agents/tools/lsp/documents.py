"""The files that a language server has open, synchronized with the disk.

The first request about a file opens it. A changed file is sent again. A file is closed
when it no longer exists, or when too many newer files are open.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.tools.contract import FileMark, ToolRefusal
from agents.tools.files import text_file
from agents.tools.limits import MAX_TEXT_BYTES
from agents.tools.lsp.handshake import Protocol
from agents.tools.lsp.languages import language_of
from agents.tools.lsp.positions import address_of

MOST_OPEN = 100


@dataclass(frozen=True, slots=True)
class Synced:
    """A file as the server has it."""

    text: str
    version: int
    has_changed: bool  # since it was last sent


@dataclass(slots=True)
class _Open:
    address: str
    version: int
    digest: bytes
    mark: FileMark


class Documents:
    def __init__(
        self,
        protocol: Protocol,
        notify: Callable[[str, Any], None],
        *,
        notifies_saves: bool,
        takes_changes: bool,
    ) -> None:
        """``notify`` receives typed parameters."""
        self._types = protocol.types
        self._notify = notify
        self._notifies_saves = notifies_saves
        self._takes_changes = takes_changes
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._lock = asyncio.Lock()

    def paths(self) -> list[str]:
        """Returns the open paths, the newest last."""
        return list(self._open)

    async def sync(self, path: Path) -> Synced:
        """Sends a file if it has changed. Raises ``ToolRefusal`` if it is missing or unreadable."""
        async with self._lock:
            try:
                file = await asyncio.to_thread(text_file.read, path, max_bytes=MAX_TEXT_BYTES)
            except (FileNotFoundError, ToolRefusal) as error:
                self._close(str(path))
                if isinstance(error, ToolRefusal):
                    raise
                raise ToolRefusal(f"{path} does not exist.") from None
            return self._synced(str(path), file)

    async def sync_open(self) -> bool:
        """Sends the open files that have changed on the disk. Returns whether any had."""
        changed = await asyncio.to_thread(_changed, dict(self._open))
        for name in changed:
            try:
                await self.sync(Path(name))
            except ToolRefusal:
                continue  # ``sync`` has closed it
        return bool(changed)

    def _synced(self, name: str, file: text_file.TextFile) -> Synced:
        types = self._types
        digest = hashlib.blake2b(file.text.encode(), digest_size=16).digest()
        known = self._open.get(name)
        if known is not None:
            self._open.move_to_end(name)
            known.mark = file.mark
            if known.digest == digest:
                return Synced(file.text, known.version, has_changed=False)
            if not self._takes_changes:
                self._close(name)
                known = None
        if known is None:
            known = self._open[name] = _Open(address_of(name), 1, digest, file.mark)
            item = types.TextDocumentItem(known.address, language_of(name), 1, file.text)
            self._notify("textDocument/didOpen", types.DidOpenTextDocumentParams(item))
            self._notify_watched(known.address, types.FileChangeType.Created)
        else:
            known.version += 1
            known.digest = digest
            named = types.VersionedTextDocumentIdentifier(known.version, known.address)
            whole = types.TextDocumentContentChangeWholeDocument(file.text)
            self._notify(
                "textDocument/didChange", types.DidChangeTextDocumentParams(named, [whole])
            )
            self._notify_watched(known.address, types.FileChangeType.Changed)
            self._notify_saved(known.address)
        while len(self._open) > MOST_OPEN:
            self._close(next(iter(self._open)), is_gone=False)
        return Synced(file.text, known.version, has_changed=True)

    def _close(self, name: str, *, is_gone: bool = True) -> None:
        known = self._open.pop(name, None)
        if known is None:
            return
        types = self._types
        named = types.TextDocumentIdentifier(known.address)
        self._notify("textDocument/didClose", types.DidCloseTextDocumentParams(named))
        if is_gone:
            self._notify_watched(known.address, types.FileChangeType.Deleted)

    def _notify_saved(self, address: str) -> None:
        if self._notifies_saves:
            types = self._types
            named = types.TextDocumentIdentifier(address)
            self._notify("textDocument/didSave", types.DidSaveTextDocumentParams(named))

    def _notify_watched(self, address: str, change: Any) -> None:
        """Notifies of a change on the disk: some servers also read the disk themselves."""
        types = self._types
        event = types.FileEvent(address, change)
        params = types.DidChangeWatchedFilesParams([event])
        self._notify("workspace/didChangeWatchedFiles", params)


def _changed(documents: dict[str, _Open]) -> list[str]:
    """Returns the documents whose files have changed since their last read."""
    found: list[str] = []
    for name, document in documents.items():
        try:
            same = text_file.mark(Path(name)) == document.mark
        except (OSError, ToolRefusal):
            same = False
        if not same:
            found.append(name)
    return found
