"""Commands as processes: start one, wait for it, and end all that came of it.

Each command runs in a session of its own under a supervisor (``supervise.py``),
which ends every descendant with the command, with ``end``, and with the death
of this server. Knows nothing of tools, permissions or shells.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from agents.tools.shell.reaper import PROCESS_MARK, kill_marked
from agents.tools.shell.supervisor import SUPERVISOR

KILLED = 137  # 128 + the signal's number, as shells count
MAX_ARGUMENT_BYTES = 128 * 1024 - 1  # Linux takes no longer single argument
_SETTLE_SECONDS = 3.0  # each for the supervisor, and for its parent when that does not answer
_TRIES = 50


class ProcessFailed(Exception):
    """The command could not be started; the sentence says why and holds no environment."""


class Process:
    """One started command. ``end`` may be called at any time and any number of times."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        supervisor_pid: int,
        mark: str,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._supervisor_pid = supervisor_pid
        self._mark = mark
        self.pid = 0
        self.exit_code: int | None = None
        self.exceeded = ""  # the limit for which it was ended, as a sentence
        self._over = False

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdin: int,
        stdout: int,
        stderr: int,
        is_limited: bool = True,
    ) -> Process:
        """Raises ``ProcessFailed``. The descriptors stay the caller's, to close after this.

        ``is_limited``: the limits on memory, processes and file size apply.
        """
        request = _encode(argv, cwd, env)
        mark = env.get(PROCESS_MARK, "")
        process = await _supervised([stdin, stdout, stderr], mark, is_limited=is_limited)
        writer = process._writer
        try:
            writer.write(len(request).to_bytes(8, "big") + request)
            with contextlib.suppress(ConnectionError):
                await writer.drain()
            word, value = await _next(process._reader)
        except BaseException:
            await process.settle()  # the command may have begun meanwhile
            raise
        if word == "failed":
            writer.close()
            raise ProcessFailed(f"{argv[0]} could not be started in {cwd}: {value}")
        if word == "started":  # else the command has killed its supervisor already: wait tells
            process.pid = int(value)
        return process

    async def wait(self) -> int:
        """The exit code, once the command and everything it started are gone."""
        while not self._over:
            word, value = await _next(self._reader)
            if word == "exited":
                self.exit_code = int(value)
            elif word == "exceeded":
                self.exceeded = SUPERVISOR.limits.sentence(value)
            elif word in {"ended", "failed"}:
                self._over = True
            elif not word:  # the supervisor was killed: find what it held by the mark
                if self._mark:
                    await asyncio.to_thread(kill_marked, self._mark)
                self._over = True
        self._writer.close()
        return KILLED if self.exit_code is None else self.exit_code

    def end(self) -> None:
        """Ask for the end of it all. Returns at once; ``wait`` tells when it is done."""
        with contextlib.suppress(OSError, RuntimeError):
            if not self._writer.is_closing():
                self._writer.write_eof()

    async def settle(self) -> None:
        """End it and wait until it is gone, within bounds, even while being cancelled."""
        self.end()
        waiting = asyncio.ensure_future(self.wait())
        try:
            _, late = await asyncio.wait({waiting}, timeout=_SETTLE_SECONDS)
            if late:
                # Stopped by its own command, or busy with what cannot be killed. It lives, so
                # the number is its own; its parent takes over what it held.
                with contextlib.suppress(OSError):
                    os.kill(self._supervisor_pid, signal.SIGKILL)
                _, late = await asyncio.wait({waiting}, timeout=_SETTLE_SECONDS)
            if late:
                waiting.cancel()
        finally:
            # Closing is enough for the supervisor: a second cancel loses nothing.
            if not waiting.done():
                waiting.add_done_callback(lambda _done: self._writer.close())


async def _supervised(stdio: Sequence[int], mark: str, *, is_limited: bool) -> Process:
    """A fresh supervisor, which waits for its command."""
    for attempt in range(_TRIES):
        ours = await _request_supervisor(stdio, is_limited=is_limited)
        if ours is not None:
            reader, writer = await asyncio.open_connection(sock=ours)
            try:
                word, value = await _next(reader)
            except BaseException:
                writer.close()
                raise
            if word == "ready":
                return Process(reader, writer, supervisor_pid=int(value), mark=mark)
            writer.close()
        # Its parent has died, or has no room for it, or hundreds are waiting before us.
        await asyncio.sleep(0.002 * (attempt + 1))
    raise ProcessFailed("The system starts no more processes at the moment.")


async def _request_supervisor(stdio: Sequence[int], *, is_limited: bool) -> socket.socket | None:
    if not SUPERVISOR.running:
        await asyncio.to_thread(SUPERVISOR.ensure_started)
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with theirs:
        try:
            SUPERVISOR.spawn([theirs.fileno(), *stdio], is_limited=is_limited)
        except (BlockingIOError, ConnectionError):
            ours.close()
            return None
        except BaseException:
            ours.close()
            raise
    return ours


async def _next(reader: asyncio.StreamReader) -> tuple[str, str]:
    """The supervisor's next word and its value; empty when it is gone."""
    try:
        line = await reader.readline()
    except ConnectionError:
        line = b""
    word, _, value = line.decode("utf-8", errors="replace").rstrip("\n").partition(" ")
    return word, value


def _encode(argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> bytes:
    fields = [str(cwd), str(len(argv)), *argv]
    fields += [f"{name}={value}" for name, value in env.items() if name and "=" not in name]
    try:
        encoded = [os.fsencode(field) for field in fields]
    except UnicodeEncodeError:
        raise ProcessFailed("The command holds characters that are not Unicode text.") from None
    if any(len(field) > MAX_ARGUMENT_BYTES for field in encoded[2:]):
        raise ProcessFailed(f"The command could not be started: {os.strerror(errno.E2BIG)}")
    if any(b"\0" in field for field in encoded):
        raise ProcessFailed("The command holds a NUL character.")
    return b"\0".join(encoded)
