"""The environment of the commands, and a bridge to a server with TLS behind a network that fails."""

import ssl
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.acceptance.commands.prompts import Env
from tests.acceptance.harness.client import Client
from tests.acceptance.harness.commands import command
from tests.acceptance.harness.environment import manage, server_environment
from tests.acceptance.harness.ports import free_port
from tests.acceptance.harness.processes import Process
from tests.doubles.tcp_proxy import TcpProxy


@pytest.fixture
def alone(tmp_path: Path) -> Env:
    """The environment of a person on whose data folder no server runs."""
    return server_environment(tmp_path / "home", tmp_path / "data", {})


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A certificate for localhost, signed by itself, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    names = str(folder / "cert.pem"), str(folder / "key.pem")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"),
            *("-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost", "-keyout", names[1], "-out", names[0]),
        ],
        check=True,
        capture_output=True,
    )
    return names


@dataclass
class Elsewhere:
    """A server with TLS, the network to it, and a user's machine."""

    server: Process
    url: str  # through the network
    direct: str
    network: TcpProxy
    token: str
    server_env: dict[str, str]
    env: dict[str, str]  # of the user's machine
    certificate: str

    def tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.certificate)

    def login(self) -> None:
        done = command(
            self.env, "login", self.url, "--ca-file", self.certificate, stdin=self.token + "\n"
        )
        assert done.code == 0, done.err
        assert self.token not in done.out + done.err


@pytest.fixture
def elsewhere(
    request: pytest.FixtureRequest, tmp_path: Path, certificate: tuple[str, str]
) -> Iterator[Elsewhere]:
    port = free_port()
    network = TcpProxy("127.0.0.1", port)
    extra = {
        "CRUSH_TLS_CERTIFICATE": certificate[0],
        "CRUSH_TLS_KEY": certificate[1],
        "CRUSH_PUBLIC_URL": f"https://localhost:{port}",
        "CRUSH_SERVER_DETACH_GRACE": "1",
    }
    env = server_environment(tmp_path / "there", tmp_path / "there" / "data", extra)
    token = command(env, "token", "create", "laptop").out.strip()
    assert token.startswith("crush_")
    server = manage(
        "serve", ["serve", "--host", f"tcp://127.0.0.1:{port}"], env=env, log=tmp_path / "serve.log"
    )
    server.start()
    server.wait_for_line("Serving", 90)
    here = server_environment(tmp_path / "here", tmp_path / "here" / "data", {})
    yield Elsewhere(
        server,
        f"https://localhost:{network.port}",
        f"https://localhost:{port}",
        network,
        token,
        env,
        here,
        certificate[0],
    )
    network.close()
    server.stop()


Start = Callable[..., tuple[Process, str]]


@pytest.fixture
def start_bridge(elsewhere: Elsewhere, tmp_path: Path) -> Iterator[Start]:
    """`start_bridge()`: a running bridge and the address of its socket file."""
    started: list[Process] = []
    # Not under pytest's folders: a socket's address holds about a hundred bytes.
    with tempfile.TemporaryDirectory() as folder:

        def start() -> tuple[Process, str]:
            host = f"unix://{folder}/b{len(started)}.sock"
            arguments = ["bridge", "--server", elsewhere.url, "--host", host]
            bridge = manage("bridge", arguments, env=elsewhere.env, log=tmp_path / "bridge.log")
            started.append(bridge)
            bridge.start()
            bridge.wait_for_line("Forwarding", 60)
            return bridge, host

        yield start
        for bridge in started:
            if bridge.alive:
                assert bridge.stop() == 0


Clients = Callable[..., Client]


@pytest_asyncio.fixture
async def clients() -> AsyncIterator[Clients]:
    made: list[Client] = []

    def make(url: str, **options: Any) -> Client:
        made.append(Client(url, **options))
        return made[-1]

    yield make
    for client in made:
        await client.close()
