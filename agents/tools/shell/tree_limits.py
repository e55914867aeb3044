"""Limits on one command with its descendants: memory, processes, file size.

The module uses only the standard library, because the process that starts commands
imports it. A control group for each command limits memory and processes if the system
delegates one (cgroup v2); otherwise they are sampled. The kernel limits the size of a
file. An address-space limit would be simpler but does not work: Node, Java and Chromium
reserve far more memory than they use.
"""

import contextlib
import os
import resource
from collections.abc import Iterable
from typing import NamedTuple

from agents.tools.shell.process_tree import descendants

MIB = 1024 * 1024
MEMORY = "memory"
PROCESSES = "processes"
FILE_SIZE = "file-size"
LIMITED = b"l"  # the byte that requests the limits
UNLIMITED = b"+"

_CGROUPS = "/sys/fs/cgroup"
_CONTROLLERS = {MEMORY, "pids"}
_PAGE = os.sysconf("SC_PAGE_SIZE")
_CAP_SYS_PTRACE = 19
_CAPABILITY_VERSION = 0x20080522
_PR_CAPBSET_DROP = 24


class TreeLimits(NamedTuple):
    """The limits on one command and its descendants; 0 means no limit."""

    memory_bytes: int = 4096 * MIB
    processes: int = 4096  # threads count, as they do for the kernel
    file_bytes: int = 16_384 * MIB

    def encode(self) -> str:
        return ",".join(map(str, self))

    @classmethod
    def decode(cls, text: str) -> "TreeLimits":
        return cls(*map(int, text.split(",")))

    def sentence(self, exceeded: str) -> str:
        """Returns the message for people and models about an exceeded limit; empty for none."""
        if exceeded == MEMORY:
            size = _size(self.memory_bytes)
            return f"The command was ended: it used more than {size} of memory, the limit for a command with everything it starts (CRUSH_COMMAND_MEMORY_MB)."
        if exceeded == PROCESSES:
            return f"The command reached its limit of {self.processes:,} processes and threads (CRUSH_COMMAND_PROCESSES)."
        if exceeded == FILE_SIZE:
            size = _size(self.file_bytes)
            return f"The command was ended: it wrote a file larger than {size}, the limit for a command (CRUSH_COMMAND_FILE_MB)."
        return ""


NO_LIMITS = TreeLimits(0, 0, 0)


def _size(count: int) -> str:
    return f"{count / 1024**3:g} GiB" if count >= 1024**3 else f"{count / MIB:g} MiB"


def limit_file_size(limits: TreeLimits) -> None:
    """Limits the file size for this process and its future children."""
    if limits.file_bytes:
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        most = limits.file_bytes if hard == resource.RLIM_INFINITY else min(limits.file_bytes, hard)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


def drop_inspection() -> None:
    """Drops the capability to read other processes' memory, for this process and its children.

    A command of root could otherwise read the server's keys from ``/proc``. The kernel denies
    this to a process with fewer capabilities than its target.
    """
    import ctypes  # noqa: PLC0415  loaded before the first fork, shared by all

    class Header(ctypes.Structure):
        _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]

    class Data(ctypes.Structure):
        _fields_ = [(name, ctypes.c_uint32) for name in ("effective", "permitted", "inheritable")]

    libc = ctypes.CDLL(None, use_errno=True)
    # First drop it from the bounding set, which limits the capabilities of root's new programs.
    libc.prctl(_PR_CAPBSET_DROP, _CAP_SYS_PTRACE, 0, 0, 0)
    header, data = Header(_CAPABILITY_VERSION, 0), (Data * 2)()
    if libc.capget(ctypes.byref(header), data) == 0:
        kept = ~(1 << _CAP_SYS_PTRACE) & 0xFFFFFFFF
        data[0].effective &= kept
        data[0].permitted &= kept
        data[0].inheritable &= kept
        libc.capset(ctypes.byref(header), data)


# -- a control group for each command


