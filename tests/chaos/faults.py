"""Carries out the planned faults, and undoes them."""

import asyncio
import signal
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager

from tests.acceptance.harness.processes import Process, ProcessFailed
from tests.chaos.findings import Findings
from tests.chaos.installation import Installation
from tests.chaos.plan import PROCESSES, Fault, FaultKind, Service
from tests.doubles.tcp_proxy import Mode, TcpProxy

_START_SECONDS = 300.0  # with services away it may take several starts
_STOP_SECONDS = 180.0
_WATCH_SECONDS = 0.3
_LISTENS = "Serving|Working"


class Faults:
    def __init__(self, installation: Installation, findings: Findings) -> None:
        self._installation = installation
        self._findings = findings
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)  # by target
        self.carried_out = 0
        self.seconds = 0.0  # that all of them took

    async def carry_out(self, faults: tuple[Fault, ...]) -> None:
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for fault in faults:
                task = group.create_task(self._carry_out_one(fault))
                if not fault.overlaps:
                    await task
                await asyncio.sleep(fault.pause)
        self.seconds = time.monotonic() - began

    async def watch(self) -> None:
        """Starts processes that end by themselves, and reports them."""
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            for name in PROCESSES:
                process = self._installation.process(name)
                if process.alive or self._locks[name].locked():
                    continue
                async with self._locks[name]:
                    what = f"ended by itself with {process.returncode}"
                    self._findings.violated("process", str(process.failure(what)))
                    await asyncio.to_thread(_start, process)

    async def _carry_out_one(self, fault: Fault) -> None:
        async with self._locks[fault.target]:
            self._findings.note(f"begin: {fault}")
            if fault.target in PROCESSES:
                await self._on_process(fault)
            elif fault.target == Service.REDIS:
                await self._on_redis(fault)
            else:
                await self._on_postgres(fault)
            self._findings.note(f"end:   {fault}")
        self.carried_out += 1

    async def _on_process(self, fault: Fault) -> None:
        process = self._installation.process(fault.target)
        match fault.kind:
            case FaultKind.KILL:
                await asyncio.to_thread(process.kill9)
                await asyncio.to_thread(_start, process)
            case FaultKind.RESTART:
                code = await asyncio.to_thread(process.stop, _STOP_SECONDS)
                if code != 0:
                    failure = process.failure(f"ended with {code} on SIGTERM")
                    self._findings.violated("process", str(failure))
                await asyncio.to_thread(_start, process)
            case FaultKind.FREEZE:
                process.send(signal.SIGSTOP)
                try:
                    await asyncio.sleep(fault.seconds)
                finally:
                    process.send(signal.SIGCONT)
            case FaultKind.STEP_CLOCK:
                self._installation.clocks[fault.target].set(fault.amount)
            case _:
                assert fault.service is not None
                await _on_links(fault, self._installation.proxies[fault.target, fault.service])

    async def _on_redis(self, fault: Fault) -> None:
        redis = self._installation.services.redis
        if fault.kind is FaultKind.FREEZE_REDIS:
            async with _held(redis.frozen()):
                await asyncio.sleep(fault.seconds)
            return
        await asyncio.to_thread(redis.end)
        await asyncio.to_thread(redis.start)

    async def _on_postgres(self, fault: Fault) -> None:
        postgres = self._installation.services.postgres
        if fault.kind is FaultKind.FREEZE_POSTGRES:
            async with _held(postgres.frozen()):
                await asyncio.sleep(fault.seconds)
            return
        crashes = fault.kind is FaultKind.CRASH_POSTGRES
        await asyncio.to_thread(postgres.end, signal.SIGQUIT if crashes else signal.SIGINT)
        await asyncio.sleep(fault.seconds)
        await asyncio.to_thread(postgres.start_again)


async def _on_links(fault: Fault, proxy: TcpProxy) -> None:
    match fault.kind:
        case FaultKind.STRAND_LINKS:
            proxy.strand_links()
        case FaultKind.CUT_COMMITS:
            proxy.cut_next_commits(fault.amount)
        case FaultKind.DELAY_LINKS:
            proxy.delay_seconds = fault.amount / 1000
            await asyncio.sleep(fault.seconds)
            proxy.delay_seconds = 0.0
        case _:
            proxy.set_mode(Mode.REFUSE if fault.kind is FaultKind.REFUSE_LINKS else Mode.SILENT)
            await asyncio.sleep(fault.seconds)
            proxy.set_mode(Mode.PASS)


def _start(process: Process) -> None:
    """As a service manager does: again and again, until it listens."""
    deadline = time.monotonic() + _START_SECONDS
    while True:
        process.start()
        try:
            process.wait_for_line(_LISTENS, _START_SECONDS)
        except ProcessFailed:
            if process.alive or time.monotonic() > deadline:
                raise
            continue
        return


@asynccontextmanager
async def _held(frozen: AbstractContextManager[None]) -> AsyncIterator[None]:
    await asyncio.to_thread(frozen.__enter__)
    try:
        yield
    finally:
        await asyncio.to_thread(frozen.__exit__, None, None, None)
