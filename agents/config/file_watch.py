"""Hears of changes in folders: one kernel watch and one thread of its own.

Knows folders and paths, nothing of what files mean. What it tells is a hint: whoever
hears it looks for himself, and looks now and then without a hint too.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify

logger = logging.getLogger(__name__)

STEP_MS = 60  # a change is told when so long nothing else has changed,
DEBOUNCE_MS = 300  # or so long after it
_TRIES = 5


class CannotWatch(Exception):
    """The kernel takes no more watches, or the file system has none."""


def _notify(folders: Sequence[str]) -> RustNotify:
    from watchfiles._rust_notify import RustNotify  # noqa: PLC0415  a server's start must not wait for it

    for _ in range(_TRIES):
        # Its own way to leave out what may not be read would swallow every other error too.
        readable = [folder for folder in folders if os.access(folder, os.R_OK)]
        try:
            return RustNotify(readable, False, False, 300, False, False)
        except FileNotFoundError:
            continue  # one went away just now
        except (OSError, RuntimeError) as error:
            # Its texts name folders and the kernel's reason.
            raise CannotWatch(str(error)) from None
    raise CannotWatch("folders come and go")


class FileWatch:
    """Made in a thread: it loads a library and asks the kernel. ``heard`` is called in
    the watch's own thread. Raises ``CannotWatch``."""

    def __init__(self, folders: Iterable[str], heard: Callable[[frozenset[str]], None]) -> None:
        self._heard = heard
        self._stopping = threading.Event()
        self._notify = _notify(sorted(folders))
        self._thread = threading.Thread(target=self._listen, name="config-watch", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        """Blocks until its thread has ended. Callable twice."""
        self._stopping.set()
        self._thread.join()

    def _listen(self) -> None:
        try:
            self._tell_all(self._notify)
        except Exception as error:  # noqa: BLE001  whatever ends it, whoever asks sees it dead
            logger.warning("watching configuration files ended: %s", error)
        finally:
            self._notify.close()

    def _tell_all(self, notify: RustNotify) -> None:
        while not self._stopping.is_set():
            changes = notify.watch(DEBOUNCE_MS, STEP_MS, 0, self._stopping)
            if not isinstance(changes, str):
                self._heard(frozenset(path for _, path in changes))
            elif changes == "signal":
                return
