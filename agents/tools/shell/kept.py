"""Background commands that outlive their server: their output, and how the next server takes them.

While no server has the command, its supervisor collects the output and waits for a server. The
file of a kept command holds its output, and its exit code once it has ended. Deleting the file
ends the command. The module uses only the standard library, because the supervisor imports it.
"""

import contextlib
import os
import socket
import sys
from typing import NamedTuple

AVAILABLE = sys.platform == "linux"
KEEP = b"k"  # the first byte of an order; two descriptors come with it
END = b"e"
TAKE_SECONDS = 5.0  # for a server and a supervisor to hand over a command
LOOK_SECONDS = 1.0  # between two looks at the command's file
_NAME = b"\0crush-command-"
_GREETING = b"crush-command 1 "
_MAX_LINE = 512
_CHUNK = 64 * 1024
_MAX_SIDE = 4 * 1024 * 1024
_MAX_FILE = 2 * _MAX_SIDE + _MAX_LINE
_NO_CODE = b"-"


class DamagedRecord(ValueError):
    """A file or an order cannot be read."""


class HeadAndTail:
    """Output within a limit: its beginning, its end, and the size of the whole."""

    def __init__(self, limit_bytes: int) -> None:
        self._head_size = limit_bytes // 2
        self._tail_size = limit_bytes - self._head_size
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def feed(self, chunk: bytes) -> bool:
        """Adds output. Always true: a command that exceeds the limit continues."""
        self.total += len(chunk)
        room = self._head_size - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        if len(chunk) > self._tail_size:
            chunk = chunk[len(chunk) - self._tail_size :]
        self._tail += chunk
        # Cut only at twice the size, to copy rarely.
        if len(self._tail) > 2 * self._tail_size:
            del self._tail[: len(self._tail) - self._tail_size]
        return True

    def encode(self, exit_code: int | None = None) -> bytes:
        tail = self._tail[max(0, len(self._tail) - self._tail_size) :]
        code = _NO_CODE if exit_code is None else b"%d" % exit_code
        sizes = (self._head_size, self._tail_size, self.total, len(self._head), len(tail))
        return b" ".join([*(b"%d" % size for size in sizes), code]) + b"\n" + self._head + tail

    def load(self, encoded: bytes) -> int | None:
        """Takes over stored output; returns its exit code. Raises ``DamagedRecord``."""
        line, found, data = encoded[:_MAX_FILE].partition(b"\n")
        if not found or len(line) > _MAX_LINE:
            raise DamagedRecord
        *sizes, code = line.split(b" ")
        try:
            head_size, tail_size, total, head, tail = map(int, sizes)
            exit_code = None if code == _NO_CODE else int(code)
        except ValueError:
            raise DamagedRecord from None
        if not (0 <= head <= head_size <= _MAX_SIDE and 0 <= tail <= tail_size <= _MAX_SIDE):
            raise DamagedRecord
        if len(data) != head + tail or total < head + tail:
            raise DamagedRecord
        self._head_size, self._tail_size, self.total = head_size, tail_size, total
        self._head, self._tail = bytearray(data[:head]), bytearray(data[head:])
        return exit_code


class KeepOrder(NamedTuple):
    """What a server sends to a supervisor, so that the command may outlive the server."""

    token: str  # random; names the file, and the socket at which the supervisor listens
    mark: str  # of the command
    seconds: float  # without a server, after which the command ends

    def encode(self) -> bytes:
        return KEEP + f"{self.token} {self.mark} {self.seconds}\n".encode()

    @classmethod
    def decode(cls, line: bytes) -> "KeepOrder":
        """Raises ``DamagedRecord``."""
        try:
            token, mark, seconds = line.removeprefix(KEEP).decode("ascii").split(" ")
            return cls(token, mark, float(seconds))
        except ValueError:
            raise DamagedRecord from None


# -- in the supervisor


