"""System calls that fail in one thread, as they do on a disk that breaks or lacks something."""

from __future__ import annotations

import ctypes
import platform
import struct
import threading
from collections.abc import Callable

import pytest

_NUMBERS = {
    "x86_64": {"fsync": 74, "linkat": 265},
    "aarch64": {"fsync": 82, "linkat": 37},
}
_SET_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_FAIL, _ALLOW = 0x0005_0000, 0x7FFF_0000


def run_while_failing(call: str, error: int, work: Callable[[], None]) -> BaseException | None:
    """What ``work`` raises in a thread in which the call fails. The filter ends with the thread."""
    raised: list[BaseException] = []
    is_filtered = False

    def run() -> None:
        nonlocal is_filtered
        is_filtered = _filter(call, error)
        try:
            work()
        except BaseException as found:
            raised.append(found)

    if call not in _NUMBERS.get(platform.machine(), {}) or platform.system() != "Linux":
        pytest.skip("the numbers of this machine's system calls are not known")
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if not is_filtered:
        pytest.skip("this kernel does not let a thread filter its system calls")
    return raised[0] if raised else None


def _filter(call: str, error: int) -> bool:
    number = _NUMBERS[platform.machine()][call]
    steps = [
        (_LOAD, 0, 0, 0),
        (_JUMP_IF_EQUAL, 0, 1, number),
        (_RETURN, 0, 0, _FAIL | error),
        (_RETURN, 0, 0, _ALLOW),
    ]
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    given = ctypes.create_string_buffer(struct.pack("HP", len(steps), ctypes.addressof(program)))
    control = ctypes.CDLL(None).prctl
    control.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
    if control(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        return False
    return bool(control(_SET_SECCOMP, _FILTER, ctypes.addressof(given), 0, 0) == 0)
