"""The child's process from its standard input to its exit code.

It is told everything by one document on standard input: nothing secret is in
its arguments, and it reads no setting of a server's. What else than ``echo`` and
``script`` can perform assignments is given by whoever starts it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from agents.fleet import records
from agents.fleet.child.conversation import Tally
from agents.fleet.child.executor import ExecutorFailed, RunExecutor
from agents.fleet.child.listener import ParentListener
from agents.fleet.child.run_context import RunContext
from agents.fleet.child.script import EchoExecutor, ScriptExecutor
from agents.fleet.child.serving import (
    ACCEPT_SECONDS,
    IDLE_SECONDS,
    Mode,
    Serving,
    ServingFailed,
    StartLimits,
)
from agents.fleet.provisioning import MOST_BYTES, BadSpec, ProvisionSpec, read_spec
from agents.fleet.records import BadRecord
from agents.fleet.wire import Terminal

logger = logging.getLogger(__name__)


class Registration:
    def __init__(self, spec: ProvisionSpec, endpoint: str, *, renews: bool) -> None:
        self._folder = Path(spec.fabric_dir)
        self._record = records.new_record(
            spec.identity.child_id, role=spec.identity.role, endpoint=endpoint
        )
        self._renews = renews
        self._renewing: asyncio.Task[None] | None = None

    async def publish(self) -> None:
        """Raises ``OSError``, ``records.BadRecord``."""
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
                logger.warning("the record could not be withdrawn: %s", error.strerror)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(records.RENEW_SECONDS)
            try:
                self._record = await asyncio.to_thread(records.renew, self._folder, self._record)
            except (OSError, records.BadRecord):
                logger.warning("the lease could not be renewed; the next round tries again")


LOOK_SECONDS = 0.5  # where the kernel cannot tell
GRACE_SECONDS = 12.0  # for an orderly end
INIT = 1


def watch_parent(parent: int, *, on_death: Callable[[], None]) -> None:
    """Calls ``on_death`` in another thread, then ends this process if nobody else does.

    ``parent`` is whoever was ``os.getppid()`` when this process began.
    """
    if parent <= INIT:
        return  # nobody's child, or already left behind
    threading.Thread(
        target=_wait, args=(parent, on_death), name="parent-watch", daemon=True
    ).start()


def _wait(parent: int, on_death: Callable[[], None]) -> None:
    _wait_for_death(parent)
    with contextlib.suppress(RuntimeError):  # the loop has ended by itself
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
            time.sleep(LOOK_SECONDS)
        return
    try:
        # Its number may have been another's when the handle was made.
        if os.getppid() == parent:
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            poll.poll()
    finally:
        os.close(handle)


class Starting:
    def __init__(self, executor: RunExecutor) -> None:
        self._executor = executor
        self._started: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._started = asyncio.create_task(self._start(), name="executor")

    async def start(self) -> None:
        if self._started is None:
            self.begin()

    async def run(self, desk: RunContext) -> Terminal:
        if self._started is None:
            raise ExecutorFailed("The child has not been started.")
        # Shielded: it goes on when the run that waits for it is cancelled.
        await desk.unless_cancelled(asyncio.shield(self._started))
        return await self._executor.run(desk)

    async def stop(self) -> None:
        if self._started is not None:
            # To its end: half a start cannot be undone.
            await asyncio.wait({self._started})
        await self._executor.stop()

    async def _start(self) -> None:
        try:
            await self._executor.start()
        except ExecutorFailed:
            raise
        except Exception as error:
            logger.exception("the executor could not be started")
            raise ExecutorFailed("The executor could not be started.") from error


FAILED = 1
UNSUPPORTED = 2
BAD_INPUT = 101
INTERRUPTED = 130

Engine = Callable[[ProvisionSpec], RunExecutor]


def run_child(arguments: Sequence[str], engines: Mapping[str, Engine]) -> int:
    """Returns the exit code; does not return after SIGTERM."""
    parent = os.getppid()
    options = parser().parse_args(arguments)
    if options.print_capabilities:
        print(json.dumps({"provision_version": 2, "capabilities": []}))  # noqa: T201  what was asked for
        return 0
    logging.basicConfig(
        level=logging.WARNING, format="%(levelname)s %(name)s %(message)s", stream=sys.stderr
    )
    try:
        spec = read_spec(sys.stdin.buffer.read(MOST_BYTES + 1))
    except BadSpec as error:
        return _say(f"standard input holds no provisioning document: {error}", BAD_INPUT)
    tally = Tally()
    executor = _executor(spec, engines, tally)
    if executor is None:
        return _say("the document names an executor that this server does not support", UNSUPPORTED)
    child = _Child(spec, executor, tally, options)
    code = asyncio.run(child.live(parent))
    if child.was_terminated:
        # As if it had not been caught: whoever waits for this process sees the signal.
        sys.stderr.flush()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
    return code


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="manage.py runchild",
        description="Serves assignments of parents over a WebSocket on 127.0.0.1. Reads one"
        " provisioning document on standard input.",
    )
    add_arguments(made)
    return made


def add_arguments(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "--forever",
        action="store_true",
        help="serve any number of parents at once, until stopped",
    )
    made.add_argument(
        "--detached",
        action="store_true",
        help="live on when the process that started this one ends",
    )
    made.add_argument(
        "--accept-timeout",
        type=_seconds,
        default=ACCEPT_SECONDS,
        metavar="SECONDS",
        help="how long a child for one connection waits for it (default: %(default)g)",
    )
    made.add_argument(
        "--print-capabilities",
        action="store_true",
        help="print what this program can be trusted with, as JSON, and exit",
    )


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds <= 86_400:
        raise argparse.ArgumentTypeError("must lie between 0 and 86400")
    return seconds


def _executor(
    spec: ProvisionSpec, engines: Mapping[str, Engine], tally: Tally
) -> RunExecutor | None:
    match spec.executor.kind:
        case "echo":
            return EchoExecutor()
        case "script":
            return ScriptExecutor(tally)
        case kind if kind in engines:
            return engines[kind](spec)
        case _:
            return None


class _Child:
    def __init__(
        self,
        spec: ProvisionSpec,
        executor: RunExecutor,
        tally: Tally,
        options: argparse.Namespace,
    ) -> None:
        self._spec = spec
        self._executor = Starting(executor)
        self._tally = tally
        self._options = options
        self._mode = (
            Mode.FOREVER if options.forever else Mode.REUSABLE if spec.reusable else Mode.ONCE
        )
        self._stopping = asyncio.Event()
        self._was_interrupted = False
        self.was_terminated = False

    async def live(self, parent: int) -> int:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._terminate)
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        if not self._options.detached:
            stop = self._stopping.set
            watch_parent(parent, on_death=lambda: _ignore(loop.call_soon_threadsafe(stop)))
        door = ParentListener()
        endpoint = await door.open()
        presence = Registration(self._spec, endpoint, renews=self._mode is not Mode.ONCE)
        try:
            await presence.publish()
        except (OSError, BadRecord) as error:
            door.close()
            return _say(f"the record cannot be written: {error}", FAILED)
        # Served at once: starting takes longer than a parent takes to dial.
        self._executor.begin()
        try:
            serving = Serving(door, self._executor, self._tally)
            await serving.serve(self._mode, self._patience(), stopping=self._stopping)
        except ServingFailed as error:
            return _say(str(error), FAILED)
        finally:
            await self._executor.stop()
            await presence.end(withdraws=not self.was_terminated)
        return INTERRUPTED if self._was_interrupted else 0

    def _patience(self) -> StartLimits:
        idle = self._spec.limits.idle_timeout_secs
        return StartLimits(
            accept_seconds=self._options.accept_timeout,
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


def _say(sentence: str, code: int) -> int:
    print(f"runchild: {sentence}", file=sys.stderr)  # noqa: T201  for whoever started it
    return code
