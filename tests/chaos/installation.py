"""Two web processes and two workers behind proxies, with clocks that can be set."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from tests.acceptance.harness.clock import SteppedClock
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.postgres import SURVIVES_CRASHES
from tests.acceptance.harness.processes import Process, end_leftovers
from tests.acceptance.harness.project import make_project
from tests.acceptance.harness.services import Services
from tests.acceptance.harness.shapes import Server, Shape, make_server
from tests.chaos.plan import PROCESSES, WEBS, WORKERS, Service
from tests.doubles.tcp_proxy import TcpProxy

_VARIABLES = {Service.POSTGRES: "DATABASE_URL", Service.REDIS: "REDIS_URL"}
_LEFT_SECONDS = 60.0
_SETTINGS = {
    "CRUSH_DRAIN": "3",  # what runs when a process stops is cut after this time
    # A client returns late when both web processes start at once on a busy machine.
    "CRUSH_SERVER_CREATE_GRACE": "300",
    "CRUSH_SERVER_DETACH_GRACE": "300",
}


@dataclass
class Installation:
    server: Server
    services: Services
    proxies: Mapping[tuple[str, Service], TcpProxy]  # by process
    clocks: Mapping[str, SteppedClock]
    folders: list[Path]  # the first ones allow everything, in the last one people are asked
    logs: Path

    def process(self, name: str) -> Process:
        (found,) = [p for p in self.server.processes() if p.name == name]
        return found

    def end(self) -> list[str]:
        """SIGTERM to all; what went wrong."""
        found: list[str] = []
        try:
            self.server.stop()
        except AssertionError as error:
            found.append(str(error))
        left = end_leftovers(f"CRUSH_DATA_DIR={self.server.data_dir}", _LEFT_SECONDS)
        return found + [f"left behind: {line}" for line in left]


@contextmanager
def installed(logs: Path, *, places: int) -> Iterator[Installation]:
    """A started installation; its processes write their logs below the folder."""
    with ExitStack() as stack:
        model = ScriptedModel(logs / "model.log")
        stack.callback(model.stop)
        model.start()
        services = Services(logs, SURVIVES_CRASHES)
        stack.callback(services.stop)
        services.start()
        (logs / "clocks").mkdir(parents=True)
        clocks = {name: SteppedClock(logs / "clocks" / name) for name in PROCESSES}
        proxies: dict[tuple[str, Service], TcpProxy] = {}

        def reroute(name: str, env: Mapping[str, str]) -> dict[str, str]:
            changed = {**clocks[name].env}
            for service, variable in _VARIABLES.items():
                proxy, changed[variable] = _proxied(env[variable])
                stack.callback(proxy.close)
                proxies[name, service] = proxy
            return changed

        server = make_server(
            Shape.SCALED,
            logs / "server",
            env=_SETTINGS,
            services=services,
            webs=len(WEBS),
            workers=len(WORKERS),
            reroute=reroute,
        )
        stack.callback(_close, server)
        server.start()
        folders = [make_project(logs / f"project-{n}", model.base_url) for n in range(places)]
        yield Installation(server, services, proxies, clocks, folders, logs)


def _close(server: Server) -> None:
    with suppress(AssertionError):  # `Installation.end` has said so
        server.close()


def _proxied(url: str) -> tuple[TcpProxy, str]:
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    proxy = TcpProxy(parts.hostname, parts.port)
    user = f"{parts.username}@" if parts.username else ""
    return proxy, urlunsplit(parts._replace(netloc=f"{user}127.0.0.1:{proxy.port}"))
