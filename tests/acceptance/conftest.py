"""Fixtures of the acceptance tests: services, the scripted model, servers in both shapes, a client.

Markers: `server_env(NAME="value")` sets environment variables of the test's server,
`server_workers(n)` the number of workers in the scaled shape.
"""

import os
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.acceptance.harness.client import Client
from tests.acceptance.harness.kept import KeptServers
from tests.acceptance.harness.model import ScriptedModel
from tests.acceptance.harness.project import make_project
from tests.acceptance.harness.services import Services, missing_services
from tests.acceptance.harness.shapes import Reroute, Server, Shape, make_server
from tests.acceptance.small_disk import SmallDisk, mounted

_LOG_TAIL_CHARS = 20_000
_SERVERS: pytest.StashKey[list[Server]] = pytest.StashKey()

MakeServer = Callable[..., Server]
MakeProject = Callable[..., Path]


@pytest.fixture(scope="session")
def shared_services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Services]]:
    """PostgreSQL and Redis, started by the first test that calls this."""
    started: list[Services] = []

    def start_once() -> Services:
        if not started:
            reason = missing_services()
            if reason is not None:
                # Where everything is under our control, a missing package is our own mistake.
                (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
            services = Services(tmp_path_factory.mktemp("services"))
            started.append(services)
            services.start()
        return started[0]

    yield start_once
    for services in started:
        services.stop()


@pytest.fixture
def services(shared_services: Callable[[], Services]) -> Services:
    """PostgreSQL and Redis, for tests of the scaled shape alone."""
    return shared_services()


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedModel]:
    """One scripted model for all tests of this process: name gates with `model.new_gate()`."""
    process = ScriptedModel(tmp_path_factory.mktemp("model") / "model.log")
    process.start()
    yield process
    process.stop()


@pytest.fixture
def make_a_server(
    request: pytest.FixtureRequest, tmp_path: Path, shared_services: Callable[[], Services]
) -> Iterator[MakeServer]:
    """`make_a_server(shape, env={...}, webs=1, workers=1)`: a server, not started, and closed after the test."""
    made: list[Server] = request.node.stash.setdefault(_SERVERS, [])

    def make(
        shape: Shape,
        *,
        env: Mapping[str, str] | None = None,
        webs: int = 1,
        workers: int = 1,
        reroute: Reroute | None = None,
        monitored: bool = False,
    ) -> Server:
        server = make_server(
            shape,
            tmp_path / f"server-{len(made) + 1}",
            env=env,
            services=shared_services() if shape is Shape.SCALED else None,
            webs=webs,
            workers=workers,
            reroute=reroute,
            monitored=monitored,
        )
        made.append(server)
        return server

    yield make
    for server in made:
        server.close()


@pytest.fixture(params=list(Shape), ids=str)
def shape(request: pytest.FixtureRequest) -> Shape:
    """Both shapes, one after the other."""
    return Shape(request.param)


@pytest.fixture
def server(request: pytest.FixtureRequest, shape: Shape, make_a_server: MakeServer) -> Server:
    """A started server of this test's own, in both shapes."""
    return _started(request, shape, make_a_server)


@pytest.fixture
def embedded_server(request: pytest.FixtureRequest, make_a_server: MakeServer) -> Server:
    """A started server of this test's own, embedded."""
    return _started(request, Shape.EMBEDDED, make_a_server)


@pytest.fixture
def scaled_server(request: pytest.FixtureRequest, make_a_server: MakeServer) -> Server:
    """A started server of this test's own, scaled."""
    return _started(request, Shape.SCALED, make_a_server)


def _started(request: pytest.FixtureRequest, shape: Shape, make: MakeServer) -> Server:
    env: dict[str, str] = {}
    for marker in request.node.iter_markers("server_env"):
        env = {**marker.kwargs, **env}  # the nearest marker comes first and wins
    workers = request.node.get_closest_marker("server_workers")
    server = make(shape, env=env, workers=workers.args[0] if workers else 1)
    server.start()
    return server


@pytest.fixture(scope="session")
def kept_servers(
    tmp_path_factory: pytest.TempPathFactory, shared_services: Callable[[], Services]
) -> Iterator[Callable[[Shape], Server]]:
    """One server for each shape, started when first asked for and kept for the session."""
    kept = KeptServers(tmp_path_factory.mktemp("kept"), shared_services)
    yield kept
    kept.close()


@pytest.fixture
def shared_server(
    request: pytest.FixtureRequest, shape: Shape, kept_servers: Callable[[Shape], Server]
) -> Server:
    """A running server that other tests use too: for tests that neither stop nor configure it."""
    server = kept_servers(shape)
    request.node.stash.setdefault(_SERVERS, []).append(server)
    return server


@pytest.fixture
def project(tmp_path: Path, model: ScriptedModel) -> MakeProject:
    """`project("name", permissions={...})`: a folder whose crush.json names the scripted model."""

    def make(name: str = "project", **configuration: Any) -> Path:
        return make_project(tmp_path / "projects" / name, model.base_url, **configuration)

    return make


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """A file system of its own that a test may fill."""
    with mounted(tmp_path / "disk") as disk:
        if disk is None:
            pytest.skip("a file system cannot be mounted here")
        yield disk


@pytest_asyncio.fixture
async def connect() -> AsyncIterator[Callable[[Server], Client]]:
    """`connect(server)`: a client of it, closed after the test with all its streams."""
    clients: list[Client] = []

    def make(server: Server) -> Client:
        clients.append(Client(server.url))
        return clients[-1]

    yield make
    for client in clients:
        await client.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """A failed test shows what its servers said."""
    report: Any = yield
    if report.failed:
        for server in item.stash.get(_SERVERS, []):
            text = server.log_text()[-_LOG_TAIL_CHARS:]
            report.sections.append((f"log of the {server.shape} server {server.url}", text))
    return report
