"""Servers that other machines can reach: with certificates of their own, or behind nginx."""

import asyncio
import datetime
import re
import shutil
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.acceptance.conversation import SHORT
from tests.acceptance.harness.commands import command
from tests.acceptance.harness.environment import ROOT, server_environment
from tests.acceptance.harness.ports import free_port
from tests.acceptance.harness.processes import Process
from tests.acceptance.serve.starting import refused_to_start

Serve = Callable[..., Process]
MakeProject = Callable[..., Path]
PUBLIC = "crush.example.com"
TOKEN = "crush_" + "k" * 40


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The paths of a certificate for the public name, signed by itself, and of its key."""
    folder = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, PUBLIC)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(PUBLIC)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return str(folder / "cert.pem"), str(folder / "key.pem")


@pytest.fixture
def token_file(tmp_path: Path) -> str:
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    return str(file)


class Remote:
    """A client that calls the server by its public name, and trusts its certificate."""

    def __init__(self, port: int, certificate: str, **headers: str) -> None:
        self.base = f"https://{PUBLIC}:{port}"
        context = ssl.create_default_context(cafile=certificate)
        self._sockets: list[socket.socket] = []
        connector = aiohttp.TCPConnector(
            ssl=context, resolver=Loopback(), socket_factory=self._new_socket
        )
        self.http = aiohttp.ClientSession(connector=connector, headers=headers)

    def _new_socket(self, address: Any) -> socket.socket:
        self._sockets.append(socket.socket(*address[:3]))
        self._sockets[-1].setblocking(False)
        return self._sockets[-1]

    async def close(self) -> None:
        """Returns when all sockets are closed: TLS ends with messages of its own."""
        await self.http.close()
        async with asyncio.timeout(60):
            while any(one.fileno() != -1 for one in self._sockets):
                await asyncio.sleep(0.01)

    async def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        async with self.http.request(
            method, self.base + path, json=body, headers=headers
        ) as answer:
            text = await answer.text()
            return answer.status, text


class Loopback(aiohttp.abc.AbstractResolver):
    async def resolve(self, host: str, port: int = 0, family: Any = 0) -> Any:
        return [
            {"hostname": host, "host": "127.0.0.1", "port": port}
            | {"family": 2, "proto": 0, "flags": 0}
        ]

    async def close(self) -> None:
        """Nothing is open."""


Connect = Callable[..., Remote]


@pytest_asyncio.fixture
async def remote(certificate: tuple[str, str]) -> AsyncIterator[Connect]:
    made: list[Remote] = []

    def make(port: int, **headers: str) -> Remote:
        made.append(Remote(port, certificate[0], **headers))
        return made[-1]

    yield make
    for each in made:
        await each.close()


def test_another_address_needs_encryption(serve: Serve) -> None:
    log = refused_to_start(serve("--host", "tcp://0.0.0.0:0"))
    assert "CRUSH_TLS_CERTIFICATE" in log


def test_encryption_alone_is_not_enough(serve: Serve, certificate: tuple[str, str]) -> None:
    tls = dict(zip(("CRUSH_TLS_CERTIFICATE", "CRUSH_TLS_KEY"), certificate, strict=True))
    log = refused_to_start(serve("--host", "tcp://0.0.0.0:0", **tls))
    assert "no way to sign in" in log


def test_a_wrong_certificate_or_token_is_named(
    serve: Serve, certificate: tuple[str, str], tmp_path: Path
) -> None:
    log = refused_to_start(serve(CRUSH_TLS_CERTIFICATE=certificate[1], data="a"))
    assert "CRUSH_TLS_KEY must name PEM files" in log
    short = tmp_path / "short"
    short.write_text("crush_short")
    log = refused_to_start(serve(CRUSH_ADMIN_TOKEN_FILE=str(short), data="b"))
    assert "at least 32 random characters" in log
    assert "crush_short" not in log
    log = refused_to_start(serve(CRUSH_PUBLIC_URL="crush.example.com", data="c"))
    assert "https://crush.example.com" in log


async def test_certificates_and_a_token_open_it(
    serve: Serve, certificate: tuple[str, str], token_file: str, remote: Connect, tmp_path: Path
) -> None:
    port = free_port()
    env = {
        "CRUSH_TLS_CERTIFICATE": certificate[0],
        "CRUSH_TLS_KEY": certificate[1],
        "CRUSH_PUBLIC_URL": f"https://{PUBLIC}:{port}",
        "CRUSH_ADMIN_TOKEN_FILE": token_file,
    }
    process = serve("--host", f"tcp://0.0.0.0:{port}", **env)
    await asyncio.to_thread(process.wait_for_line, "To sign in", 60)
    assert TOKEN not in process.log_text()
    assert f"https://{PUBLIC}:{port}/sign-in" in process.log_text()
    assert (await remote(port).call("GET", "/v1/workspaces"))[0] == 401
    signed_in = remote(port, Authorization=f"Bearer {TOKEN}")
    assert await signed_in.call("GET", "/v1/workspaces") == (200, "[]")
    status, _ = await signed_in.call("GET", "/v1/workspaces", Host="evil.example")
    assert status == 403
    # Commands of this machine find the server, too.
    found = server_environment(tmp_path / "home", tmp_path / "data", env)
    done = await asyncio.to_thread(command, found, "login-link")
    assert done.out.startswith(f"https://{PUBLIC}:{port}/sign-in/link/?key="), done


# -- behind nginx, with the configuration that the documentation shows

nginx_only = pytest.mark.skipif(
    shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/bin") is None,
    reason="nginx is not installed",
)


def documented() -> str:
    page = (ROOT / "docs" / "access.md").read_text()
    found = re.search("```nginx\n(.*?)```", page, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture
def nginx(tmp_path: Path, certificate: tuple[str, str]) -> Iterator[Callable[[int, int], Process]]:
    """`nginx(port, upstream)`: started with the documented configuration on other ports."""
    started: list[Process] = []

    def start(port: int, upstream: int) -> Process:
        site = (
            documented()
            .replace("listen 443", f"listen 127.0.0.1:{port}")
            .replace("127.0.0.1:22787", f"127.0.0.1:{upstream}")
            .replace("/etc/crush/fullchain.pem", certificate[0])
            .replace("/etc/crush/key.pem", certificate[1])
        )
        folder = tmp_path / "nginx"
        folder.mkdir()
        paths = "".join(
            f"{name}_temp_path {folder}/{name};"
            for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        file = folder / "nginx.conf"
        file.write_text(
            f"pid {folder}/pid; daemon off; worker_processes 1; error_log stderr warn;\n"
            f"events {{}}\nhttp {{ access_log off; {paths}\n{site}\n}}\n"
        )
        process = Process(
            "nginx",
            ["/usr/sbin/nginx", "-p", str(folder), "-c", str(file)],
            env={"PATH": "/usr/sbin:/usr/bin:/bin"},
            cwd=folder,
            log=folder / "log",
        )
        process.start()
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill9()


@nginx_only
async def test_streams_and_sockets_work_through_nginx(
    serve: Serve,
    nginx: Callable[[int, int], Process],
    remote: Connect,
    token_file: str,
    project: MakeProject,
) -> None:
    port, upstream = free_port(), free_port()
    public = f"https://{PUBLIC}:{port}"
    env = {
        "CRUSH_PUBLIC_URL": public,
        "CRUSH_ADMIN_TOKEN_FILE": token_file,
        "CRUSH_TRUST": "all",
    }
    process = serve("--host", f"tcp://127.0.0.1:{upstream}", **env)
    await asyncio.to_thread(process.wait_for_line, "To sign in", 60)
    nginx(port, upstream)
    nobody = remote(port)
    async with asyncio.timeout(60):
        while True:
            try:
                assert (await nobody.call("GET", "/v1/health"))[0] == 200
                break
            except aiohttp.ClientConnectorError:
                await asyncio.sleep(0.05)
    assert (await nobody.call("GET", "/v1/workspaces"))[0] == 401
    # Also directly: with a proxy declared, a connection says nothing about who is behind it.
    directly = f"http://127.0.0.1:{upstream}/v1/workspaces"
    async with aiohttp.ClientSession() as http, http.get(directly) as answer:
        assert answer.status == 401

    client = remote(port, Authorization=f"Bearer {TOKEN}", Origin=public)
    opening = {"path": str(project()), "client_id": "0b8d6c4e-7a35-4e67-9a6b-0f9c1f9a7d11"}
    status, text = await client.call("POST", "/v1/workspaces", opening)
    assert status == 200, text
    base = "/v1/workspaces/" + re.findall(r'"id":"([^"]+)"', text)[-1]
    native = base.replace("/v1/", "/api/", 1)
    async with (
        client.http.ws_connect(f"{public}{native}/stream") as websocket,
        client.http.get(f"{public}{native}/events") as sse,
    ):
        assert sse.status == 200
        status, text = await client.call("POST", f"{base}/sessions", {"title": "x"})
        session = re.findall(r'"id":"([^"]+)"', text)[0]
        prompt = {"id": 1, "command": "prompt", "session_id": session, "text": SHORT}
        await client.call("POST", f"{base}/agent/init")
        await websocket.send_json(prompt)
        async with asyncio.timeout(60):
            received = ""
            while "run.finished" not in received:
                received += await websocket.receive_str()
            streamed = b""
            while b"run.finished" not in streamed:
                streamed += await sse.content.readany()
    for origin in ("https://evil.example", f"http://{PUBLIC}:{port}", "null"):
        status, _ = await client.call("GET", "/v1/workspaces", Origin=origin)
        assert status == 403, origin
