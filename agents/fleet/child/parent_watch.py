"""A child that was spawned ends with the process that spawned it, however that died.

Not by the kernel's signal to orphans: that one comes when the *thread* that
spawned has ended, and some parents spawn from threads that live for seconds. A
thread of our own waits, so that it works while the event loop does not.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections.abc import Callable

LOOK_SECONDS = 0.5  # where the kernel cannot tell
GRACE_SECONDS = 12.0  # for an orderly end
INIT = 1


def watch_parent(parent: int, *, on_death: Callable[[], None]) -> None:
    """Calls ``on_death`` in another thread, then ends this process if nobody else does.

    ``parent`` is whoever was ``os.getppid()`` when this process began.
    """
    if parent <= INIT:
        return  # nobody's child, or already left behind
    threading.Thread(
        target=_wait, args=(parent, on_death), name="parent-watch", daemon=True
    ).start()


def _wait(parent: int, on_death: Callable[[], None]) -> None:
    _wait_for_death(parent)
    with contextlib.suppress(RuntimeError):  # the loop has ended by itself
        on_death()
    time.sleep(GRACE_SECONDS)
    os._exit(1)


def _wait_for_death(parent: int) -> None:
    opener = getattr(os, "pidfd_open", None)
    try:
        handle = opener(parent) if opener is not None else None
    except OSError:
        handle = None
    if handle is None:
        while os.getppid() == parent:
            time.sleep(LOOK_SECONDS)
        return
    try:
        # Its number may have been another's when the handle was made.
        if os.getppid() == parent:
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            poll.poll()
    finally:
        os.close(handle)
