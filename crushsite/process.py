"""The running server of this process: its hub, its worker, its clients' claims.

Owns their order of starting and stopping. A web process has no worker, a worker
process no clients; the embedded server has both and is alone on its data.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from agents.config.cache import configs
from agents.config.watch import ConfigWatch
from agents.jobs.host import job_host
from agents.llm.read_batching import let_readers_set_the_pace
from agents.llm.shutdown import end_connections
from agents.runs import nudges, teardown
from agents.runs.accept import refuse_prompts
from agents.runs.children.host import fleet_host
from agents.runs.pool import PoolSettings, RunPool
from agents.runs.rescue import expire_all_leases
from agents.runs.rows import Claimed
from agents.runs.setup import RunSetup, brief_of
from agents.runs.tool_servers.language_servers import language_host, settle_left
from agents.runs.tool_servers.mcp_servers import forget_last_servers, mcp_host
from agents.services import Services
from agents.skills.watch import skill_watch
from agents.tools.shell.supervisor import SUPERVISOR
from agents.tools.shell.tree_limits import TreeLimits
from crushsite.logs import logging_lifecycle
from crushsite.runtime import protect_process
from workspaces.delivery.attachments import Attachments, close_streams_by, stop_closing_streams_by
from workspaces.delivery.hub import Hub
from workspaces.delivery.tool_output import listen_to_output, stop_listening_to_output
from workspaces.log.errors import BadField, ShuttingDown, StillInUse
from workspaces.log.ids import new_id
from workspaces.log.outage import outage
from workspaces.log.reader import read, stop_reading
from workspaces.log.retries import REQUEST_SECONDS, limit_for_process, patience
from workspaces.log.transaction import RecordedEvent, Transaction
from workspaces.log.types import Kind
from workspaces.log.writer import writer
from workspaces.models import Workspace
from workspaces.tasks import cancel_within, wait_for_all

logger = logging.getLogger(__name__)

SWEEP_SECONDS = 1.0
RENEWED_AFTER_OUTAGE_SECONDS = 5.0
STOPPING_SECONDS = 5.0  # of the background tasks
BRIEF_DRAIN_SECONDS = 2.0  # where nobody has drained before the stop: commands and children


@dataclass(frozen=True, slots=True)
class ProcessShape:
    """What this process does."""

    works: bool  # runs turns
    serves: bool  # has clients
    is_alone: bool  # nobody else uses this data
    exits_idle: bool = False  # started by a client: ends when nobody is left


class ServerProcess:
    def __init__(
        self,
        shape: ProcessShape,
        *,
        on_exit: Callable[[], None] | None = None,
        brief_of: Callable[[Claimed], Awaitable[RunSetup]] = brief_of,
    ) -> None:
        self.shape = shape
        self.instance_id = new_id()
        self.is_stopping = False
        self.hub = Hub()
        self.pool = RunPool(
            self.instance_id,
            hub=self.hub,
            settings=PoolSettings(
                lease_seconds=settings.CRUSH_LEASE_SECONDS,
                poll_seconds=settings.CRUSH_POLL_SECONDS,
                max_runs=settings.CRUSH_MAX_RUNS,
            ),
            brief_of=brief_of,
        )
        self.config_watch = ConfigWatch(polls=settings.CRUSH_POLL_CONFIG)
        self.services = Services(
            (
                self.config_watch,
                skill_watch(),
                job_host(),
                language_host(),
                mcp_host(),
                fleet_host(),
            )
        )
        self.attachments = Attachments(
            self.instance_id,
            writer,
            detach_grace_seconds=settings.CRUSH_DETACH_GRACE_SECONDS,
            on_detached=self._sweep_after,
        )
        self._on_exit = on_exit
        self._is_drained = False
        self._wiring = ExitStack()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        protect_process()  # before anything that it starts can look
        SUPERVISOR.limits = TreeLimits(
            memory_bytes=settings.CRUSH_COMMAND_MEMORY_BYTES,
            processes=settings.CRUSH_COMMAND_PROCESSES,
            file_bytes=settings.CRUSH_COMMAND_FILE_BYTES,
        )
        limit_for_process(None)
        refuse_prompts(False)
        self.wire()
        await self.hub.start()
        await job_host().start(server_mark=self.instance_id, is_alone=self.shape.is_alone)
        if self.shape.is_alone:
            with patience(REQUEST_SECONDS):  # whoever starts it wants to know what is wrong
                await writer.write("", _start_alone)
            await self._trying("ending the last server's MCP servers", forget_last_servers())
        mcp_host().server_mark = self.instance_id
        self.services.start()  # also where clients alone start language servers
        if self.shape.works:
            self.config_watch.start()
            settling = settle_left(is_alone=self.shape.is_alone)
            self._spawn(self._trying("settling language servers", settling))
            self._spawn(skill_watch().watch_forever())
            self.pool.start()
        if self.shape.serves:
            self._spawn(self._sweep_claims())
        if self.shape.exits_idle:
            self._spawn(self._exit_when_idle())
        self._spawn(self._warm_up())
        # Long pauses of the collector would be felt at the streams: what is loaded now stays.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 50)

    def wire(self) -> None:
        """The one list of who listens to what in this process. ``stop`` undoes it."""
        # The writer's commits: readers' rooms, services, the worker (`_publish`) and the log.
        publish = logging_lifecycle(self._publish)
        writer.start(publish=publish, loop=asyncio.get_running_loop())
        # What commands print while they run: readers' rooms.
        listen_to_output(self.hub.output)
        self._wiring.callback(stop_listening_to_output, self.hub.output)
        # How long readers wait for words anyway: the reading of model streams.
        let_readers_set_the_pace(self.hub.patience)
        # Clients that are released or retired: their streams here.
        close_streams_by(self.attachments.close_client)
        self._wiring.callback(stop_closing_streams_by, self.attachments.close_client)
        if self.shape.works:
            # Nudges for accepted and cancelled runs: the worker, without the channel layer.
            nudges.listen_here(self.pool.hear)
            self._wiring.callback(nudges.stop_listening_here, self.pool.hear)
            # A changed configuration that the cache has found: the watch, which announces it.
            configs().on_unannounced = self.config_watch.wake
            self._wiring.callback(setattr, configs(), "on_unannounced", None)

    def waits_for(self) -> list[str]:
        """What a drain would wait for, in words."""
        counted = [(self.pool.running, "run"), (len(job_host().users_commands()), "command")]
        return [f"{count} {what}{'s' * (count != 1)}" for count, what in counted if count]

    async def drain(self, *, seconds: float, hurried: asyncio.Event | None = None) -> None:
        """Takes no new work, and waits for runs to come to the end of a step and for the commands
        of users. Clients may stay attached: they see how their runs go on, and can cancel them.
        """
        self._is_drained = True
        if self.shape.is_alone:
            refuse_prompts(True)  # nobody else could work on them
        ends = [asyncio.create_task(job.ended.wait()) for job in job_host().users_commands()]
        await asyncio.gather(
            self.pool.drain(seconds=seconds, hurried=hurried),
            wait_for_all(ends, seconds=seconds, unless=hurried),
        )
        await cancel_within(ends, seconds=STOPPING_SECONDS)

    async def stop(self) -> None:
        """After the sockets are closed. What is accepted is kept for the next start."""
        if not self._is_drained:
            await self.drain(seconds=BRIEF_DRAIN_SECONDS)
        self.is_stopping = True
        await cancel_within(self._tasks, seconds=STOPPING_SECONDS)
        if self.shape.works:
            await self.pool.stop()
        await self.services.stop()
        await job_host().stop()
        self._wiring.close()
        await self.hub.stop()
        await end_connections()
        await asyncio.to_thread(writer.stop)
        await asyncio.to_thread(stop_reading)

    async def control(self, command: str) -> None:
        """A client's wish to stop the server. Raises ``Refusal`` unless it is obeyed."""
        if command not in {"shutdown", "shutdown_if_idle"}:
            raise BadField("unknown command")
        if self.is_stopping:
            raise ShuttingDown
        if await read(_has_open_workspaces):
            raise StillInUse
        if not self.shape.exits_idle or self._on_exit is None:
            raise StillInUse("server was started by a person and runs on")
        if command == "shutdown_if_idle":
            # Only a client of another version sends it, to start a server of its own instead.
            # Nobody who started this one, and no other client of it, would know.
            raise StillInUse("server serves clients of every version and runs on")
        self._on_exit()

    # -- in the background

    def _publish(self, recorded: Sequence[RecordedEvent]) -> None:
        self.hub.publish(recorded)
        if self.shape.works:
            for event in recorded:
                self.services.hear(event)
                if event.kind == Kind.RUN_FINISHED:
                    self.pool.hear_end(event.payload["run"]["key"])
                elif event.kind == Kind.PERMISSION_RESOLVED:
                    answer = event.payload
                    self.pool.hear_answer(
                        event.session_id, answer["tool_call_id"], granted=answer["granted"]
                    )

    async def _warm_up(self) -> None:
        """Loads what the first prompt would otherwise wait for."""
        if not self.shape.works:
            return
        try:
            await asyncio.to_thread(importlib.import_module, "agents.llm.wires.openai")
        except Exception as error:  # noqa: BLE001  for example: no file descriptor is left
            logger.warning("the first prompt will wait for its modules: %s", error)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _sweep_claims(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            # First our own: after a machine's sleep they only seem to have lapsed.
            await self._trying("renewing claims", self.attachments.renew())
            # While the database was away, other processes could not renew theirs.
            if self.shape.is_alone or not outage.is_recent(RENEWED_AFTER_OUTAGE_SECONDS):
                await self._trying("dropping lapsed claims", teardown.sweep())

    def _sweep_after(self, _workspace_id: str, grace_seconds: float) -> None:
        """A client detached: look right after its grace, not at the next round."""

        async def wait_and_sweep() -> None:
            await asyncio.sleep(grace_seconds + 0.01)
            await self._trying("dropping lapsed claims", teardown.sweep())

        if not self.is_stopping:
            self._spawn(wait_and_sweep())

    async def _exit_when_idle(self) -> None:
        idle_since = asyncio.get_running_loop().time()
        while True:
            await asyncio.sleep(min(1.0, settings.CRUSH_IDLE_TIMEOUT_SECONDS / 4 or 0.1))
            now = asyncio.get_running_loop().time()
            if await read(_has_open_workspaces):
                idle_since = now
            elif now - idle_since >= settings.CRUSH_IDLE_TIMEOUT_SECONDS and self._on_exit:
                logger.info("nobody is left: the server stops")
                self._on_exit()
                return

    async def _trying(self, what: str, work: Awaitable[object]) -> None:
        try:
            await work
        except ShuttingDown:
            pass
        except Exception:
            logger.exception("%s failed; the next round tries again", what)


def _has_open_workspaces() -> bool:
    return Workspace.objects.filter(is_open=True).exists()


def _start_alone(tx: Transaction) -> None:
    expire_all_leases(tx)
    teardown.start_alone(tx)


_process: list[ServerProcess] = []


def process() -> ServerProcess:
    """The server of this process. Raises ``ShuttingDown`` where none runs."""
    if not _process:
        raise ShuttingDown
    return _process[0]


def set_process(server: ServerProcess | None) -> None:
    _process.clear()
    if server is not None:
        _process.append(server)
