"""The language servers of one workspace, by the files that they handle.

Plans follow the configuration and the disk. The first file that a server handles
starts it. Every wait for a server has a timeout, and none raises.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agents.tools.lsp.plans import ServerPlan
from agents.tools.lsp.server import FIRST_PAUSE_SECONDS, LanguageServerProcess
from agents.tools.lsp.states import ServerStatus

PLANNED_FOR_SECONDS = 5.0  # after this time a newly installed program is found


@dataclass(frozen=True, slots=True)
class Planned:
    """The servers that a workspace may run, with their folder and environment."""

    root: Path
    env: Mapping[str, str] = field(repr=False)  # the whole environment for processes
    plans: tuple[ServerPlan, ...]


class WorkspaceServers:
    def __init__(
        self,
        plan: Callable[[], Awaitable[Planned]],
        *,
        notify: Callable[[ServerStatus], None],
        forget: Callable[[str], None],
        first_pause_seconds: float = FIRST_PAUSE_SECONDS,
    ) -> None:
        """``notify`` gets every new status, ``forget`` the name of every server that was removed."""
        self._plan = plan
        self._notify = notify
        self._forget = forget
        self._first_pause = first_pause_seconds
        self._planned: Planned | None = None
        self._planned_at = 0.0
        self._planning = asyncio.Lock()
        self._servers: dict[str, LanguageServerProcess] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self._is_left = False

    @property
    def is_hosting(self) -> bool:
        return any(server.is_running for server in self._servers.values())

    @property
    def could_start(self) -> bool:
        """Whether a server runs here, or may start."""
        plans = self._planned.plans if self._planned else ()
        return (
            any(not plan.is_disabled and (plan.is_configured or plan.is_at_home) for plan in plans)
            or self.is_hosting
        )

    @property
    def root(self) -> Path:
        return self._planned.root if self._planned else Path("/")

    def named(self, name: str) -> LanguageServerProcess | None:
        return self._servers.get(name)

    def servers(self) -> tuple[LanguageServerProcess, ...]:
        return tuple(self._servers.values())

    async def refresh(self, *, at_once: bool = False) -> None:
        """Applies the current configuration. Raises what reading it raises."""
        loop = asyncio.get_running_loop()
        async with self._planning:
            fresh = loop.time() - self._planned_at < PLANNED_FOR_SECONDS
            if self._planned is not None and fresh and not at_once:
                return
            planned = await self._plan()
            self._planned_at = loop.time()
            before, self._planned = self._planned, planned
            if not self._is_closed:
                await self._adopt(planned, env_changed=before is None or before.env != planned.env)

    async def for_file(self, path: Path) -> tuple[LanguageServerProcess, ...]:
        """Returns the servers that handle the file, and starts those that do not run."""
        await self.refresh()
        planned = self._planned
        if planned is None or self._is_closed:
            return ()
        wanted = [plan for plan in planned.plans if plan.may_handle(path)]
        if not all(plan.is_at_home for plan in wanted):
            wanted = await asyncio.to_thread(_handling, wanted, path, planned.root)
        found = [self._server(plan, planned) for plan in wanted]
        for server in found:
            server.begin()
        return tuple(found)

    async def start_for(self, path: Path) -> None:
        """Starts a file's servers on a person's request, including those that failed too often."""
        for server in await self.for_file(path):
            server.begin(again=True)

    def in_background(self, work: Awaitable[None]) -> None:
        async def do() -> None:
            await work

        task = asyncio.create_task(do(), name="language-servers")
        self._tasks.add(task)
        task.add_done_callback(self._done)

    async def restart(
        self, servers: Iterable[LanguageServerProcess], *, seconds: float
    ) -> tuple[str, ...]:
        """Restarts servers. Returns the names of those that are ready within the time."""

        async def again(server: LanguageServerProcess) -> str:
            await server.stop()
            server.begin(again=True)
            return server.plan.name if await server.ready(seconds=seconds) else ""

        names = await asyncio.gather(*(again(server) for server in servers))
        return tuple(name for name in names if name)

    async def stop(self) -> None:
        """Stops all servers; a file that is touched later starts them again."""
        await asyncio.gather(*(server.stop() for server in self._servers.values()))

    async def close(self) -> None:
        """Stops all servers permanently."""
        self._is_closed = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.stop()

    async def leave(self) -> None:
        """Stops all servers permanently and reports nothing: another process has them now."""
        self._is_left = True
        await self.close()

    def _report(self, status: ServerStatus) -> None:
        if not self._is_left:
            self._notify(status)

    # -- following the plans

    async def _adopt(self, planned: Planned, *, env_changed: bool) -> None:
        by_name = {plan.name: plan for plan in planned.plans}
        for name, server in list(self._servers.items()):
            plan = by_name.get(name)
            if plan == server.plan and not env_changed:
                continue
            if plan is not None and not plan.is_configured and server.plan.argv == plan.argv:
                continue  # only the folder of a marker file has changed
            del self._servers[name]
            was_running = server.is_running
            await server.stop()
            if plan is None:
                self._forget(name)
            elif plan.is_configured:
                fresh = self._server(plan, planned)
                if was_running:
                    fresh.begin()
        for plan in planned.plans:
            # Clients see configured servers before a file needs them.
            if plan.is_configured and plan.name not in self._servers:
                self._server(plan, planned)

    def _server(self, plan: ServerPlan, planned: Planned) -> LanguageServerProcess:
        server = self._servers.get(plan.name)
        if server is None:
            server = self._servers[plan.name] = LanguageServerProcess(
                plan,
                planned.root,
                planned.env,
                notify=self._report,
                first_pause_seconds=self._first_pause,
            )
            if plan.fault and not plan.is_disabled:
                server.begin()  # reports the fault of the plan
            elif plan.is_configured:
                self._report(server.status())
        return server

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved: the workspace was closed, and no caller waits


def _handling(plans: list[ServerPlan], path: Path, root: Path) -> list[ServerPlan]:
    return [plan for plan in plans if plan.handles(path, root)]
