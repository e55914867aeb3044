"""The processes that a command has started, and how a process takes charge of them.

The module uses only the standard library, because the process that starts commands imports it.
"""

import contextlib
import os
import select
import signal
import sys

LINUX = sys.platform == "linux"
PARENT_GONE = signal.SIGALRM  # the process that forked it is gone
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_PDEATHSIG = 1


def become_subreaper() -> None:
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def follow_parent(parent: int) -> None:
    """Who watches the limits must not be killed by the command that is watched: then the
    supervisor ends its command."""
    _prctl(_PR_SET_PDEATHSIG, PARENT_GONE)
    if LINUX and os.getppid() != parent:
        os._exit(0)


def _prctl(option: int, value: int) -> None:
    if not LINUX:
        return
    import ctypes  # noqa: PLC0415  loaded before the first fork, shared by all

    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def wakeups() -> int:
    """A descriptor that becomes readable whenever a child ends."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    return reader


def wait_readable(descriptors: list[int], seconds: float | None, wakeup: int) -> list[int]:
    ready = select.select([*descriptors, wakeup], [], [], seconds)[0]
    if wakeup in ready:
        with contextlib.suppress(BlockingIOError):
            os.read(wakeup, 4096)
        ready.remove(wakeup)
    return ready


def parents() -> dict[int, int]:
    """Every process and its parent; empty where there is no /proc."""
    found: dict[int, int] = {}
    if not LINUX:
        return found
    for name in os.listdir("/proc"):  # noqa: PTH208  pathlib would double this process's size
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError, IndexError, ValueError):
            descriptor = os.open(f"/proc/{name}/stat", os.O_RDONLY)
            try:
                line = os.read(descriptor, 1024)
            finally:
                os.close(descriptor)
            # The name in brackets may itself hold brackets and spaces.
            found[int(name)] = int(line[line.rindex(b")") + 2 :].split()[1])
    return found


def below(roots: set[int]) -> set[int]:
    """Every process under these, without these."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents().items():
        children.setdefault(parent, []).append(pid)
    return descendants(roots, children)


def send_signal(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, number)


def freeze_and_kill(roots: set[int], *, with_roots: bool) -> None:
    """Stop the whole tree first: what is stopped cannot fork while it is being counted."""
    frozen: set[int] = set()
    for _ in range(50):
        fresh = (below(roots) | (roots if with_roots else set())) - frozen
        if not fresh:
            break
        for pid in fresh:
            send_signal(pid, signal.SIGSTOP)
        frozen |= fresh
    for pid in frozen:
        send_signal(pid, signal.SIGKILL)


def descendants(roots: set[int], children: dict[int, list[int]]) -> set[int]:
    """Returns the descendants of these processes, without the processes themselves."""
    found: set[int] = set()
    edge = list(roots)
    while edge:
        for pid in children.get(edge.pop(), ()):
            if pid not in found:
                found.add(pid)
                edge.append(pid)
    return found
