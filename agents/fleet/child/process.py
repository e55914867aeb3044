"""The child's process, from its standard input to its exit code.

It gets its configuration as one document on standard input: its arguments hold no
secret, and it reads no server settings. The caller of ``run_child`` supplies the
executors other than ``echo`` and ``script``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from agents.fleet import records
from agents.fleet.child.conversation import ParentConversation, RunCounts
from agents.fleet.child.executor import RunExecutor, Starting
from agents.fleet.child.listener import NotAWebSocket, ParentListener, ParentPeer
from agents.fleet.child.script import EchoExecutor, ScriptExecutor
from agents.fleet.provisioning.codec import read_spec
from agents.fleet.provisioning.spec import MOST_BYTES, BadSpec, ProvisionSpec
from agents.fleet.records import BadRecord

logger = logging.getLogger(__name__)


ACCEPT_SECONDS: Final = 120.0
IDLE_SECONDS: Final = 300.0
CONNECTIONS_LIMIT: Final = 1_000
ENDING_SECONDS: Final = 6.0  # longer than the cancel and the abort of a run
POLL_SECONDS = 0.5  # between checks, if the kernel cannot notify
GRACE_SECONDS = 12.0  # for an orderly shutdown
INIT = 1

FAILED = 1
UNSUPPORTED = 2
BAD_INPUT = 101
INTERRUPTED = 130

Engine = Callable[[ProvisionSpec], RunExecutor]


@dataclass(frozen=True, slots=True)
class ChildOptions:
    is_forever: bool = False  # serves any number of parents at once, until it is stopped
    is_detached: bool = False  # lives on when the process that started it ends
    accept_seconds: float = ACCEPT_SECONDS


def run_child(options: ChildOptions, engines: Mapping[str, Engine]) -> int:
    """Runs the child and returns its exit code; does not return after SIGTERM."""
    parent = os.getppid()
    logging.basicConfig(
        level=logging.WARNING, format="%(levelname)s %(name)s %(message)s", stream=sys.stderr
    )
    try:
        spec = read_spec(sys.stdin.buffer.read(MOST_BYTES + 1))
    except BadSpec as error:
        return _fail(
            f"the provisioning document on standard input is not valid: {error}", BAD_INPUT
        )
    counts = RunCounts()
    executor = _executor(spec, engines, counts)
    if executor is None:
        return _fail(
            "the executor in the document is not supported; use echo, script or crush", UNSUPPORTED
        )
    child = _Child(spec, executor, counts, options)
    code = asyncio.run(child.live(parent))
    if child.was_terminated:
        # Restores the signal's default, so that the waiting process sees the signal.
        sys.stderr.flush()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
    return code


def _executor(
    spec: ProvisionSpec, engines: Mapping[str, Engine], counts: RunCounts
) -> RunExecutor | None:
    match spec.executor.kind:
        case "echo":
            return EchoExecutor()
        case "script":
            return ScriptExecutor(counts)
        case kind if kind in engines:
            return engines[kind](spec)
        case _:
            return None


class _Child:
    def __init__(
        self,
        spec: ProvisionSpec,
        executor: RunExecutor,
        counts: RunCounts,
        options: ChildOptions,
    ) -> None:
        self._spec = spec
        self._executor = Starting(executor)
        self._counts = counts
        self._options = options
        self._mode = (
            Mode.FOREVER if options.is_forever else Mode.REUSABLE if spec.reusable else Mode.ONCE
        )
        self._stopping = asyncio.Event()
        self._was_interrupted = False
        self.was_terminated = False

    async def live(self, parent: int) -> int:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._terminate)
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        if not self._options.is_detached:
            stop = self._stopping.set
            watch_parent(parent, on_death=lambda: _ignore(loop.call_soon_threadsafe(stop)))
        listener = ParentListener()
        endpoint = await listener.open()
        registration = Registration(self._spec, endpoint, renews=self._mode is not Mode.ONCE)
        try:
            await registration.publish()
        except (OSError, BadRecord) as error:
            listener.close()
            return _fail(f"the record of this sub-agent cannot be written: {error}", FAILED)
        # Listens at once: the executor starts more slowly than a parent connects.
        self._executor.begin()
        try:
            serving = Serving(listener, self._executor, self._counts)
            await serving.serve(self._mode, self._limits(), stopping=self._stopping)
        except ServingFailed as error:
            return _fail(str(error), FAILED)
        finally:
            await self._executor.stop()
            await registration.end(withdraws=not self.was_terminated)
        return INTERRUPTED if self._was_interrupted else 0

    def _limits(self) -> StartLimits:
        idle = self._spec.limits.idle_timeout_secs
        return StartLimits(
            accept_seconds=self._options.accept_seconds,
            idle_seconds=IDLE_SECONDS if idle is None else float(idle),
        )

    def _terminate(self) -> None:
        self.was_terminated = True
        self._stopping.set()

    def _interrupt(self) -> None:
        self._was_interrupted = True
        self._stopping.set()


def _ignore(_: object) -> None:
    return


def _fail(sentence: str, code: int) -> int:
    print(f"runchild: {sentence}", file=sys.stderr)  # noqa: T201  for the parent process
    return code


class Mode(StrEnum):
    ONCE = "once"  # ends with its first connection
    REUSABLE = "reusable"  # ends after some idle time
    FOREVER = "forever"  # ends when it is stopped


class ServingFailed(Exception):
    """No parent was served, for the reason in the sentence."""


@dataclass(frozen=True, slots=True)
class StartLimits:
    accept_seconds: float = ACCEPT_SECONDS  # ``once``: for its parent, with the handshake
    idle_seconds: float = IDLE_SECONDS  # ``reusable``: to wait for the next parent


class Serving:
    """Serves the parents of an open listener: one only, one at a time, or all.

    No mode closes an open connection because of a timeout.
    """

    def __init__(self, listener: ParentListener, executor: RunExecutor, counts: RunCounts) -> None:
        self._listener = listener
        self._executor = executor
        self._counts = counts
        self._conversations: dict[ParentConversation, ParentPeer] = {}

    async def serve(self, mode: Mode, limits: StartLimits, *, stopping: asyncio.Event) -> None:
        """Serves until the mode ends it or ``stopping`` is set. Raises ``ServingFailed``."""
        match mode:
            case Mode.ONCE:
                work = self._once(limits.accept_seconds)
            case Mode.REUSABLE:
                work = self._reusable(limits.idle_seconds)
            case Mode.FOREVER:
                work = self._forever()
        await self._until(work, stopping)

    async def _until(self, work: Coroutine[Any, Any, None], stopping: asyncio.Event) -> None:
        serving = asyncio.ensure_future(work)
        stopped = asyncio.ensure_future(stopping.wait())
        try:
            await asyncio.wait({serving, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                serving.result()
        finally:
            stopped.cancel()
            serving.cancel()
            self._listener.close()
            await self._end_all()
            await asyncio.wait({serving})

    async def _once(self, accept_seconds: float) -> None:
        try:
            async with asyncio.timeout(accept_seconds):
                peer = await self._listener.next_peer(refusals_count=True)
        except TimeoutError:
            raise ServingFailed(f"No parent connected within {accept_seconds:g} s.") from None
        except NotAWebSocket:
            raise ServingFailed("The first connection was not a WebSocket.") from None
        await self._converse(peer)

    async def _reusable(self, idle_seconds: float) -> None:
        while True:
            try:
                async with asyncio.timeout(idle_seconds):
                    peer = await self._listener.next_peer()
            except TimeoutError:
                return
            await self._converse(peer)

    async def _forever(self) -> None:
        seats = asyncio.Semaphore(CONNECTIONS_LIMIT)
        tasks: set[asyncio.Task[None]] = set()
        try:
            while True:
                await seats.acquire()
                peer = await self._listener.next_peer()
                task = asyncio.create_task(self._converse(peer), name="conversation")
                tasks.add(task)
                task.add_done_callback(tasks.discard)
                task.add_done_callback(lambda _: seats.release())
        finally:
            for task in tasks:
                task.cancel()

    async def _converse(self, peer: ParentPeer) -> None:
        conversation = ParentConversation(peer, self._executor, self._counts, drop=peer.drop)
        self._conversations[conversation] = peer
        try:
            peer.admit(on_text=conversation.take, on_gone=conversation.on_disconnect)
            await asyncio.shield(peer.gone)
            await conversation.finish()
        finally:
            del self._conversations[conversation]

    async def _end_all(self) -> None:
        left = dict(self._conversations)
        for conversation in left:
            conversation.on_disconnect()
        if left:
            endings = [asyncio.create_task(conversation.finish()) for conversation in left]
            await asyncio.wait(endings, timeout=ENDING_SECONDS)
            for ending in endings:
                ending.cancel()
        for peer in left.values():
            peer.drop()


class Registration:
    """Writes the record of this child, renews it, and removes it."""

    def __init__(self, spec: ProvisionSpec, endpoint: str, *, renews: bool) -> None:
        self._folder = Path(spec.fabric_dir)
        self._record = records.new_record(
            spec.identity.child_id, role=spec.identity.role, endpoint=endpoint
        )
        self._renews = renews
        self._renewing: asyncio.Task[None] | None = None

    async def publish(self) -> None:
        """Writes the record and starts its renewal. Raises ``OSError``, ``records.BadRecord``."""
        await asyncio.to_thread(records.publish, self._folder, self._record)
        if self._renews:
            self._renewing = asyncio.create_task(self._renew(), name="lease")

    async def end(self, *, withdraws: bool) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait({self._renewing})
        if withdraws:
            try:
                await asyncio.to_thread(records.withdraw, self._folder, self._record.agent_id)
            except OSError as error:
                logger.warning("the record could not be removed: %s", error.strerror)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(records.RENEW_SECONDS)
            try:
                self._record = await asyncio.to_thread(records.renew, self._folder, self._record)
            except (OSError, records.BadRecord):
                logger.warning(
                    "the record could not be renewed; the next attempt is in %g s",
                    records.RENEW_SECONDS,
                )


def watch_parent(parent: int, *, on_death: Callable[[], None]) -> None:
    """Calls ``on_death`` in another thread, then ends this process if it is still running.

    ``parent`` is the value of ``os.getppid()`` when this process began.
    """
    if parent <= INIT:
        return  # no parent, or it has already ended
    threading.Thread(
        target=_wait, args=(parent, on_death), name="parent-watch", daemon=True
    ).start()


def _wait(parent: int, on_death: Callable[[], None]) -> None:
    _wait_for_death(parent)
    with contextlib.suppress(RuntimeError):  # the loop is already closed
        on_death()
    time.sleep(GRACE_SECONDS)
    os._exit(1)


def _wait_for_death(parent: int) -> None:
    opener = getattr(os, "pidfd_open", None)
    try:
        handle = opener(parent) if opener is not None else None
    except OSError:
        handle = None
    if handle is None:
        while os.getppid() == parent:
            time.sleep(POLL_SECONDS)
        return
    try:
        # Another process may already have had the number when the handle was opened.
        if os.getppid() == parent:
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            poll.poll()
    finally:
        os.close(handle)
