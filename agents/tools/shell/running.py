"""A command that runs while somebody else decides what becomes of it.

It may be waited for a while, handed on, and ended at any time; whoever holds it
calls ``finish`` once. Knows nothing of jobs, tools or rows.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
import shutil
import struct
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

from agents.tools.shell.process import KILLED, Process, ProcessFailed
from agents.tools.shell.pumped import Pump, Sink, start_pumped
from workspaces.tasks import wait_until_set

GO = b"go\n"

# ``exec`` keeps the process: the pid and the start time that were recorded stay true. When
# the one who holds the gate dies, the read fails and nothing was ever run.
_GATE = 'read -r go && exec "$@" </dev/null'


def shell_command(command: str, env: Mapping[str, str]) -> list[str]:
    path = env.get("PATH")
    shell = shutil.which("bash", path=path) or shutil.which("sh", path=path) or "/bin/sh"
    return [shell, "-c", command]


def gated(argv: Sequence[str]) -> list[str]:
    """The same command, which begins when ``GO`` comes on its standard input."""
    return ["/bin/sh", "-c", _GATE, "sh", *argv]


_LINES = 50
# Colours stay; whatever else would move the cursor, set titles or reach a clipboard goes.
_NOT_COLOUR = re.compile(
    r"\x1b(?:"
    r"\[(?![0-9;:]*m)[0-?]*[ -/]*(?:[@-~]|$)"  # control sequences but those for colours
    r"|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, clipboards and other strings
    r"|[ -/]+[0-~]"  # character sets
    r"|[0-Z\\`-~]"  # what is one letter long
    r")"
)
_OVERSTRUCK = re.compile(r"[^\n\x1b]\x08")  # how manual pages make letters bold
_OTHER_CONTROLS = re.compile(r"[\x01-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]|\x1b(?!\[[0-9;:]*m)")


def open_terminal(columns: int) -> tuple[int, int]:
    """The side to read, and the side that the command writes to. Raises ``OSError``."""
    reads, writes = os.openpty()
    try:
        fcntl.ioctl(writes, termios.TIOCSWINSZ, struct.pack("HHHH", _LINES, columns, 0, 0))
        mode = termios.tcgetattr(writes)
        mode[1] &= ~termios.OPOST
        mode[3] &= ~(termios.ECHO | termios.ICANON | termios.ISIG)
        termios.tcsetattr(writes, termios.TCSANOW, mode)
    except BaseException:
        os.close(reads)
        os.close(writes)
        raise
    return reads, writes


def shown(text: str) -> str:
    """What was printed for a screen as text with colours: safe for every client to draw."""
    text = _NOT_COLOUR.sub("", text.replace("\r\n", "\n"))
    return _OTHER_CONTROLS.sub("", _OVERSTRUCK.sub("", _overwritten(text)))


def _overwritten(text: str) -> str:
    """A progress bar draws over its line: its newest state counts."""
    if "\r" not in text:
        return text
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))


_DRAIN_SECONDS = 2.0


class Running:
    def __init__(self, process: Process, pump: Pump, sink: Sink, gate: int | None) -> None:
        self._process = process
        self._pump = pump
        self._sink = sink
        self._gate = gate
        self._asked = asyncio.Event()
        self._ended = asyncio.ensure_future(process.wait())
        pump.start()

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        sink: Sink,
        is_held: bool = False,
        columns: int = 0,
    ) -> Running:
        """``is_held``: it does nothing before ``let_go``. ``columns``: it prints on a terminal.

        Raises ``ProcessFailed``.
        """
        with contextlib.ExitStack() as to_close, contextlib.ExitStack() as on_failure:
            try:
                gate: int | None = None
                if is_held:
                    stdin, gate = os.pipe()
                    on_failure.callback(os.close, gate)
                else:
                    stdin = os.open(os.devnull, os.O_RDONLY)
                to_close.callback(os.close, stdin)
                reads, writes = open_terminal(columns) if columns else os.pipe()
                to_close.callback(os.close, writes)
            except OSError as error:
                raise ProcessFailed(f"The system starts no process: {error.strerror}.") from None
            process, pump = await start_pumped(
                gated(argv) if is_held else argv,
                cwd=cwd,
                env=env,
                sink=sink,
                stdin=stdin,
                reads=reads,
                writes=writes,
            )
            on_failure.pop_all()
            return cls(process, pump, sink, gate)

    @property
    def pid(self) -> int:
        """0 when the command was over before it could be told."""
        return self._process.pid

    @property
    def is_over(self) -> bool:
        return self._ended.done()

    def let_go(self) -> None:
        """The held command begins. Callable twice."""
        if self._gate is not None:
            with contextlib.suppress(OSError):  # it was killed before it began
                os.write(self._gate, GO)
            self._shut_gate()

    async def wait(self, seconds: float) -> bool:
        """Whether it came to its end within this time."""
        await asyncio.wait({self._ended}, timeout=max(0.0, seconds))
        return self._ended.done()

    def end(self) -> None:
        """Ask for the end of it and all that it started; ``finish`` tells when that is done."""
        self._asked.set()

    async def finish(self) -> int:
        """Its exit code, once it and everything it started are gone and its output is read.

        Waits until it ends or is asked to end. Cancelling this ends it all first.
        """
        asked = asyncio.ensure_future(self._asked.wait())
        try:
            await asyncio.wait({self._ended, asked}, return_when=asyncio.FIRST_COMPLETED)
            await self._settle()
            # What still lies in the pipe. Bounded: who could not be killed may hold it open.
            await wait_until_set(self._pump.drained, seconds=_DRAIN_SECONDS)
        finally:
            asked.cancel()
            await self._settle()
            self._pump.close()
        if self._process.exceeded:
            # With its output, so that whoever reads that knows: a model, a job's owner, a user.
            self._sink.feed(f"\n{self._process.exceeded}\n".encode())
        return KILLED if self._process.exit_code is None else self._process.exit_code

    async def _settle(self) -> None:
        self._shut_gate()
        if not self._ended.done():
            self._ended.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._ended
        await self._process.settle()

    def _shut_gate(self) -> None:
        if self._gate is not None:
            os.close(self._gate)
            self._gate = None