class CommandGroup:
    """The cgroup of one command, created before it starts and removed after its processes."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    @classmethod
    def make(cls, parent: str, limits: TreeLimits) -> "CommandGroup | None":
        group = cls(os.path.join(parent, f"command-{os.getpid()}"))  # noqa: PTH118  as below
        try:
            os.mkdir(group.folder)  # noqa: PTH102  pathlib would double this process's size
            # A command above its memory limit ends as a whole, not one process of it.
            group._write("memory.oom.group", "1")
            group._write("memory.max", str(limits.memory_bytes or "max"))
            group._write("pids.max", str(limits.processes or "max"))
        except OSError:
            group.remove()
            return None
        return group

    def join(self) -> None:
        """Adds this process and its future children to the group."""
        self._write("cgroup.procs", "0")

    def exceeded(self) -> str:
        if self._count("memory.events", "oom_kill"):
            return MEMORY
        return PROCESSES if self._count("pids.events", "max") else ""

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            os.rmdir(self.folder)  # noqa: PTH106  as above

    def _write(self, name: str, value: str) -> None:
        _write(os.path.join(self.folder, name), value)  # noqa: PTH118  as above

    def _count(self, name: str, key: str) -> int:
        for line in _read(os.path.join(self.folder, name)).splitlines():  # noqa: PTH118  as above
            word, _, value = line.partition(" ")
            if word == key:
                return int(value)
        return 0


def delegated_group(root: str = _CGROUPS, own: str = "/proc/self/cgroup") -> str:
    """Returns the folder in which groups may be created; empty if the system delegates none.

    It uses only a delegated group: one that systemd marks as such (``Delegate=yes`` with
    ``DelegateSubgroup=``), or a container's own root.
    """
    line = next((line for line in _read(own).splitlines() if line.startswith("0::/")), "")
    if not line or not os.path.exists(f"{root}/cgroup.controllers"):  # noqa: PTH110  as above
        return ""
    name = line.removeprefix("0::").rstrip("/")
    candidates = [root + name] if not name else [root + name, root + name.rpartition("/")[0]]
    for folder in candidates:
        if (folder == root or _is_delegated(folder)) and _can_limit(folder):
            return folder
    return ""


def _is_delegated(folder: str) -> bool:
    for attribute in ("user.delegate", "trusted.delegate"):
        with contextlib.suppress(OSError, AttributeError):
            if os.getxattr(folder, attribute) == b"1":
                return True
    return False


def _can_limit(folder: str) -> bool:
    if not set(_read(f"{folder}/cgroup.controllers").split()) >= _CONTROLLERS:
        return False
    try:
        if not set(_read(f"{folder}/cgroup.subtree_control").split()) >= _CONTROLLERS:
            # This fails with EBUSY while processes are in this group itself.
            _write(f"{folder}/cgroup.subtree_control", "+memory +pids")
    except OSError:
        return False
    probe = CommandGroup.make(folder, NO_LIMITS)
    if probe is not None:
        probe.remove()
    return probe is not None


# -- sampled


SLOW_SECONDS = 0.5
FAST_SECONDS = 0.1  # a program fills about 3 GiB of memory in a second


class TreeUsage(NamedTuple):
    resident: dict[int, int]  # bytes of each process
    processes: int  # threads count


def usage_below(roots: set[int]) -> dict[int, TreeUsage]:
    """Returns the usage below each of these processes, with a single walk over ``/proc``."""
    facts: dict[int, tuple[int, int]] = {}
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208  as above
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                fields = _stat_fields(int(name))
                facts[int(name)] = (int(fields[21]) * _PAGE, int(fields[17]))
                children.setdefault(int(fields[1]), []).append(int(name))
    found: dict[int, TreeUsage] = {}
    for root in roots:
        pids = descendants({root}, children)
        resident = {pid: facts[pid][0] for pid in pids}
        found[root] = TreeUsage(resident, sum(facts[pid][1] for pid in pids))
    return found


def _stat_fields(pid: int) -> list[str]:
    line = _read(f"/proc/{pid}/stat")
    # The name in brackets may itself hold brackets and spaces.
    return line[line.rindex(")") + 2 :].split()


def exceeded_by(usage: TreeUsage, limits: TreeLimits, *, may_hide: bool = False) -> str:
    """Returns the exceeded limit; empty for none.

    ``may_hide``: files in memory that no process has mapped may use memory.
    """
    if limits.processes and usage.processes > limits.processes:
        return PROCESSES
    if limits.memory_bytes and (may_hide or sum(usage.resident.values()) > limits.memory_bytes):
        # Shared pages were counted once for each process, so measure exactly, which is expensive.
        # And twice: processes that end during a measurement leave their share to later ones.
        looks = (_exact_bytes(usage.resident) for _ in range(2))
        return MEMORY if all(exact > limits.memory_bytes for exact in looks) else ""
    return ""


def _exact_bytes(pids: Iterable[int]) -> int:
    shares = [_proportional_bytes(pid) for pid in pids]
    mapped = sum(shared for _, shared in shares)
    return sum(whole for whole, _ in shares) - mapped + max(mapped, _held_in_files(pids))


def _proportional_bytes(pid: int) -> tuple[int, int]:
    """Returns the process's proportional share of memory, and the part that is files in memory."""
    rollup = _read(f"/proc/{pid}/smaps_rollup").splitlines()
    found = {
        line.partition(":")[0]: int(line.split()[1]) * 1024
        for line in rollup
        if line.startswith(("Pss:", "Pss_Shmem:"))
    }
    if "Pss" not in found:
        # All memory of another user's process counts; an ended process has none.
        return _resident_bytes(pid), 0
    return found["Pss"], found.get("Pss_Shmem", 0)


