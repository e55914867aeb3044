"""Who is at the other end of a connection, as the kernel of this machine says."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from crushsite.asgi.peer import is_loopback, listed, peer_of_socket, peer_of_tcp

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks Linux")

CONNECT = """
import encodings.idna, os, socket, sys
kind, address, uid = sys.argv[1:]
if int(uid):
    os.setuid(int(uid))
if kind == "unix":
    client = socket.socket(socket.AF_UNIX)
    client.connect(address)
else:
    client = socket.create_connection((kind, int(address)))
print("connected", flush=True)
sys.stdin.read()
"""


@contextmanager
def connected(kind: str, address: str, *, uid: int = 0) -> Iterator[subprocess.Popen[bytes]]:
    """A process that connects and stays connected."""
    arguments = [sys.executable, "-c", CONNECT, kind, address, str(uid)]
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/"
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"connected\n"
            yield process
        finally:
            process.kill()


@contextmanager
def accepted(host: str, *, uid: int = 0) -> Iterator[tuple[socket.socket, int]]:
    """Our end of a TCP connection, and the pid at the other end."""
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server((host, 0), family=family_of(host)))
        port = str(listening.getsockname()[1])
        process = stack.enter_context(connected(host, port, uid=uid))
        ours = stack.enter_context(listening.accept()[0])
        yield ours, process.pid


def family_of(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_tcp_has_the_users_number_and_the_sockets_inode(host: str) -> None:
    with accepted(host) as (ours, pid):
        peer = peer_of_socket(ours)
        assert peer is not None
        assert peer.uid == os.geteuid()
        files = [str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()]
        assert f"socket:[{peer.inode}]" in files


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_list_of_connections_has_the_same(host: str) -> None:
    with accepted(host) as (ours, _):
        peer = peer_of_socket(ours)
        assert peer is not None
        theirs, mine = ours.getpeername(), ours.getsockname()
        assert listed(theirs, mine) == (peer.uid, peer.inode)
        assert listed((theirs[0], 1), mine) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_tcp_of_another_user() -> None:
    with accepted("127.0.0.1", uid=65534) as (ours, _):
        peer = peer_of_socket(ours)
        assert peer is not None
        assert peer.uid == 65534


def test_a_closed_socket_is_nobodys() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        client = socket.create_connection(listening.getsockname())
        ours, _ = listening.accept()
        with ours:
            client.close()
            assert peer_of_socket(ours) is None


def test_a_connection_that_does_not_exist_is_nobodys() -> None:
    assert peer_of_tcp(("127.0.0.1", 1), ("127.0.0.1", 2)) is None
    assert peer_of_tcp(("192.0.2.1", 1), ("127.0.0.1", 2)) is None


@pytest.mark.parametrize("uid", [0, 65534])
def test_a_unix_socket_has_the_credentials_of_who_connected(tmp_path: Path, uid: int) -> None:
    path = str(tmp_path / "s")
    if uid and os.geteuid() != 0:
        pytest.skip("only root can become another user")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        for folder in (tmp_path, *tmp_path.parents):
            if folder.stat().st_uid == os.geteuid() and folder != Path("/"):
                folder.chmod(folder.stat().st_mode | 0o011)
        Path(path).chmod(0o777)
        with connected("unix", path, uid=uid) as process, listening.accept()[0] as ours:
            peer = peer_of_socket(ours)
            assert peer is not None
            assert peer.uid == (uid or os.geteuid())
            assert peer.pid == process.pid


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("192.0.2.1", False),
        ("::ffff:192.0.2.1", False),
        ("fe80::1%eth0", False),
        ("localhost", False),
        ("", False),
        (None, False),
    ],
)
def test_loopback(host: object, expected: bool) -> None:
    assert is_loopback(host) is expected
