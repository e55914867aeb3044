"""One language server of one workspace: started, watched, restarted with growing pauses.

Whoever needs it waits for its client within a time of his own; whatever the
process does, waiting for it ends. After some failures in a row it is left alone
until somebody asks for it by name.
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
from agents.tools.lsp.launching import CannotStart, Launched, launch
from agents.tools.lsp.peer import RequestFailed
from agents.tools.lsp.plans import ServerPlan
from agents.tools.lsp.states import LanguageServerStatus, ServerStatus

logger = logging.getLogger(__name__)

TRIES = 5  # failures in a row
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
WELL_AFTER_SECONDS = 60.0  # running so long forgives the failures before
COALESCE_SECONDS = 0.3  # of diagnostics that are told to clients


class LanguageServerProcess:
    def __init__(
        self,
        plan: ServerPlan,
        root: Path,
        env: Mapping[str, str],
        *,
        tell: Callable[[ServerStatus], None],
        first_pause_seconds: float = FIRST_PAUSE_SECONDS,
    ) -> None:
        """``tell`` is called in the loop with every new state, and may not wait."""
        self.plan = plan
        self._root = root
        self._env = env
        self._tell_status = tell
        self._first_pause = first_pause_seconds
        self._client: Client | None = None
        self._launched: Launched | None = None
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._telling: asyncio.TimerHandle | None = None
        self.state = (
            LanguageServerStatus.DISABLED if plan.is_disabled else LanguageServerStatus.UNSTARTED
        )
        self.error = ""
        # Answers about a change that did not come in time: it is then waited for less.
        self.late_answers = 0

    @property
    def client(self) -> Client | None:
        """Only while it is ready."""
        return self._client

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    def status(self) -> ServerStatus:
        launched, client = self._launched, self._client
        return ServerStatus(
            self.plan.name,
            self.state,
            error=self.error,
            diagnostic_count=client.diagnostics.count if client else 0,
            pid=launched.pid if launched else 0,
            pid_started=launched.pid_started if launched else "",
        )

    def begin(self, *, again: bool = False) -> None:
        """Starts it in the background, unless it runs or has failed too often (``again``)."""
        if self.is_running or self.plan.is_disabled:
            return
        if self.state is LanguageServerStatus.ERROR and not again:
            return
        if self.plan.fault:
            self._become(LanguageServerStatus.ERROR, self.plan.fault)
            return
        self._become(LanguageServerStatus.STARTING)
        self._task = asyncio.create_task(self._live(), name="language-server-life")

    async def ready(self, *, seconds: float) -> Client | None:
        """Its client, once it has started; ``None`` when that fails or takes longer."""
        try:
            async with asyncio.timeout(seconds):
                while self._client is None and self.state is LanguageServerStatus.STARTING:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return None
        return self._client

    async def stop(self) -> None:
        """Ends it and all it started. Callable often."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if task is not None or self.state in (
            LanguageServerStatus.STARTING,
            LanguageServerStatus.READY,
        ):
            self._become(LanguageServerStatus.STOPPED)

    # -- its life

    async def _live(self) -> None:
        failures = 0
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            error = await self._live_once()
            if loop.time() - began >= WELL_AFTER_SECONDS:
                failures = 0
            failures += 1
            logger.warning(
                "a language server ended: %s", error, extra={"language_server": self.plan.name}
            )
            if failures >= TRIES:
                self._become(
                    LanguageServerStatus.ERROR, f"{error} It is not tried again by itself."
                )
                return
            self._become(LanguageServerStatus.ERROR, error)
            await asyncio.sleep(min(self._first_pause * 2 ** (failures - 1), LONGEST_PAUSE_SECONDS))
            self._become(LanguageServerStatus.STARTING)

    async def _live_once(self) -> str:
        """From its start to its end, of which it tells why."""
        client: Client | None = None
        try:
            async with asyncio.timeout(self.plan.seconds):
                client = await self._start()
            self._client = client
            self.late_answers = 0
            self._become(LanguageServerStatus.READY, is_connected=True)
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
            await self._clear_away(client)

    async def _start(self) -> Client:
        protocol = await load_protocol()
        self._launched = await launch(
            self.plan.argv, cwd=self._root, env={**self._env, **self.plan.env}
        )
        client = Client(
            self._launched,
            self.plan,
            self._root,
            protocol=protocol,
            on_diagnostics=self._on_diagnostics,
        )
        try:
            await client.greet(process_id=os.getpid())
        except BaseException:
            client.peer.end("it did not start")
            raise
        return client

    async def _clear_away(self, client: Client | None) -> None:
        launched, self._launched = self._launched, None
        if client is not None:
            if not client.peer.gone.done():
                await client.leave()
            client.peer.end("it was stopped")
        if launched is not None:
            await launched.end()

    # -- telling

    def _become(
        self, state: LanguageServerStatus, error: str = "", *, is_connected: bool = False
    ) -> None:
        self.state, self.error = state, error
        self._changed.set()
        self._forget_telling()
        self._tell_status(replace(self.status(), is_connected=is_connected))

    def _on_diagnostics(self) -> None:
        if self._telling is None:
            loop = asyncio.get_running_loop()
            self._telling = loop.call_later(COALESCE_SECONDS, self._tell_diagnostics)

    def _tell_diagnostics(self) -> None:
        self._telling = None
        if self._client is not None:
            self._tell_status(replace(self.status(), only_diagnostics=True))

    def _forget_telling(self) -> None:
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
