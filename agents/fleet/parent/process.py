"""Starts a child's process on this machine, reads its standard error, and ends it.

Its arguments are fixed and its environment is filtered; secrets go through its standard
input. Signals go through the process handle, because a pid may be reused.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from typing_extensions import override

from agents.fleet.parent.errors import SpawnFailed
from agents.tools.shell.identity import started
from workspaces.tasks import wait_until_set

TERM_SECONDS = 4.0  # a run that ignores its cancel is aborted after three
_MOST_STDERR = 8 * 1024
# What a Python program and its tools need; no variable that may hold a key.
_PASSED_ON = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "XDG_RUNTIME_DIR",
    "VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX",
    "DJANGO_SETTINGS_MODULE", "SSL_CERT_FILE", "SSL_CERT_DIR", "NIX_SSL_CERT_FILE", "SYSTEMROOT",
})  # fmt: skip


def child_environment(extra: Mapping[str, str]) -> dict[str, str]:
    own = {
        name: value
        for name, value in os.environ.items()
        if name in _PASSED_ON or name.startswith("LC_")
    }
    return {**own, **extra}


class _Pipes(asyncio.subprocess.SubprocessStreamProtocol):
    """Sets ``has_exited`` when the process has ended.

    ``Process.wait`` of Python 3.11 also waits until its pipes are closed, and a grandchild
    that inherited them keeps them open for as long as it lives.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=_MOST_STDERR, loop=loop)
        self.has_exited = asyncio.Event()

    @override
    def process_exited(self) -> None:
        super().process_exited()
        self.has_exited.set()


class ChildProcess:
    """A child's process. Call ``start`` in the loop's thread: the child ends with that thread."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        transport: asyncio.SubprocessTransport,
        has_exited: asyncio.Event,
    ) -> None:
        self._process = process
        self._transport = transport
        self._has_exited = has_exited
        self.pid = process.pid
        self.started = ""  # identifies this process for ever, with its pid
        self._stderr = bytearray()
        self._reading = asyncio.create_task(self._read_stderr())

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        *,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> ChildProcess:
        """Starts the process. Raises ``SpawnFailed``."""
        loop = asyncio.get_running_loop()
        try:
            transport, pipes = await loop.subprocess_exec(
                lambda: _Pipes(loop),
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                cwd=folder,
                env=child_environment(environment or {}),
                start_new_session=True,  # a terminal's Ctrl-C is for the parent
            )
        except (OSError, ValueError) as error:
            kind = type(error).__name__
            raise SpawnFailed(f"The sub-agent's process could not be started ({kind}).") from None
        process = asyncio.subprocess.Process(transport, pipes, loop)
        child = cls(process, transport, pipes.has_exited)
        try:
            child.started = await asyncio.to_thread(started, process.pid)
        except BaseException:
            await child.end(grace_seconds=0)
            raise
        return child

    @property
    def exit_code(self) -> int | None:
        return self._process.returncode

    async def write_input(self, document: bytes) -> None:
        """Writes its standard input and closes it. Does nothing if the process has ended."""
        stdin = self._process.stdin
        if stdin is None or stdin.is_closing():
            return
        with contextlib.suppress(ConnectionError):
            stdin.write(document)
            await stdin.drain()
        stdin.close()
        with contextlib.suppress(ConnectionError):
            await stdin.wait_closed()

    async def stderr_end(self) -> str:
        """Returns the end of its standard error, after it has ended."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):  # its own children may hold the pipe
                await asyncio.shield(self._reading)
        return self._stderr.decode("utf-8", errors="replace").strip()

    async def wait(self, *, within_seconds: float) -> bool:
        """Waits for its end; returns whether it has ended."""
        return await wait_until_set(self._has_exited, seconds=within_seconds)

    async def end(self, *, grace_seconds: float = TERM_SECONDS) -> None:
        """Sends SIGTERM, then SIGKILL after the grace period. Callable twice."""
        try:
            if self.exit_code is None and grace_seconds > 0:
                self._signal(signal.SIGTERM)
                await self.wait(within_seconds=grace_seconds)
        finally:
            # Also after a cancel of this task: no child is left behind.
            if self.exit_code is None:
                self._signal(signal.SIGKILL)
        await self._has_exited.wait()
        await self._close_pipes()

    def kill(self) -> None:
        """Kills it at once, if there is no time to wait."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)  # not reaped yet, so the pid is still its own

    async def _read_stderr(self) -> None:
        stderr = self._process.stderr
        while stderr is not None and (chunk := await stderr.read(4096)):
            self._stderr += chunk
            del self._stderr[:-_MOST_STDERR]

    async def _close_pipes(self) -> None:
        await self.stderr_end()
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._transport.close()  # a grandchild may hold the pipe open
