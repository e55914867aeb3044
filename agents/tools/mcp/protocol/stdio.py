"""A server as a local process: its lifecycle, its messages on stdin and stdout, its stderr.

The shell's supervisor starts the process, so its descendants end with it, and all of
them end with this server. It inherits no other descriptors. Lines on stdout that are
not messages are skipped. Only the end of stderr is kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from pydantic import ValidationError
from typing_extensions import override

from agents.config.mask import masked_command
from agents.tools.mcp.contract import McpFailed, ProcessIdentity
from agents.tools.mcp.limits import MAX_MESSAGE_BYTES, MAX_STDERR_BYTES, McpTimeouts
from agents.tools.shell.command import Pump
from agents.tools.shell.identity import PROCESS_MARK, recorded_start
from agents.tools.shell.output import readable
from agents.tools.shell.pipes import connect_reader, connect_writer
from agents.tools.shell.process import Process, ProcessFailed
from workspaces.log.ids import new_id
from workspaces.tasks import wait_until_set

_CHUNK = 64 * 1024
_LARGE = 256 * 1024  # larger messages are parsed in a thread, to keep the event loop free
_AT_ONCE = 100  # lines to read before yielding to the event loop
_START_SECONDS = 30.0

Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
Outgoing = MemoryObjectSendStream[SessionMessage]
_Sink = MemoryObjectSendStream[SessionMessage | Exception]
_Source = MemoryObjectReceiveStream[SessionMessage]


@dataclass(frozen=True, slots=True)
class Command:
    argv: tuple[str, ...] = field(repr=False)
    cwd: Path
    env: Mapping[str, str] = field(repr=False)


class Tail:
    """A sink that keeps the end of the output."""

    def __init__(self) -> None:
        self._kept = bytearray()

    def feed(self, chunk: bytes) -> bool:
        self._kept += chunk[-MAX_STDERR_BYTES:]
        del self._kept[:-MAX_STDERR_BYTES]
        return True

    def text(self) -> str:
        return readable(bytes(self._kept)).strip()


class McpProcess:
    """The server's process, with its exit code and stderr after its end."""

    def __init__(
        self,
        process: Process,
        tail: Tail,
        pump: Pump,
        identity: ProcessIdentity,
        timeouts: McpTimeouts,
    ) -> None:
        self._process = process
        self._tail = tail
        self._pump = pump
        self.identity = identity
        self._timeouts = timeouts
        self._ended = asyncio.ensure_future(process.wait())

    async def exit_reason(self) -> str:
        """Returns why the process ended, with the end of its stderr."""
        await asyncio.wait({self._ended}, timeout=self._timeouts.stderr_seconds)
        if not self._ended.done():
            return self._with_stderr("The server closed its output")
        if self._ended.cancelled():
            return "The server was stopped."
        await wait_until_set(self._pump.drained, seconds=self._timeouts.stderr_seconds)
        return self._with_stderr(f"The server ended with exit code {self._ended.result()}")

    def stderr(self) -> str:
        return self._tail.text()

    def _with_stderr(self, how: str) -> str:
        printed = self.stderr()
        return f"{how}: {printed}" if printed else f"{how} and printed nothing on stderr."

    async def end(self) -> None:
        """Waits for the process to exit after its stdin was closed, then kills the whole tree."""
        try:
            await asyncio.wait({self._ended}, timeout=self._timeouts.exit_seconds)
        finally:
            try:
                self._ended.cancel()
                await asyncio.wait({self._ended})
            finally:
                await self._process.settle()


def resolve_command(
    command: str, args: tuple[str, ...], *, cwd: Path, env: Mapping[str, str]
) -> Command:
    """Finds the program in the PATH of the server's environment. Blocks; raises ``McpFailed``."""
    is_relative = "/" in command and not command.startswith("/")
    program = shutil.which(
        str(cwd / command) if is_relative else command, path=env.get("PATH") or os.defpath
    )
    if program is None:
        raise McpFailed(
            f"The command {masked_command(command)!r} was not found: install it, or configure its full path."
        )
    return Command((program, *args), cwd, {**env, PROCESS_MARK: new_id()})


@asynccontextmanager
async def started(
    command: Command, timeouts: McpTimeouts
) -> AsyncIterator[tuple[Incoming, Outgoing, McpProcess]]:
    """Runs the process and yields its messages. Raises ``McpFailed``.

    The same task must enter and leave the context.
    """
    async with AsyncExitStack() as stack:
        child, stdin, stdout = await _start(command, timeouts, stack)
        stack.push_async_callback(child.end)
        stack.callback(stdin.close)
        incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        for stream in (incoming, read, write, outgoing):
            stack.callback(stream.close)
        async with anyio.create_task_group() as tasks:
            _ = tasks.start_soon(_receive, stdout, incoming)
            _ = tasks.start_soon(_send, outgoing, stdin)
            try:
                yield read, write, child
            finally:
                tasks.cancel_scope.cancel()