class CommandHolder:
    """Has a command while no server has it."""

    def __init__(self, order: KeepOrder, source: int, file: int) -> None:
        """Raises ``OSError``. ``source`` is where the command's output is read."""
        self._order = order
        self._source = source
        self._file = file
        self._output: HeadAndTail | None = None  # while no server has the command
        self._is_drained = False
        self._look_at = self._end_at = 0.0
        self._saved = -1  # the size of the output at the last save
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(_NAME + order.token.encode())
        self._listener.listen(4)
        self._listener.setblocking(False)

    def begin(self, now: float) -> None:
        """Takes the command over, because its server is gone."""
        self._output = HeadAndTail(_CHUNK)
        with contextlib.suppress(OSError, DamagedRecord):
            self._output.load(_read_all(self._file))
        os.set_blocking(self._source, False)
        self._look_at, self._end_at = now, now + self._order.seconds

    def descriptors(self) -> list[int]:
        if self._output is None:
            return []
        return [self._listener.fileno(), *([] if self._is_drained else [self._source])]

    def pause(self, now: float) -> float | None:
        """Returns the seconds until ``work`` has something to do even without output."""
        return None if self._output is None else max(0.0, min(self._look_at, self._end_at) - now)

    def work(self, ready: list[int], now: float) -> socket.socket | None:
        """Reads output and saves it; returns the connection of a server that takes the command."""
        if self._output is None:
            return None
        if self._source in ready:
            self._read(self._output)
        if now >= self._look_at:
            self._look_at = now + LOOK_SECONDS
            if self._output.total != self._saved:
                self._save()
        return self._hand_over(self._output) if self._listener.fileno() in ready else None

    def is_abandoned(self, now: float) -> bool:
        """Whether no server came in time, or the command's file is gone."""
        if self._output is None:
            return False
        return now >= self._end_at or os.fstat(self._file).st_nlink == 0

    def finish(self, exit_code: int, note: str) -> None:
        """Stores the command's end, for the next server."""
        if self._output is None:  # the server has it
            return
        while not self._is_drained and self._read(self._output):
            pass
        if note:
            self._output.feed(f"\n{note}\n".encode())
        self._save(exit_code)

    def _read(self, output: HeadAndTail) -> bool:
        try:
            chunk = os.read(self._source, _CHUNK)
        except BlockingIOError:
            return False
        except OSError:  # a terminal raises this when no writer is left
            chunk = b""
        self._is_drained = not chunk
        return output.feed(chunk) and bool(chunk)

    def _save(self, exit_code: int | None = None) -> None:
        if self._output is not None:
            with contextlib.suppress(OSError):
                overwrite(self._file, self._output.encode(exit_code))
                self._saved = self._output.total

    def _hand_over(self, output: HeadAndTail) -> socket.socket | None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return None
        try:
            connection.settimeout(TAKE_SECONDS)
            if _peer(connection)[1] != os.getuid():
                raise PermissionError
            self._save()
            encoded = output.encode()
            head = _GREETING + b"%s %d\n" % (self._order.mark.encode(), len(encoded))
            socket.send_fds(connection, [head], [self._source])
            connection.sendall(encoded)
            connection.settimeout(None)
        except OSError:
            connection.close()
            return None
        self._output = None
        return connection


def _peer(connection: socket.socket) -> tuple[int, int]:
    """Returns the number and the user of the process at the other end, from the kernel."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    pid, uid, _ = (int.from_bytes(raw[at : at + 4], sys.byteorder) for at in (0, 4, 8))
    return pid, uid


# -- in the server


class Taken(NamedTuple):
    """A command that a server has taken from its supervisor."""

    control: socket.socket
    source: int  # where its output is read
    output: bytes  # so far, encoded

    def close(self) -> None:
        self.control.close()
        os.close(self.source)


def take(token: str, *, mark: str, supervisor_pid: int) -> Taken | None:
    """Takes a command from its supervisor; ``None`` if there is none. Blocks for some seconds.

    The process that listens must have this number, and send the mark.
    """
    control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    received: list[int] = []
    try:
        control.settimeout(TAKE_SECONDS)
        control.connect(_NAME + token.encode())
        if _peer(control) != (supervisor_pid, os.getuid()):
            raise PermissionError
        data, received, _, _ = socket.recv_fds(control, _MAX_LINE, 1)
        while b"\n" not in data and 0 < len(data) < _MAX_LINE:
            data += control.recv(_MAX_LINE) or b"\n"
        line, _, output = data.partition(b"\n")
        mark_sent, size = line.removeprefix(_GREETING).split(b" ")
        if not line.startswith(_GREETING) or mark_sent != mark.encode() or len(received) != 1:
            raise PermissionError
        parts = [output]
        rest = min(int(size), _MAX_FILE) - len(output)
        while rest > 0:
            parts.append(control.recv(min(rest, _CHUNK)))
            rest = rest - len(parts[-1]) if parts[-1] else 0
        control.setblocking(False)
        source = received.pop()
        os.set_inheritable(source, False)
        return Taken(control, source, b"".join(parts))
    except (OSError, ValueError):
        control.close()
        return None
    finally:
        for descriptor in received:
            os.close(descriptor)


def create(path: str) -> int:
    """Creates the file of a command, and its folder. Raises ``OSError``."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)  # noqa: PTH103, PTH120  pathlib would double the supervisor's size
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags, 0o600)


def save(path: str, encoded: bytes) -> None:
    """Stores a command's output, unless its file was deleted. Raises ``OSError``."""
    file = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        overwrite(file, encoded)
    finally:
        os.close(file)


def stored(path: str) -> bytes:
    """Returns what a command's file has; empty if there is none."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return _read_all(file)
    except OSError:
        return b""
    finally:
        os.close(file)


def delete(path: str) -> None:
    """Deletes the file of a command, which ends the command if no server has it."""
    with contextlib.suppress(OSError):
        os.unlink(path)  # noqa: PTH108  as above


def tokens(folder: str) -> set[str]:
    """Returns the tokens of the files in a folder."""
    with contextlib.suppress(OSError):
        return set(os.listdir(folder))  # noqa: PTH208  as above
    return set()


def overwrite(file: int, encoded: bytes) -> None:
    os.pwrite(file, encoded, 0)
    os.ftruncate(file, len(encoded))


def _read_all(file: int) -> bytes:
    return os.pread(file, _MAX_FILE, 0)
