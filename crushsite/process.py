"""The running server of this process: its hub, its worker, its clients' claims.

Defines the order in which they start and stop. A web process performs only the
runs of its remote workers, a worker process has no clients; the embedded server is both, and alone on its data.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from django.apps import apps
from django.conf import settings

from agents.config.cache import configs
from agents.config.watch import ConfigWatch
from agents.jobs.adoption import start_commands
from agents.jobs.host import job_host
from agents.llm.providers import end_connections
from agents.runs import nudges, teardown
from agents.runs.accept import refuse_prompts
from agents.runs.answer import settle_overdue
from agents.runs.cancel import stop_taking_offers_of, take_offers_of
from agents.runs.children.host import fleet_host
from agents.runs.history.rewind import finish_left, restore_where
from agents.runs.pool import PoolSettings, RunPool
from agents.runs.rows import Claimed
from agents.runs.setup import RunSetup, setup_of
from agents.runs.tool_servers.language_servers import language_host, settle_left
from agents.runs.tool_servers.mcp_servers import forget_last_servers, mcp_host
from agents.runs.transitions import expire_all_leases
from agents.services import Services
from agents.skills.watch import skill_watch
from crushsite.known_key import require_key
from crushsite.logs import logging_lifecycle
from crushsite.monitoring.figures import FIGURES
from crushsite.monitoring.otlp import trace_export
from crushsite.monitoring.processes import disconnected
from crushsite.monitoring.readiness import READINESS
from crushsite.monitoring.traces import TRACES
from crushsite.registration import ProcessRegistration, ProcessShape
from crushsite.runtime import freeze_modules, protect_process
from crushsite.storage import (
    forget_process,
    name_connections,
    note_process,
    public_address,
    running_here,
)
from workspaces.access import OWNER
from workspaces.actions.processes import forget_all_processes
from workspaces.actions.search_texts import fill_search
from workspaces.delivery.attachments import (
    Attachments,
    StreamRights,
    close_streams_by,
    stop_closing_streams_by,
)
from workspaces.delivery.hub import Hub
from workspaces.delivery.tool_output import listen_to_output, stop_listening_to_output
from workspaces.log.database_clock import COMPARE_SECONDS, compare_clocks
from workspaces.log.deadlines import REQUEST_SECONDS, limit_for_process, wait_at_most
from workspaces.log.errors import BadField, ShuttingDown, StillInUse
from workspaces.log.ids import new_id
from workspaces.log.reader import read, stop_reading
from workspaces.log.timestamps import now_ms
from workspaces.log.transaction import RecordedEvent, Transaction
from workspaces.log.types import Kind
from workspaces.log.writer import writer
from workspaces.measuring import listen_to_measurements, stop_listening_to_measurements
from workspaces.models import Workspace
from workspaces.tasks import cancel_within, wait_for_all

logger = logging.getLogger(__name__)

SWEEP_SECONDS = 1.0
STOPPING_SECONDS = 5.0  # of the background tasks
SHORT_DRAIN_SECONDS = 2.0  # if a process stops without a drain, as commands and children do


class ServerProcess:
    def __init__(
        self,
        shape: ProcessShape,
        *,
        on_exit: Callable[[], None] | None = None,
        setup_of: Callable[[Claimed], Awaitable[RunSetup]] = setup_of,
    ) -> None:
        self.shape = shape
        self.instance_id = new_id()
        self.is_stopping = False
        self.owner = OWNER  # its user, once the process has started
        self.hub = Hub()
        self.pool = RunPool(
            self.instance_id,
            hub=self.hub,
            settings=PoolSettings(
                lease_seconds=settings.CRUSH_LEASE_SECONDS,
                poll_seconds=settings.CRUSH_POLL_SECONDS,
                max_runs=settings.CRUSH_MAX_RUNS,
            ),
            setup_of=setup_of,
            find_disconnected=None if shape.is_alone else disconnected,
            scope=lambda: self.registration.roots.scope,
            works_here=shape.works,
            has_homes=shape.works and not shape.is_alone,
        )
        self.registration = ProcessRegistration(
            self.instance_id,
            shape,
            runs=lambda: self.pool.running,
            is_draining=lambda: self._is_drained,
            on_lost=self.pool.begin_again,
        )
        self.config_watch = ConfigWatch(polls=settings.CRUSH_POLL_CONFIG)
        self.services = Services(
            (self.config_watch, skill_watch(), job_host(), fleet_host()),
            tool_servers=(language_host(), mcp_host()),
            is_home=self.pool.homes.is_home,
        )
        self.attachments = Attachments(
            self.instance_id,
            writer,
            detach_grace_seconds=settings.CRUSH_DETACH_GRACE_SECONDS,
            on_detached=self._sweep_after,
        )
        self.stream_rights = StreamRights()
        self._on_exit = on_exit
        self._is_drained = False
        self._wiring = ExitStack()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        protect_process()  # before any command that it starts could read the secrets
        name_connections(self.shape.kind, self.instance_id)
        await asyncio.to_thread(require_key)
        limit_for_process(None)
        refuse_prompts(False)
        self.wire()
        if not self.shape.is_alone:
            await asyncio.to_thread(note_process, settings.DATA_DIR)
            await compare_clocks()
            self._spawn(self._follow_clock())
        await self.hub.start()
        await start_commands(
            self.instance_id, is_alone=self.shape.is_alone, is_temporary=self.shape.is_temporary
        )
        if self.shape.is_alone:
            with wait_at_most(REQUEST_SECONDS):  # fail soon, so that the user sees the error
                await writer.write("", _start_alone)
            await self._trying("ending the last server's MCP servers", forget_last_servers())
            await self._trying("completing rewinds", finish_left(begun_before=now_ms()))
        await self.registration.start()
        mcp_host().server_mark = self.instance_id
        self.services.start()  # also in a web process: clients may start language servers
        if self.shape.serves:
            from people.identities import ensure_owner  # noqa: PLC0415  a child has no accounts

            owner = await writer.write("", lambda _: ensure_owner())
            self.owner = replace(OWNER, name=owner.get_username(), user_id=owner.pk)
        self.pool.start()  # also in a web process, for its remote workers
        if self.shape.works:
            self.config_watch.start()
            settling = settle_left(is_alone=self.shape.is_alone)
            self._spawn(self._trying("settling language servers", settling))
            self._spawn(skill_watch().watch_forever())
            self._spawn(self._trying("indexing earlier messages", fill_search()))
            self._spawn(self._settle_overdue())
            self._spawn(self._warm_up())
        if self.shape.serves:
            self._spawn(self._sweep_claims())
        if self.shape.exits_idle:
            self._spawn(self._exit_when_idle())
        freeze_modules()

    def wire(self) -> None:
        """Connects all listeners of this process, in one place. ``stop`` disconnects them."""
        # The writer's commits: to the rooms, the services and the worker (`_publish`), the log and
        # the traces.
        publish = TRACES.watching(logging_lifecycle(self._publish))
        writer.start(publish=publish, loop=asyncio.get_running_loop())
        # The output of running commands: to the rooms.
        listen_to_output(self.hub)
        self._wiring.callback(stop_listening_to_output, self.hub)
        # Released and retired clients: to their streams in this process.
        close_streams_by(self.attachments.close_client)
        self._wiring.callback(stop_closing_streams_by, self.attachments.close_client)
        # The state of this process: to `/readyz`.
        READINESS.watch(
            is_draining=lambda: self._is_drained or self.is_stopping,
            layer=self.hub.check_layer,
            missing_roots=lambda: self.registration.roots.missing_names,
        )
        self._wiring.callback(READINESS.watch_no_more)
        # The files of rewinds: only where this process has the workspace's folder.
        roots = self.registration.roots
        restore_where(lambda path: roots.scope is None or roots.scope.serves(path))
        self._wiring.callback(restore_where)
        # Its measurements and what it holds: to `/metrics`.
        FIGURES.watch(running=lambda: self.pool.running, readers=self.hub.count_readers)
        self._wiring.callback(FIGURES.watch_no_more)
        listen_to_measurements(FIGURES.handle)
        self._wiring.callback(stop_listening_to_measurements, FIGURES.handle)
        # Requests and ended runs: to a collector of traces, if the environment names one.
        TRACES.start(trace_export(kind=self.shape.kind, instance_id=self.instance_id))
        # Nudges for accepted and cancelled runs: to the pool, without the channel layer.
        nudges.listen_here(self.pool.receive_nudge)
        self._wiring.callback(nudges.stop_listening_here, self.pool.receive_nudge)
        # Cancels: to the pool, whose run may offer its end for the same transaction.
        take_offers_of(self.pool.offer_end)
        self._wiring.callback(stop_taking_offers_of, self.pool.offer_end)
        if self.shape.works:
            # A changed configuration that the cache has found: to the watch, which announces it.
            configs().on_unannounced = self.config_watch.wake
            self._wiring.callback(setattr, configs(), "on_unannounced", None)

    def processes_here(self) -> list[int]:
        """Returns the server's processes on this machine; their children are tools."""
        return [os.getpid()] if self.shape.is_alone else running_here(settings.DATA_DIR)

    def waits_for(self) -> list[str]:
        """Describes what a drain would wait for."""
        counted = [(self.pool.running, "run"), (len(job_host().users_commands()), "command")]
        return [f"{count} {what}{'s' * (count != 1)}" for count, what in counted if count]

    async def drain(self, *, seconds: float, hurried: asyncio.Event | None = None) -> None:
        """Takes no new work; waits for runs to finish their step and for the commands of users.

        Clients may stay attached: they see their runs proceed, and can cancel them.
        """
        self._is_drained = True
        if self.shape.is_alone:
            refuse_prompts(True)  # no other process could run them
        ends = [asyncio.create_task(job.ended.wait()) for job in job_host().users_commands()]
        await asyncio.gather(
            self.pool.drain(seconds=seconds, hurried=hurried),
            wait_for_all(ends, seconds=seconds, unless=hurried),
        )
        await cancel_within(ends, seconds=STOPPING_SECONDS)

    async def stop(self) -> None:
        """Stops everything, once the sockets are closed. Accepted work waits for the next start."""
        if not self._is_drained:
            await self.drain(seconds=SHORT_DRAIN_SECONDS)
        self.is_stopping = True
        await cancel_within(self._tasks, seconds=STOPPING_SECONDS)
        await self.pool.stop()
        await self.services.stop()
        await job_host().stop()
        await self.registration.stop()
        self._wiring.close()
        await TRACES.stop()
        await self.hub.stop()
        await end_connections()
        if not self.shape.is_alone:
            await asyncio.to_thread(forget_process, settings.DATA_DIR)
        await asyncio.to_thread(writer.stop)
        await asyncio.to_thread(stop_reading)

    async def control(self, command: str) -> None:
        """Stops the server at a client's request. Raises ``Refusal`` if it must not stop."""
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
            # The client that started this one, and its other clients, would not be notified.
            raise StillInUse("server serves clients of every version and runs on")
        self._on_exit()

    # -- in the background

    def _publish(self, recorded: Sequence[RecordedEvent]) -> None:
        self.hub.publish(recorded)
        if self.shape.works or self.pool.running:
            for event in recorded:
                if self.shape.works:
                    self.services.handle_event(event)
                if event.kind == Kind.RUN_FINISHED:
                    self.pool.receive_end(event.payload["run"]["key"])
                elif event.kind == Kind.PERMISSION_RESOLVED:
                    answer = event.payload
                    self.pool.receive_answer(
                        event.session_id, answer["tool_call_id"], granted=answer["granted"]
                    )

    async def _warm_up(self) -> None:
        """Imports modules that the first prompt would otherwise wait for."""
        try:
            await asyncio.to_thread(importlib.import_module, "agents.llm.wires.openai")
        except Exception as error:  # noqa: BLE001  for example: no file descriptor is left
            logger.warning("the modules of the first prompt could not be loaded: %s", error)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _follow_clock(self) -> None:
        while True:
            await asyncio.sleep(COMPARE_SECONDS)
            await self._trying("comparing the clock with the database's", compare_clocks())

    async def _sweep_claims(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            # Renew our own first: after the machine slept they only seem to have expired.
            await self._trying("renewing claims", self.attachments.renew())
            await self._trying("checking the rights of readers", self.stream_rights.check())
            await self._drop_claims()

    async def _settle_overdue(self) -> None:
        """Carries out the approval policies of workspaces, as every worker does."""
        has_users = apps.is_installed("notifications")  # a sub-agent's process has none
        if has_users:
            from crushsite.retention.nightly import delete_nightly  # noqa: PLC0415  as below
            from notifications.notifier import notify  # noqa: PLC0415  its models need users

            self._spawn(delete_nightly(self.instance_id))
        while True:
            await self._trying("carrying out approval policies", settle_overdue())
            if has_users:
                await self._trying("notifying users", notify(public_address))
            await asyncio.sleep(settings.CRUSH_POLL_SECONDS)

    def _sweep_after(self, _workspace_id: str, grace_seconds: float) -> None:
        """Sweeps right after a detached client's grace, not only at the next round."""

        async def wait_and_sweep() -> None:
            await asyncio.sleep(grace_seconds + 0.01)
            await self._drop_claims()

        if not self.is_stopping:
            self._spawn(wait_and_sweep())

    async def _drop_claims(self) -> None:
        sweep = teardown.sweep(is_alone=self.shape.is_alone)
        await self._trying("dropping expired claims", sweep)

    async def _exit_when_idle(self) -> None:
        idle_since = asyncio.get_running_loop().time()
        while True:
            await asyncio.sleep(min(1.0, settings.CRUSH_IDLE_TIMEOUT_SECONDS / 4 or 0.1))
            now = asyncio.get_running_loop().time()
            if await read(_has_open_workspaces):
                idle_since = now
            elif now - idle_since >= settings.CRUSH_IDLE_TIMEOUT_SECONDS and self._on_exit:
                logger.info("no client is left: the server stops")
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
    forget_all_processes(tx)  # waits for claims of others, whose leases then expire, too
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
