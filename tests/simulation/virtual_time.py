"""An event loop on a simulated clock, in which each task belongs to a machine that can stop.

Nothing waits: when no callback is due, the clock jumps to the next timer. What would run in a thread
runs in the loop, after a simulated delay. So the same seed gives the same sequence of callbacks.
"""

from __future__ import annotations

import asyncio
import contextvars
import selectors
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from django.db import connection

from workspaces.log.timestamps import CLOCK, SharedClock

# Of the database's clock when a simulation begins.
BEGINS_NS = 1_800_000_000 * 1_000_000_000
LATENCY = (0.001, 0.008)  # of one way to the database, in seconds
SLOW, SLOW_SHARE = (0.05, 0.25), 0.01

here: contextvars.ContextVar[Machine | None] = contextvars.ContextVar("machine", default=None)


class Machine:
    """A host: it may freeze, die, lose its way to the database, and have a wrong clock."""

    def __init__(self, loop: SimulatedLoop, name: str, *, seed: object) -> None:
        self.loop = loop
        self.name = name
        self.random = Random(f"{seed}/{name}")
        self.is_dead = False
        self.frozen_until = 0.0
        self.cut_until = 0.0  # nothing reaches the database, or comes from it
        self.healthy_since = 0.0
        self.backlog: list[_Call] = []  # what it will do when it is no longer frozen
        self.wall_error = 0.0
        self._drift = self.random.uniform(-2e-5, 2e-5)
        self.clock = SharedClock(wall_ns=self._wall_ns, steady_ns=self._steady_ns)

    @property
    def is_well(self) -> bool:
        now = self.loop.time()
        return not self.is_dead and self.frozen_until <= now and self.cut_until <= now

    def start(self, work: Any, *, name: str) -> asyncio.Task[Any]:
        """Begins a task of this machine. All tasks that it begins belong to the machine, too."""
        context = contextvars.Context()
        context.run(here.set, self)
        return self.loop.create_task(work, name=name, context=context)

    def freeze(self, seconds: float) -> None:
        self.frozen_until = max(self.frozen_until, self.loop.time() + seconds)
        self.healthy_since = max(self.healthy_since, self.frozen_until)
        self.loop.call_at(self.frozen_until, self._thaw, context=contextvars.Context())

    def cut(self, seconds: float) -> None:
        self.cut_until = max(self.cut_until, self.loop.time() + seconds)
        self.healthy_since = max(self.healthy_since, self.cut_until)

    async def reach_database(self) -> None:
        """Returns when a message between this machine and the database has arrived."""
        slow = self.random.random() < SLOW_SHARE
        await asyncio.sleep(self.random.uniform(*(SLOW if slow else LATENCY)))
        while self.loop.time() < self.cut_until:
            await asyncio.sleep(self.cut_until - self.loop.time() + self.random.uniform(0, 0.2))

    def _thaw(self) -> None:
        if self.loop.time() >= self.frozen_until:
            calls, self.backlog = self.backlog, []
            for call in calls:
                self.loop.repeat(call)

    def _wall_ns(self) -> int:
        return self.loop.true_ns() + int(self.wall_error * 1e9)

    def _steady_ns(self) -> int:
        return int(self.loop.time() * (1 + self._drift) * 1e9)


@dataclass(eq=False)
class _Call:
    machine: Machine
    callback: Callable[..., object]
    args: tuple[Any, ...]
    context: contextvars.Context
    handle: asyncio.Handle | None = field(default=None)


class _JumpingSelector(selectors.SelectSelector):
    """Waits for nothing: the time that the loop would wait is over at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("the simulation waits for something that never happens")
        self.now += max(0.0, timeout)
        return []


class SimulatedLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._clock = _JumpingSelector()
        super().__init__(self._clock)
        self.is_ending = False  # then the tasks of dead machines are cancelled
        # Connections to databases belong to contexts: all statements share this one.
        connection.ensure_connection()
        self._statements = contextvars.copy_context()

    def time(self) -> float:
        return self._clock.now

    def true_ns(self) -> int:
        """The time of the database."""
        return BEGINS_NS + int(self._clock.now * 1e9)

    def call_soon(
        self, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        call = self._call_of(callback, args, context)
        if call is None:
            return super().call_soon(callback, *args, context=context)
        call.handle = super().call_soon(self._perform, call, context=call.context)
        return call.handle

    def call_at(
        self, when: float, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        call = self._call_of(callback, args, context)
        if call is None:
            return super().call_at(when, callback, *args, context=context)
        handle = super().call_at(when, self._perform, call, context=call.context)
        call.handle = handle
        return handle

    def repeat(self, call: _Call) -> None:
        super().call_soon(self._perform, call, context=call.context)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> asyncio.Future[Any]:
        """Runs what reads the database, with the delays of the machine that asks."""
        return asyncio.ensure_future(self._executed(func, args), loop=self)

    async def _executed(self, func: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        machine = here.get()
        if machine is None:
            return func(*args)
        await machine.reach_database()
        found = self.on_database(machine, func, *args)
        await machine.reach_database()
        return found

    def on_database(self, machine: Machine, func: Callable[..., Any], *args: Any) -> Any:
        """Runs statements of a machine, which hold up the loop and take no simulated time."""

        def run() -> Any:
            here.set(machine)
            return func(*args)

        return self._statements.run(run)

    async def end_statements(self) -> None:
        """Closes the connections that the context of this task and the machines have used."""
        connection.close()
        self._statements.run(lambda: connection.close())

    def _call_of(
        self, callback: Any, args: tuple[Any, ...], context: contextvars.Context | None
    ) -> _Call | None:
        machine = here.get() if context is None else context.get(here)
        if machine is None:
            return None
        context = contextvars.copy_context() if context is None else context
        return _Call(machine, callback, args, context)

    def _perform(self, call: _Call) -> None:
        if call.handle is not None and call.handle.cancelled():
            return
        machine = call.machine
        if self.is_ending:
            call.callback(*call.args)
        elif self.time() < machine.frozen_until and not machine.is_dead:
            machine.backlog.append(call)
        elif not machine.is_dead:
            call.callback(*call.args)


class SimulatedTime:
    """While it is entered, rows get the time of the machine whose task writes them."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self._before = CLOCK.steady_ns

    def __enter__(self) -> None:
        CLOCK.steady_ns = self._now_ns
        CLOCK.adjust(0, before_ns=0, after_ns=0)

    def __exit__(self, *_: object) -> None:
        CLOCK.use_host()
        CLOCK.steady_ns = self._before

    def _now_ns(self) -> int:
        machine = here.get()
        return self._loop.true_ns() if machine is None else machine.clock.now_ns()
