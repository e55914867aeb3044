"""One language server of one workspace: starts it, and restarts it with longer and longer pauses.

Each caller waits for the client with its own timeout, so every wait ends. After several
consecutive failures the server stays stopped until a caller requests a restart.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from agents.tools.lsp.client import Client
from agents.tools.lsp.handshake import load_protocol
from agents.tools.lsp.peer import RequestFailed
from agents.tools.lsp.plans import ServerPlan
from agents.tools.lsp.server_process import CannotStart, StartedServer, launch
from agents.tools.lsp.states import LanguageServerStatus, ServerStatus
from workspaces.backoff import pause_after

logger = logging.getLogger(__name__)

TRIES = 5  # consecutive failures
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
RESET_AFTER_SECONDS = 60.0  # running for this long resets the count of failures
COALESCE_SECONDS = 0.3  # between two notifications of clients about diagnostics


class LanguageServerProcess:
    def __init__(
        self,
        plan: ServerPlan,
        root: Path,
        env: Mapping[str, str],
        *,
        notify: Callable[[ServerStatus], None],
        first_pause_seconds: float = FIRST_PAUSE_SECONDS,
    ) -> None:
        """``notify`` is called on the event loop with every new status, and must not block."""
        self.plan = plan
        self._root = root
        self._env = env
        self._notify_status = notify
        self._first_pause = first_pause_seconds
        self._client: Client | None = None
        self._started: StartedServer | None = None
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._diagnostics_timer: asyncio.TimerHandle | None = None
        self.state = (
            LanguageServerStatus.DISABLED if plan.is_disabled else LanguageServerStatus.UNSTARTED
        )
        self.error = ""
        # Consecutive timeouts after changes: several of them shorten the next wait.
        self.late_answers = 0

    @property
    def client(self) -> Client | None:
        """The client while the server is ready, else ``None``."""
        return self._client

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    def status(self) -> ServerStatus:
        started, client = self._started, self._client
        return ServerStatus(
            self.plan.name,
            self.state,
            error=self.error,
            diagnostic_count=client.diagnostics.count if client else 0,
            pid=started.pid if started else 0,
            pid_started=started.pid_started if started else "",
        )

    def begin(self, *, again: bool = False) -> None:
        """Starts the server in the background, unless it runs or is disabled.

        A server that failed too often starts only with ``again``.
        """
        if self.is_running or self.plan.is_disabled:
            return
        if self.state is LanguageServerStatus.ERROR and not again:
            return
        if self.plan.fault:
            self._set_state(LanguageServerStatus.ERROR, self.plan.fault)
            return
        self._set_state(LanguageServerStatus.STARTING)
        self._task = asyncio.create_task(self._run(), name="language-server")

    async def ready(self, *, seconds: float) -> Client | None:
        """Waits for the start and returns the client; ``None`` after a failure or the timeout."""
        try:
            async with asyncio.timeout(seconds):
                while self._client is None and self.state is LanguageServerStatus.STARTING:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return None
        return self._client

    async def stop(self) -> None:
        """Ends the server and its descendants. Idempotent."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if task is not None or self.state in (
            LanguageServerStatus.STARTING,
            LanguageServerStatus.READY,
        ):
            self._set_state(LanguageServerStatus.STOPPED)

    # -- lifecycle

    async def _run(self) -> None:
        failures = 0
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            error = await self._run_once()
            if loop.time() - began >= RESET_AFTER_SECONDS:
                failures = 0
            failures += 1
            logger.warning(
                "a language server ended: %s", error, extra={"language_server": self.plan.name}
            )
            if failures >= TRIES:
                self._set_state(
                    LanguageServerStatus.ERROR,
                    f"{error} It is not restarted automatically; lsp_restart starts it again.",
                )
                return
            self._set_state(LanguageServerStatus.ERROR, error)
            pause = pause_after(
                failures, first_seconds=self._first_pause, limit_seconds=LONGEST_PAUSE_SECONDS
            )
            await asyncio.sleep(pause)
            self._set_state(LanguageServerStatus.STARTING)

    async def _run_once(self) -> str:
        """Runs the server from its start to its end. Returns why it ended."""
        client: Client | None = None
        try:
            async with asyncio.timeout(self.plan.seconds):
                client = await self._start()
            self._client = client
            self.late_answers = 0
            self._set_state(LanguageServerStatus.READY, is_connected=True)
            return f"It has ended: {await client.peer.gone}."
        except TimeoutError:
            return f"It did not start within {self.plan.seconds:g} s."
        except (CannotStart, RequestFailed) as failed:
            return str(failed)
        except Exception as error:
            logger.exception("a language server could not be started")
            return f"It could not be started: {type(error).__name__}."
        finally:
            self._client = None
            await self._end_process(client)

    async def _start(self) -> Client:
        protocol = await load_protocol()
        self._started = await launch(
            self.plan.argv, cwd=self._root, env={**self._env, **self.plan.env}
        )
        client = Client(
            self._started,
            self.plan,
            self._root,
            protocol=protocol,
            on_diagnostics=self._on_diagnostics,
        )
        try:
            await client.initialize(process_id=os.getpid())
        except BaseException:
            client.peer.end("it did not start")
            raise
        return client

    async def _end_process(self, client: Client | None) -> None:
        started, self._started = self._started, None
        if client is not None:
            if not client.peer.gone.done():
                await client.shut_down()
            client.peer.end("it was stopped")
        if started is not None:
            await started.end()

    # -- notifications

    def _set_state(
        self, state: LanguageServerStatus, error: str = "", *, is_connected: bool = False
    ) -> None:
        self.state, self.error = state, error
        self._changed.set()
        self._cancel_diagnostics_timer()
        self._notify_status(replace(self.status(), is_connected=is_connected))

    def _on_diagnostics(self) -> None:
        if self._diagnostics_timer is None:
            loop = asyncio.get_running_loop()
            self._diagnostics_timer = loop.call_later(COALESCE_SECONDS, self._notify_diagnostics)

    def _notify_diagnostics(self) -> None:
        self._diagnostics_timer = None
        if self._client is not None:
            self._notify_status(replace(self.status(), only_diagnostics=True))

    def _cancel_diagnostics_timer(self) -> None:
        if self._diagnostics_timer is not None:
            self._diagnostics_timer.cancel()
            self._diagnostics_timer = None
