"""The two shapes of the server as real processes, with one interface to start, kill and stop them.

Knows the commands and the lines they print; nothing of what is spoken over the socket.
"""

import enum
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from tests.acceptance.harness.environment import manage, server_environment
from tests.acceptance.harness.ports import free_port
from tests.acceptance.harness.processes import (
    Process,
    ProcessFailed,
    end_kept_commands,
    kill_marked,
)
from tests.acceptance.harness.services import Services

Which = Literal["all", "web", "worker"]
Reroute = Callable[[str, Mapping[str, str]], Mapping[str, str]]
_START_SECONDS = 90  # seconds on a busy machine, two on a quiet one


class Shape(enum.StrEnum):
    EMBEDDED = "embedded"
    SCALED = "scaled"


class Server(ABC):
    """One server on one port and one data folder, through any number of starts. Methods may block;
    call them through `asyncio.to_thread` where a stream must be read meanwhile."""

    shape: Shape
    urls: list[str]  # of its web processes, `url` first
    monitor_urls: list[str]  # where the processes that perform runs answer about themselves

    def __init__(self, folder: Path, extra_env: Mapping[str, str]) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.urls = [self.url]
        self.folder = folder
        self.data_dir = folder / "data"
        self.env = server_environment(folder / "home", self.data_dir, extra_env)

    @abstractmethod
    def processes(self, which: Which = "all") -> list[Process]:
        """In the order in which they start."""

    @abstractmethod
    def start(self) -> None:
        """Start what does not run, and return when all of it listens or works."""

    def kill9(self, which: Which = "all") -> None:
        """SIGKILL, all at once: no process may see another's end and tidy up."""
        doomed = self.processes(which)
        for process in doomed:
            process.send(signal.SIGKILL)
        for process in doomed:
            process.kill9()

    def restart(self) -> None:
        """What runs ends with SIGTERM; then start. After `kill9` this is only a start."""
        if self.alive:
            self.stop()
        self.start()

    def stop(self) -> None:
        """SIGTERM to all, each must end with 0."""
        running = [process for process in self.processes() if process.alive]
        for process in running:
            process.send(signal.SIGTERM)
        # Once only: a second SIGTERM may meet a process that has put its handler away already.
        codes = {process: process.wait() for process in running}
        for process, code in codes.items():
            if code != 0:
                raise process.failure(f"ended with {code} on SIGTERM")

    def close(self) -> None:
        """End everything, also what tools left running. For fixtures: asserts what `stop` asserts."""
        try:
            died = [p for p in self.processes() if p.returncode not in (None, 0, -signal.SIGKILL)]
            if died:
                raise died[0].failure(f"had ended by itself with {died[0].returncode}")
            self.stop()
        finally:
            self.kill9()
            end_kept_commands(self.data_dir)
            kill_marked(f"CRUSH_DATA_DIR={self.data_dir}")

    @property
    def alive(self) -> bool:
        return any(process.alive for process in self.processes())

    def pids(self) -> list[int]:
        return [process.pid for process in self.processes() if process.alive]

    def log_text(self) -> str:
        return "\n".join(f"--- {p.name}\n{p.log_text()}" for p in self.processes())


class EmbeddedServer(Server):
    """`manage.py serve`: everything in one process."""

    shape = Shape.EMBEDDED

    def __init__(self, folder: Path, extra_env: Mapping[str, str]) -> None:
        super().__init__(folder, extra_env)
        self.monitor_urls = [self.url]
        self._serve = manage(
            "serve",
            ["serve", "--host", f"tcp://127.0.0.1:{self.port}"],
            env=self.env,
            log=folder / "serve.log",
        )

    def processes(self, which: Which = "all") -> list[Process]:
        return [self._serve]  # it is web and worker in one

    def start(self) -> None:
        if not self._serve.alive:
            self._serve.start()
        self._serve.wait_for_line("Serving", _START_SECONDS)


class ScaledServer(Server):
    """A number of `manage.py web` and of `manage.py runworker`, on PostgreSQL and Redis."""

    shape = Shape.SCALED

    def __init__(
        self,
        folder: Path,
        extra_env: Mapping[str, str],
        services: Services,
        *,
        webs: int = 1,
        workers: int = 1,
        reroute: Reroute | None = None,
        monitored: bool = False,
    ) -> None:
        """`reroute` gets a process's name and environment, and returns what to change in it.

        `monitored`: each worker listens at its own of `monitor_urls`.
        """
        super().__init__(folder, extra_env)
        ports = [free_port() for _ in range(workers)] if monitored else []
        self.monitor_urls = [f"http://127.0.0.1:{port}" for port in ports]
        self._services = services
        self._addresses = services.allocate(self._migrate)
        self.env.update(self._addresses.env)
        self.urls += [f"http://127.0.0.1:{free_port()}" for _ in range(webs - 1)]
        self._webs = [
            manage(
                name,
                ["web", "--host", url.replace("http", "tcp", 1)],
                env=self._rerouted(name, reroute),
                log=folder / f"{name.replace(' ', '-')}.log",
            )
            for name, url in zip(_names_of_webs(webs), self.urls, strict=True)
        ]
        self._workers = [
            manage(
                f"worker {n}",
                ["runworker", *self._monitoring(n)],
                env=self._rerouted(f"worker {n}", reroute),
                log=folder / f"worker-{n}.log",
            )
            for n in range(1, workers + 1)
        ]

    def _monitoring(self, number: int) -> list[str]:
        if not self.monitor_urls:
            return []
        return ["--host", self.monitor_urls[number - 1].replace("http", "tcp", 1)]

    def _rerouted(self, name: str, reroute: Reroute | None) -> Mapping[str, str]:
        return {**self.env, **(reroute(name, self.env) if reroute is not None else {})}

    def _migrate(self, database_url: str) -> None:
        env = {**self.env, "DATABASE_URL": database_url}
        migrate = manage(
            "migrate", ["migrate", "--no-input"], env=env, log=self.folder / "migrate.log"
        )
        migrate.start()
        if migrate.wait(120) != 0:
            raise migrate.failure("failed")

    def processes(self, which: Which = "all") -> list[Process]:
        webs = self._webs if which in ("all", "web") else []
        return webs + (self._workers if which in ("all", "worker") else [])

    def start(self) -> None:
        waiting = [process for process in self.processes() if not process.alive]
        for process in waiting:
            process.start()
        for process in waiting:
            process.wait_for_line("Serving" if process in self._webs else "Working", _START_SECONDS)

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._services.release(self._addresses)


def _names_of_webs(count: int) -> list[str]:
    return ["web", *(f"web {number}" for number in range(2, count + 1))]


def make_server(
    shape: Shape,
    folder: Path,
    *,
    env: Mapping[str, str] | None = None,
    services: Services | None = None,
    webs: int = 1,
    workers: int = 1,
    reroute: Reroute | None = None,
    monitored: bool = False,
) -> Server:
    """A server that is not started yet."""
    folder.mkdir(parents=True, exist_ok=True)
    if shape is Shape.EMBEDDED:
        return EmbeddedServer(folder, env or {})
    if services is None:
        raise ProcessFailed("the scaled shape needs services")
    return ScaledServer(
        folder,
        env or {},
        services,
        webs=webs,
        workers=workers,
        reroute=reroute,
        monitored=monitored,
    )