def _resident_bytes(pid: int) -> int:
    try:
        return int(_stat_fields(pid)[21]) * _PAGE
    except (ValueError, IndexError):
        return 0


def _held_in_files(pids: Iterable[int]) -> int:
    """Returns the bytes of these processes' open files in memory (``memfd_create``, ``/dev/shm``)."""
    files: dict[tuple[int, int], int] = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208  as above
                with contextlib.suppress(OSError):
                    place = f"/proc/{pid}/fd/{name}"
                    if os.readlink(place).startswith(("/memfd:", "/dev/shm/")):  # noqa: PTH115, S108  not a path
                        status = os.stat(place)  # noqa: PTH116  as above
                        files[status.st_dev, status.st_ino] = status.st_blocks * 512
    return sum(files.values())


def _files_in_memory() -> int:
    """Returns the bytes of all files in memory on this machine."""
    for line in _read("/proc/meminfo").splitlines():
        if line.startswith("Shmem:"):
            return int(line.split()[1]) * 1024
    return 0


class Sampler:
    """Samples the process trees below some processes, more often while one of them is large."""

    def __init__(self, limits: TreeLimits) -> None:
        self._limits = limits
        self._due_at: float | None = None
        self._in_files = 0  # on this machine, at the start of sampling

    def pause(self, now: float, *, is_watching: bool) -> float | None:
        """Returns the seconds until the next sample; ``None`` while there is nothing to sample."""
        if not is_watching or not (self._limits.memory_bytes or self._limits.processes):
            self._due_at = None
            return None
        if self._due_at is None:
            self._due_at = now + SLOW_SECONDS
            self._in_files = _files_in_memory()
        return max(0.0, self._due_at - now)

    def over(self, now: float, roots: set[int]) -> dict[int, str]:
        """Returns the exceeded limit of each tree, if a sample is due."""
        if self._due_at is None or now < self._due_at:
            return {}
        usage = usage_below(roots)
        largest = max((sum(each.resident.values()) for each in usage.values()), default=0)
        may_hide = (_files_in_memory() - self._in_files) * 4 > self._limits.memory_bytes > 0
        is_large = may_hide or largest * 4 > self._limits.memory_bytes > 0
        self._due_at = now + (FAST_SECONDS if is_large else SLOW_SECONDS)
        found = {
            root: exceeded_by(each, self._limits, may_hide=may_hide) for root, each in usage.items()
        }
        return {root: exceeded for root, exceeded in found.items() if exceeded}


def _read(path: str) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return ""
    try:
        return os.read(descriptor, 65_536).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def _write(path: str, value: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        os.write(descriptor, value.encode())
    finally:
        os.close(descriptor)
