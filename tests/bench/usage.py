"""Processor time and memory of process trees."""

from contextlib import suppress
from dataclasses import dataclass

import psutil


@dataclass(frozen=True, slots=True)
class Usage:
    """Of all given processes and their descendants together."""

    cpu_seconds: float
    pss_mb: float | None  # proportional share; None where the system does not tell it


def usage(pids: list[int], *, memory: bool = False) -> Usage:
    cpu, pss = 0.0, 0.0
    warned = False
    for process in _tree(pids):
        with suppress(psutil.Error):
            times = process.cpu_times()
            cpu += times.user + times.system
        if memory:
            with suppress(psutil.Error, AttributeError):
                pss += process.memory_full_info().pss / 1_048_576
                warned = True
    return Usage(cpu, pss if warned else None)


def _tree(pids: list[int]) -> list[psutil.Process]:
    found: dict[int, psutil.Process] = {}
    for pid in pids:
        with suppress(psutil.Error):
            root = psutil.Process(pid)
            found[pid] = root
            found.update({child.pid: child for child in root.children(recursive=True)})
    return list(found.values())
