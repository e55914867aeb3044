"""Whether a connection comes from a process below the server."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from crushsite.asgi.peer import Peer, peer_of_socket
from crushsite.asgi.tool_processes import descendants, is_tool, supervisors

ROOT = Path(__file__).parents[3]

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="keeps commands on Linux alone")

# Connects, then does what is asked, and prints the pid that is connected in the end.
CLIENT = """
import os, socket, sys, time
kind, address, how = sys.argv[1:]

def connect():
    if kind == "unix":
        client = socket.socket(socket.AF_UNIX)
        client.connect(address)
    else:
        client = socket.create_connection(("127.0.0.1", int(address)))
    return client

if how == "daemon":
    if os.fork():
        time.sleep(60)
    os.setsid()
    client = connect()
elif how == "inherited":
    client = connect()
    if os.fork():
        time.sleep(60)
else:
    client = connect()
print(os.getpid(), flush=True)
time.sleep(60)
"""


@contextmanager
def client(kind: str, address: str, how: str = "") -> Iterator[int]:
    """A process below this one that is connected."""
    arguments = [sys.executable, "-c", CLIENT, kind, address, how]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        try:
            yield pid
        finally:
            for each in descendants([process.pid]) | {process.pid}:
                os.kill(each, 9)


@contextmanager
def listening(kind: str, folder: Path) -> Iterator[tuple[socket.socket, str]]:
    if kind == "tcp":
        with socket.create_server(("127.0.0.1", 0)) as server:
            yield server, str(server.getsockname()[1])
    else:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(folder / "s"))
            server.listen()
            yield server, str(folder / "s")


@pytest.mark.parametrize("kind", ["tcp", "unix"])
@pytest.mark.parametrize("how", ["", "daemon", "inherited"])
def test_a_process_below_the_server_is_a_tool(kind: str, how: str, tmp_path: Path) -> None:
    with (
        listening(kind, tmp_path) as (server, address),
        client(kind, address, how),
        server.accept()[0] as ours,
    ):
        peer = peer_of_socket(ours)
        assert peer is not None
        assert is_tool(peer, [os.getpid()], tmp_path)


@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_a_process_elsewhere_is_none(kind: str, tmp_path: Path) -> None:
    with (
        listening(kind, tmp_path) as (server, address),
        client(kind, address),
        server.accept()[0] as ours,
        subprocess.Popen(["/bin/sleep", "60"]) as another_server,
    ):
        peer = peer_of_socket(ours)
        assert peer is not None
        assert not is_tool(peer, [another_server.pid], tmp_path)
        another_server.kill()


@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_the_server_itself_is_none(kind: str, tmp_path: Path) -> None:
    with listening(kind, tmp_path) as (server, address):
        mine = socket.socket(socket.AF_UNIX if kind == "unix" else socket.AF_INET)
        with mine:
            mine.connect(address if kind == "unix" else ("127.0.0.1", int(address)))
            with server.accept()[0] as ours:
                peer = peer_of_socket(ours)
                assert peer is not None
                assert not is_tool(peer, [os.getpid()], tmp_path)


@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_a_process_that_has_ended_counts_as_a_tool(kind: str, tmp_path: Path) -> None:
    """Its parents cannot be found any more."""
    with (
        listening(kind, tmp_path) as (server, address),
        client(kind, address) as pid,
        server.accept()[0] as ours,
    ):
        peer = peer_of_socket(ours)
        assert peer is not None
        os.kill(pid, 9)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert is_tool(peer, [], tmp_path)


def test_a_process_of_an_outer_namespace_is_none(tmp_path: Path) -> None:
    assert not is_tool(Peer(0, pid=0), [os.getpid()], tmp_path)


# A server that starts a command, lets it outlive the server, and ends.
STARTER = """
import asyncio, os, sys
from pathlib import Path
from agents.tools.shell.kept import KeepOrder, create
from agents.tools.shell.process import SUPERVISOR, Process
folder, *argv = sys.argv[1:]

async def main():
    SUPERVISOR.folder = folder
    source, output = os.pipe()
    null = os.open("/dev/null", os.O_RDWR)
    command = await Process.start(
        argv, cwd=Path("/"), env={}, stdin=null, stdout=output, stderr=null, is_limited=False
    )
    waiting = asyncio.create_task(command.wait())
    order = KeepOrder(os.urandom(16).hex(), "mark", 600)
    assert await command.keep(order, source=source, file=create(folder + "/kept"))
    os._exit(0)

asyncio.run(main())
"""


@contextmanager
def kept_client(folder: Path, *command: str) -> Iterator[None]:
    """A command of a server on the folder, which has ended."""
    try:
        starter = [sys.executable, "-c", STARTER, str(folder), sys.executable, *command]
        subprocess.run(starter, cwd=ROOT, check=True)
        yield
    finally:
        (folder / "kept").unlink()  # ends the command
        deadline = time.monotonic() + 30
        while supervisors(folder) and time.monotonic() < deadline:
            time.sleep(0.02)


@linux_only
@pytest.mark.parametrize("kind", ["tcp", "unix"])
@pytest.mark.parametrize("how", ["", "daemon", "inherited", "disguised"])
def test_a_command_that_has_outlived_its_server_is_a_tool(
    kind: str, how: str, tmp_path: Path
) -> None:
    data, other = tmp_path / "data", tmp_path / "other"
    data.mkdir()
    other.mkdir()
    (tmp_path / "alias").symlink_to(data)
    with listening(kind, tmp_path) as (server, address):
        command = ["-c", CLIENT, kind, address, how]
        if how == "disguised":
            command = ["-I", "-S", str(disguise(tmp_path)), kind, address, str(data)]
        with kept_client(data, *command), server.accept()[0] as ours:
            peer = peer_of_socket(ours)
            assert peer is not None
            assert is_tool(peer, [], data)
            assert is_tool(peer, [], tmp_path / "alias")
            assert is_tool(peer, [], tmp_path / "moved")
            assert not is_tool(peer, [], other)
    assert supervisors(data) == set()


@linux_only
def test_who_looks_like_a_supervisor_gains_nothing(tmp_path: Path) -> None:
    with listening("unix", tmp_path) as (server, address):
        command = ["-I", "-S", str(disguise(tmp_path)), "unix", address, str(tmp_path)]
        with subprocess.Popen([sys.executable, *command]) as process, server.accept()[0] as ours:
            peer = peer_of_socket(ours)
            assert peer is not None
            assert supervisors(tmp_path) == {process.pid}
            assert is_tool(peer, [os.getpid()], tmp_path)
            process.kill()


def disguise(folder: Path) -> Path:
    """The client in a file that is called like the supervisor's script."""
    script = folder / "agents/tools/shell/supervise.py"
    script.parent.mkdir(parents=True)
    script.write_text(CLIENT)
    return script


# A server without root's rights, connected to itself, with a child of root.
HIDDEN_CHILD = """
import os, socket, time
from pathlib import Path
from crushsite.asgi.peer import peer_of_socket
from crushsite.asgi.tool_processes import is_tool
server = socket.create_server(("127.0.0.1", 0))
client = socket.socket()
client.connect(server.getsockname())
ours, _ = server.accept()
child = os.fork()
if child == 0:
    time.sleep(60)
os.setuid(65534)
print(is_tool(peer_of_socket(ours), [os.getpid()], Path()), child, flush=True)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of other users")
def test_a_process_that_cannot_be_examined_counts_as_a_tool() -> None:
    arguments = [sys.executable, "-c", HIDDEN_CHILD]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        found, child = process.stdout.readline().split()
        os.kill(int(child), 9)
        assert found == b"True"
