"""Registers this process among the server's processes, and renews its registration.

One row is renewed for all runs of the process. A process that is alone on its data renews nothing:
no other process looks.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings
from django.db import connection

from agents.tools.shell.identity import this_host
from crushsite.monitoring.root_watch import RootWatch
from workspaces.actions.processes import (
    ProcessFacts,
    RegistrationLost,
    end_registration,
    register,
    renew_registration,
)
from workspaces.log.errors import Refusal, ShuttingDown
from workspaces.log.timestamps import now_ms
from workspaces.log.transaction import Transaction
from workspaces.log.writer import WriteFunction, writer
from workspaces.models import NEVER_EXPIRES
from workspaces.release import VERSION

logger = logging.getLogger(__name__)

RENEWAL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class ProcessShape:
    """What this process does."""

    works: bool  # performs runs; without it, only those of its remote workers
    serves: bool  # has clients
    is_alone: bool  # no other process uses this data
    exits_idle: bool = False  # started by a client: ends when no workspace is open
    is_temporary: bool = False  # ends with one command or sub-agent

    @property
    def kind(self) -> str:
        """The name of the command that starts such a process."""
        if self.works and self.serves:
            return "serve"
        return "web" if self.serves else "worker"


class ProcessRegistration:
    def __init__(
        self,
        instance_id: str,
        shape: ProcessShape,
        *,
        runs: Callable[[], int],
        is_draining: Callable[[], bool],
        on_lost: Callable[[str], Coroutine[Any, Any, None]],
        write: WriteFunction = writer.write,
    ) -> None:
        """``on_lost`` stops what this process has claimed, and gets the id under which it goes on."""
        self._instance_id = self.id = instance_id
        self._lease_ms = int(settings.CRUSH_LEASE_SECONDS * 1000)
        # PostgreSQL may be shared, or be served by other processes later.
        self._is_alone = shape.is_alone and connection.vendor == "sqlite"
        self._runs, self._is_draining, self._on_lost = runs, is_draining, on_lost
        self.roots = RootWatch(
            settings.CRUSH_ROOTS if shape.works else (),
            settings.CRUSH_LABELS,
            is_needed=not shape.is_alone or (shape.works and bool(settings.CRUSH_ROOTS)),
        )
        self._write = write
        self._times = 1
        self._task: asyncio.Task[None] | None = None
        self._cutting: asyncio.Task[None] | None = None
        self._facts = ProcessFacts(
            shape.kind,
            socket.gethostname(),
            os.getpid(),
            VERSION,
            started_at=0,
            most_runs=settings.CRUSH_MAX_RUNS if shape.works else 0,
            labels=tuple(settings.CRUSH_LABELS) if shape.works else (),
        )

    async def start(self) -> None:
        self._facts = replace(self._facts, started_at=now_ms(), pid_host=this_host())
        await self.roots.start()
        await self._register()
        if not self._is_alone:
            self._task = asyncio.create_task(self._renew_forever(), name="registration")

    async def stop(self) -> None:
        """Ends the registration. Without a database it expires."""
        await self.roots.stop()
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        try:
            await self._write("", lambda tx: end_registration(tx, self.id))
        except Refusal as refusal:
            logger.warning("the registration of this process could not be ended: %s", refusal)

    async def _register(self) -> None:
        until = NEVER_EXPIRES if self._is_alone else now_ms() + self._lease_ms
        facts = replace(
            self._facts, roots=self.roots.served_names, missing_roots=self.roots.missing_names
        )
        await self._write("", lambda tx: register(tx, self.id, facts, expires_at=until))

    async def _renew_forever(self) -> None:
        while True:
            await asyncio.sleep(min(self._lease_ms / 3000, RENEWAL_SECONDS))
            try:
                await self._renew(self._runs(), is_draining=self._is_draining())
            except RegistrationLost:
                await self._begin_again()
            except ShuttingDown:
                return
            except Exception:
                logger.exception(
                    "the registration could not be renewed; the next round tries again"
                )

    async def _renew(self, runs: int, *, is_draining: bool) -> None:
        def job(tx: Transaction) -> None:
            renew_registration(
                tx,
                self.id,
                lease_ms=self._lease_ms,
                runs=runs,
                is_draining=is_draining,
                roots=self.roots.served_names,
                missing_roots=self.roots.missing_names,
            )

        await self._write("", job)

    async def _begin_again(self) -> None:
        """Registers under another id: under the old one, others take over what was held."""
        logger.warning("this process did not renew its registration in time and registers again")
        self._times += 1
        self.id = f"{self._instance_id}.{self._times}"
        try:
            await self._register()
            cutting = self._cut(self._cutting, self.id)
            self._cutting = asyncio.create_task(cutting, name="cutting runs")
        except ShuttingDown:
            pass
        except Exception:  # the next renewal finds no row, and begins again
            logger.exception("this process could not register again")

    async def _cut(self, earlier: asyncio.Task[None] | None, worker: str) -> None:
        """Stops what was claimed, after an earlier loss: the newest id must be the last one."""
        if earlier is not None:
            await asyncio.wait([earlier])
        await self._on_lost(worker)