async def _start(
    command: Command, timeouts: McpTimeouts, stack: AsyncExitStack
) -> tuple[McpProcess, asyncio.StreamWriter, asyncio.StreamReader]:
    """Starts the process and puts each cleanup on the stack at once. Raises ``McpFailed``."""
    tail = Tail()
    with ExitStack() as theirs, ExitStack() as ours:
        try:
            their_stdin, our_stdin = _pipe(theirs, ours)
            our_stdout, their_stdout = _pipe(ours, theirs)
            our_stderr, their_stderr = os.pipe()
            theirs.callback(os.close, their_stderr)
            pump = Pump(our_stderr, tail)  # it owns the descriptor from here on
            stack.callback(pump.close)
            async with asyncio.timeout(_START_SECONDS):
                process = await Process.start(
                    command.argv,
                    cwd=command.cwd,
                    env=command.env,
                    stdin=their_stdin,
                    stdout=their_stdout,
                    stderr=their_stderr,
                    is_limited=False,  # the user configured it, and its needs are unknown
                )
        except ProcessFailed as failure:
            raise McpFailed(str(failure)) from None
        except TimeoutError:
            raise McpFailed("Starting the process took too long.") from None
        except OSError as error:
            raise McpFailed(f"The system could not start a process: {error.strerror}.") from None
        stack.push_async_callback(process.settle)
        ours.pop_all()  # the streams own the descriptors now
        stdin = await _writer(our_stdin, stack)
        stdout = await _reader(our_stdout, stack)
    pump.start()
    mark = command.env[PROCESS_MARK]
    start = await asyncio.to_thread(recorded_start, process.pid, mark)
    identity = ProcessIdentity(process.pid, start)
    return McpProcess(process, tail, pump, identity, timeouts), stdin, stdout


def _pipe(of_reader: ExitStack, of_writer: ExitStack) -> tuple[int, int]:
    reads, writes = os.pipe()
    of_reader.callback(os.close, reads)
    of_writer.callback(os.close, writes)
    return reads, writes


class _Flow(asyncio.streams.FlowControlMixin):
    """Pauses a writer while the pipe is full."""

    is_over = False

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.is_over = True  # a closed transport must not be aborted


async def _writer(descriptor: int, stack: AsyncExitStack) -> asyncio.StreamWriter:
    transport, protocol = await connect_writer(descriptor, _Flow)

    def abort() -> None:
        if not protocol.is_over:
            transport.abort()

    stack.push_async_callback(_drop, abort)
    return asyncio.StreamWriter(transport, protocol, None, asyncio.get_running_loop())


async def _reader(descriptor: int, stack: AsyncExitStack) -> asyncio.StreamReader:
    reader, transport = await connect_reader(descriptor, limit=_CHUNK)
    stack.push_async_callback(_drop, transport.close)
    return reader


async def _drop(close: Callable[[], None]) -> None:
    close()
    await asyncio.sleep(0)  # the loop closes the descriptor on its next round


async def _receive(stdout: asyncio.StreamReader, sink: _Sink) -> None:
    """Reads messages until the end of stdout, then closes ``sink``."""
    rest = bytearray()
    with sink, contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        while chunk := await stdout.read(_CHUNK):
            rest += chunk
            if b"\n" in chunk:
                *lines, last = rest.split(b"\n")
                rest = bytearray(last)
                for number, line in enumerate(lines):
                    if number % _AT_ONCE == 0:
                        await asyncio.sleep(0)  # a flood of lines must not block other tasks
                    message = await _message(bytes(line))
                    if message is not None:
                        await sink.send(message)
            if len(rest) > MAX_MESSAGE_BYTES:
                raise McpFailed(
                    f"The server sent a message of more than {MAX_MESSAGE_BYTES:,} bytes."
                )


async def _message(line: bytes) -> SessionMessage | None:
    """Parses a line; ``None`` if it is not a message, because many servers print a greeting."""
    if line.lstrip()[:1] != b"{":
        return None
    parse = partial(jsonrpc_message_adapter.validate_json, by_name=False)
    try:
        parsed = await asyncio.to_thread(parse, line) if len(line) > _LARGE else parse(line)
    except ValidationError:
        return None
    return SessionMessage(parsed)


async def _send(source: _Source, stdin: asyncio.StreamWriter) -> None:
    """Writes messages until the process stops reading, which ``_receive`` detects."""
    with source, contextlib.suppress(ConnectionError):
        async for message in source:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            if stdin.is_closing():
                return  # a write would raise a different exception in each event loop
            stdin.write(text.encode() + b"\n")
            await stdin.drain()
