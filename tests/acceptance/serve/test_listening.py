"""Where the server listens, and where it refuses to."""

import json
import re
import socket
import stat
import uuid
from pathlib import Path

import pytest

from tests.acceptance.harness.ports import free_port
from tests.acceptance.harness.wire import Wire
from tests.acceptance.serve.starting import Serve, refused_to_start


@pytest.mark.parametrize(
    "host",
    [
        "tcp://0.0.0.0:{port}",
        "tcp://127.0.0.1.example.com:{port}",
    ],
)
def test_it_refuses_to_listen_where_others_could_reach_it(serve: Serve, host: str) -> None:
    log = refused_to_start(serve("--host", host.format(port=free_port())))
    assert "loopback" in log
    assert "127.0.0.1" in log  # what to do instead


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:80",
        "tcp://127.0.0.1:x",
        "unix://relative",
        "unix:///no/such/folder/x.sock",
    ],
)
def test_it_reports_a_wrong_address_with_the_reason(serve: Serve, host: str) -> None:
    refused_to_start(serve("--host", host))


def test_a_port_in_use_is_reported(serve: Serve) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        host = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        assert "in use" in refused_to_start(serve("--host", host))


def test_port_zero_takes_a_free_port_and_prints_it(serve: Serve, tmp_path: Path) -> None:
    process = serve("--host", "tcp://127.0.0.1:0")
    line = process.wait_for_line("Serving", 60)
    found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
    assert found is not None
    assert int(found[1]) > 0
    facts = json.loads((tmp_path / "data" / "server.json").read_text())
    assert facts["url"] == found[0]
    assert facts["pid"] == process.pid
    assert process.stop() == 0
    assert not (tmp_path / "data" / "server.json").exists()


async def test_a_unix_socket_is_private_to_its_user_and_has_its_own_name(
    serve: Serve, tmp_path: Path
) -> None:
    path = tmp_path / "s.sock"
    process = serve("--host", f"unix://{path}")
    process.wait_for_line("Serving", 60)
    assert stat.S_ISSOCK(path.stat().st_mode)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for name in ("api.crush.localhost", "localhost"):
        async with Wire(f"unix://{path}") as wire:
            reply = await wire.request("GET", "/v1/version", headers={"Host": name})
            assert reply.status == 200
    async with Wire(f"unix://{path}") as wire:
        reply = await wire.request("GET", "/v1/version", headers={"Host": "evil.example"})
        assert reply.status == 403
    body = json.dumps({"path": str(tmp_path), "client_id": str(uuid.uuid4())}).encode()
    async with Wire(f"unix://{path}") as wire:
        name = {"Host": "api.crush.localhost"}
        reply = await wire.request("POST", "/v1/workspaces", headers=name, body=body)
        assert reply.status == 200
    # Another server does not take the socket away, nor is it shut out by a stale one.
    log = refused_to_start(serve("--host", f"unix://{path}", data="other"))
    assert "in use" in log
    process.kill9()
    assert path.exists()
    again = serve("--host", f"unix://{path}")
    again.wait_for_line("Serving", 60)
    assert again.stop() == 0
    assert not path.exists()


def test_a_file_in_the_place_of_the_socket_is_left_alone(serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "precious"
    path.write_text("mine")
    refused_to_start(serve("--host", f"unix://{path}"))
    assert path.read_text() == "mine"
