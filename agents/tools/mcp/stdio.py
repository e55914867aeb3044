"""A server as a process of ours: its life, its messages on stdin and stdout, its last words.

Started through the shell's supervisor, so everything that it starts ends with
it, and all of it with this server. It inherits no descriptor of ours. What it
prints to stdout beside its messages is skipped; of stderr only the end is kept.
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
from agents.tools.mcp.limits import MAX_MESSAGE_BYTES, MAX_STDERR_BYTES, Patience
from agents.tools.shell.identity import recorded_start
from agents.tools.shell.process import Process, ProcessFailed
from agents.tools.shell.pumped import Pump
from agents.tools.shell.reaper import PROCESS_MARK
from agents.tools.shell.watched import readable
from workspaces.log.ids import new_id
from workspaces.tasks import wait_until_set

_CHUNK = 64 * 1024
_LARGE = 256 * 1024  # reading more than this takes the loop's time: done in a thread
_AT_ONCE = 100  # lines that are read without a pause
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
    """The end of what was written."""

    def __init__(self) -> None:
        self._kept = bytearray()

    def feed(self, chunk: bytes) -> bool:
        self._kept += chunk[-MAX_STDERR_BYTES:]
        del self._kept[:-MAX_STDERR_BYTES]
        return True

    def text(self) -> str:
        return readable(bytes(self._kept)).strip()


class McpProcess:
    """The process while it lives, and what is known of it afterwards."""

    def __init__(
        self,
        process: Process,
        tail: Tail,
        pump: Pump,
        identity: ProcessIdentity,
        patience: Patience,
    ) -> None:
        self._process = process
        self._tail = tail
        self._pump = pump
        self.identity = identity
        self._patience = patience
        self._ended = asyncio.ensure_future(process.wait())

    async def last_words(self) -> str:
        """Why it is gone, or what it has said so far."""
        await asyncio.wait({self._ended}, timeout=self._patience.last_words_seconds)
        if not self._ended.done():
            return self._told("The server stopped talking")
        if self._ended.cancelled():
            return "The server was stopped."
        await wait_until_set(self._pump.drained, seconds=self._patience.last_words_seconds)
        return self._told(f"The server ended with exit code {self._ended.result()}")

    def said(self) -> str:
        return self._tail.text()

    def _told(self, how: str) -> str:
        said = self.said()
        return f"{how}: {said}" if said else f"{how} and printed nothing on stderr."

    async def end(self) -> None:
        """Its stdin is closed, which is the word to leave; then everything of it is killed."""
        try:
            await asyncio.wait({self._ended}, timeout=self._patience.leave_seconds)
        finally:
            try:
                self._ended.cancel()
                await asyncio.wait({self._ended})
            finally:
                await self._process.settle()


def resolve_command(
    command: str, args: tuple[str, ...], *, cwd: Path, env: Mapping[str, str]
) -> Command:
    """Finds the program in the PATH that the server will have. Blocks; raises ``McpFailed``."""
    is_relative = "/" in command and not command.startswith("/")
    program = shutil.which(
        str(cwd / command) if is_relative else command, path=env.get("PATH") or os.defpath
    )
    if program is None:
        raise McpFailed(
            f"The command {masked_command(command)!r} was not found: install it, or give its whole path."
        )
    return Command((program, *args), cwd, {**env, PROCESS_MARK: new_id()})


@asynccontextmanager
async def started(
    command: Command, patience: Patience
) -> AsyncIterator[tuple[Incoming, Outgoing, McpProcess]]:
    """The process and its messages. Raises ``McpFailed``; enter and leave it in one task."""
    async with AsyncExitStack() as stack:
        child, stdin, stdout = await _start(command, patience, stack)
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
    command: Command, patience: Patience, stack: AsyncExitStack
) -> tuple[McpProcess, asyncio.StreamWriter, asyncio.StreamReader]:
    """What is begun is put on the stack at once. Raises ``McpFailed``."""
    tail = Tail()
    with ExitStack() as theirs, ExitStack() as ours:
        try:
            their_stdin, our_stdin = _pipe(theirs, ours)
            our_stdout, their_stdout = _pipe(ours, theirs)
            our_stderr, their_stderr = os.pipe()
            theirs.callback(os.close, their_stderr)
            pump = Pump(our_stderr, tail)  # owns it from here on
            stack.callback(pump.close)
            async with asyncio.timeout(_START_SECONDS):
                process = await Process.start(
                    command.argv,
                    cwd=command.cwd,
                    env=command.env,
                    stdin=their_stdin,
                    stdout=their_stdout,
                    stderr=their_stderr,
                    is_limited=False,  # the user's own choice, with needs of its own
                )
        except ProcessFailed as failure:
            raise McpFailed(str(failure)) from None
        except TimeoutError:
            raise McpFailed("The system takes too long to start a process.") from None
        except OSError as error:
            raise McpFailed(f"The system starts no process: {error.strerror}.") from None
        stack.push_async_callback(process.settle)
        ours.pop_all()  # the streams own them now
        stdin = await _writer(our_stdin, stack)
        stdout = await _reader(our_stdout, stack)
    pump.start()
    mark = command.env[PROCESS_MARK]
    start = await asyncio.to_thread(recorded_start, process.pid, mark)
    identity = ProcessIdentity(process.pid, start)
    return McpProcess(process, tail, pump, identity, patience), stdin, stdout


def _pipe(of_reader: ExitStack, of_writer: ExitStack) -> tuple[int, int]:
    reads, writes = os.pipe()
    of_reader.callback(os.close, reads)
    of_writer.callback(os.close, writes)
    return reads, writes


class _Flow(asyncio.streams.FlowControlMixin):
    """Holds a writer back while the pipe is full."""

    is_over = False

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.is_over = True  # aborting what is over would be a mistake


async def _writer(descriptor: int, stack: AsyncExitStack) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    pipe = os.fdopen(descriptor, "wb", 0)
    transport, protocol = await loop.connect_write_pipe(_Flow, pipe)

    def abort() -> None:
        if not protocol.is_over:
            transport.abort()

    stack.push_async_callback(_drop, abort)
    return asyncio.StreamWriter(transport, protocol, None, loop)


async def _reader(descriptor: int, stack: AsyncExitStack) -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=_CHUNK)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", 0)
    )
    stack.push_async_callback(_drop, transport.close)
    return reader


async def _drop(close: Callable[[], None]) -> None:
    close()
    await asyncio.sleep(0)  # the loop closes the descriptor on its next round


async def _receive(stdout: asyncio.StreamReader, sink: _Sink) -> None:
    """Until the end of stdout; the end of ``sink`` tells of it."""
    rest = bytearray()
    with sink, contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        while chunk := await stdout.read(_CHUNK):
            rest += chunk
            if b"\n" in chunk:
                *lines, last = rest.split(b"\n")
                rest = bytearray(last)
                for number, line in enumerate(lines):
                    if number % _AT_ONCE == 0:
                        await asyncio.sleep(0)  # a flood of lines is not to stop everybody else
                    message = await _message(bytes(line))
                    if message is not None:
                        await sink.send(message)
            if len(rest) > MAX_MESSAGE_BYTES:
                raise McpFailed(
                    f"The server sent a message of more than {MAX_MESSAGE_BYTES:,} bytes."
                )


async def _message(line: bytes) -> SessionMessage | None:
    """``None`` for what is no message: many servers print a greeting."""
    if line.lstrip()[:1] != b"{":
        return None
    parse = partial(jsonrpc_message_adapter.validate_json, by_name=False)
    try:
        parsed = await asyncio.to_thread(parse, line) if len(line) > _LARGE else parse(line)
    except ValidationError:
        return None
    return SessionMessage(parsed)


async def _send(source: _Source, stdin: asyncio.StreamWriter) -> None:
    """Until the process reads no more; the end of its stdout tells of that."""
    with source, contextlib.suppress(ConnectionError):
        async for message in source:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            if stdin.is_closing():
                return  # writing then is an error of another kind in each event loop
            stdin.write(text.encode() + b"\n")
            await stdin.drain()
