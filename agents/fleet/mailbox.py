"""A mailbox on disk: ``new/`` to ``cur/`` by rename, gone when acknowledged.

At least once, for many writers and many readers: a message is claimed by the
rename, held by a lease (the file's time), and anybody may take over one whose
lease ran out. Links and pipes are never followed or opened. Blocks.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agents.fleet.disk import (
    read_regular,
    remove_old_temporaries,
    sync_folder,
    visible_json,
    write_atomically,
)
from agents.fleet.documents import BadDocument
from agents.fleet.mail import MOST_BYTES, Mail, decode, encode

_TEMPORARY_LIVES_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Delivered:
    """A claimed message. ``name`` is what it is acknowledged by."""

    name: str
    mail: Mail


class Mailbox:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._new, self._cur, self._corrupt = (folder / name for name in ("new", "cur", "corrupt"))

    def deliver(self, mail: Mail) -> None:
        """Once this returns, the message survives a crash. Raises ``BadDocument``, ``OSError``."""
        data = encode(mail)
        self._ensure()
        write_atomically(self._new / mail.file_name, data, mode=0o600)

    def drain(self, *, most: int | None = None) -> list[Delivered]:
        """Claims what is new, oldest first. Two that drain at once share the messages."""
        return list(self._claim(visible_json(self._new), most))

    def recover(self, *, lease_seconds: float = 0.0) -> list[Delivered]:
        """What was claimed and never acknowledged, oldest first.

        Without a lease everything in ``cur/``: right for a lone reader after its
        crash. With one, only what nobody has renewed for that long, and each
        message to one taker alone.
        """
        found = []
        for name in visible_json(self._cur):
            if lease_seconds <= 0 or self._take_over(name, lease_seconds):
                found.extend(self._parsed(name))
        remove_old_temporaries(self._new, older_than_seconds=_TEMPORARY_LIVES_SECONDS)
        return found

    def renew(self, delivered: Delivered) -> bool:
        """Holds the claim for another lease. False: it is acknowledged, or was never ours."""
        try:
            os.utime(self._cur / delivered.name, follow_symlinks=False)
        except OSError:
            return False
        return True

    def ack(self, delivered: Delivered) -> None:
        """Done with it. Callable twice. Raises ``OSError``."""
        (self._cur / delivered.name).unlink(missing_ok=True)
        sync_folder(self._cur)

    def waiting(self) -> int:
        """How many are not claimed yet."""
        return len(visible_json(self._new))

    def _claim(self, names: list[str], most: int | None) -> Iterator[Delivered]:
        claimed = 0
        if names:
            self._ensure()
        for name in names:
            if most is not None and claimed >= most:
                return
            with contextlib.suppress(FileNotFoundError):  # another reader was quicker
                # The lease begins before the message is seen in cur/.
                os.utime(self._new / name, follow_symlinks=False)
                (self._new / name).rename(self._cur / name)
                for delivered in self._parsed(name):
                    claimed += 1
                    yield delivered

    def _parsed(self, name: str) -> list[Delivered]:
        """One, or none: what cannot be read is moved aside."""
        data = read_regular(self._cur / name, most_bytes=MOST_BYTES)
        if data is not None:
            with contextlib.suppress(BadDocument):
                return [Delivered(name, decode(data))]
        with contextlib.suppress(OSError):  # gone: acknowledged meanwhile
            self._ensure()
            (self._cur / name).rename(self._corrupt / name)
        return []

    def _take_over(self, name: str, lease_seconds: float) -> bool:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            handle = os.open(self._cur / name, flags)
        except FileNotFoundError:
            return False
        except OSError:
            return True  # a link: let it be moved aside
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # one taker at a time
            told = os.fstat(handle)
            if time.time() - told.st_mtime < lease_seconds and stat.S_ISREG(told.st_mode):
                return False
            os.utime(handle)
            return True
        except OSError:
            return False
        finally:
            os.close(handle)

    def _ensure(self) -> None:
        for folder in (self._new, self._cur, self._corrupt):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
