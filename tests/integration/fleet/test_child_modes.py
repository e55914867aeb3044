"""A child's life: its modes, its record, its exit codes, and who ends it."""

import asyncio
import json
import os
import signal
import socket
import sys
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from tests.integration.fleet.children import (
    ROOT,
    ChildProcess,
    dialled,
    died,
    document,
    is_alive,
    kill,
)
from tests.integration.fleet.conftest import StartChild


def connect(endpoint: str) -> socket.socket:
    at = urlsplit(endpoint)
    return socket.create_connection((at.hostname, at.port), timeout=60)


# -- once


async def test_a_child_for_one_connection_serves_many_runs_and_ends_with_it(
    start_child: StartChild,
) -> None:
    child = start_child()
    async with dialled(await child.endpoint()) as parent:
        for word in ("one", "two", "three"):
            assert (await parent.outcome(word))["result"] == f"echo: {word}"
    assert await child.ended() == 0
    assert not child.record_path.exists()
    assert child.said() == ""


async def test_a_child_that_nobody_dials_gives_up(start_child: StartChild) -> None:
    child = start_child(arguments=("--accept-timeout", "0.5"))
    await child.record()
    assert await child.ended() == 1
    assert "No parent connected within 0.5 s" in child.said()
    assert not child.record_path.exists()


async def test_a_silent_peer_does_not_outlast_the_wait_for_a_parent(
    start_child: StartChild,
) -> None:
    child = start_child(arguments=("--accept-timeout", "1"))
    silent = connect(await child.endpoint())
    assert await child.ended() == 1
    silent.close()


async def test_a_silent_peer_keeps_no_parent_out(start_child: StartChild) -> None:
    child = start_child()
    endpoint = await child.endpoint()
    silent = [connect(endpoint) for _ in range(20)]
    async with dialled(endpoint) as parent:
        assert (await parent.outcome("here"))["status"] == "completed"
    assert await child.ended() == 0
    for peer in silent:
        peer.close()


async def test_what_is_no_websocket_ends_a_child_for_one_connection(
    start_child: StartChild,
) -> None:
    child = start_child()
    peer = connect(await child.endpoint())
    peer.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert await child.ended() == 1
    assert "The first connection was not a WebSocket" in child.said()
    peer.close()


async def test_a_second_parent_of_a_child_for_one_is_never_answered(
    start_child: StartChild,
) -> None:
    child = start_child()
    endpoint = await child.endpoint()
    async with dialled(endpoint) as parent:
        second = asyncio.create_task(_outcome(endpoint, "second"))
        assert (await parent.outcome("__sleep_ms:300 first"))["result"] == "echo: first"
        assert not second.done()
    assert await child.ended() == 0
    with pytest.raises(Exception, match=r".*"):
        await second


# -- reusable


async def _outcome(endpoint: str, assignment: str) -> str:
    async with dialled(endpoint) as parent:
        return str((await parent.outcome(assignment))["result"])


async def test_a_reusable_child_serves_one_parent_after_another(start_child: StartChild) -> None:
    child = start_child(reusable=True)
    endpoint = await child.endpoint()
    async with dialled(endpoint) as first:
        second = asyncio.create_task(_outcome(endpoint, "second"))
        assert (await first.outcome("__sleep_ms:300 first"))["result"] == "echo: first"
        assert not second.done()
    assert await second == "echo: second"
    assert child.record_path.exists()


async def test_a_reusable_child_ends_when_it_is_idle(start_child: StartChild) -> None:
    child = start_child(reusable=True, limits={"idle_timeout_secs": 1})
    endpoint = await child.endpoint()
    async with dialled(endpoint) as parent:
        # An open connection is never cut, however long nothing is said on it.
        assert (await parent.outcome("__sleep_ms:1500"))["status"] == "completed"
    silent = connect(endpoint)
    assert await child.ended() == 0
    assert not child.record_path.exists()
    silent.close()


async def test_a_silent_peer_blocks_nobody_at_a_reusable_child(start_child: StartChild) -> None:
    endpoint = await start_child(reusable=True).endpoint()
    silent = [connect(endpoint) for _ in range(20)]
    rude = connect(endpoint)
    rude.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert await _outcome(endpoint, "one") == "echo: one"
    assert await _outcome(endpoint, "two") == "echo: two"
    for peer in [*silent, rude]:
        peer.close()


async def test_two_hundred_runs_leave_no_memory_and_no_descriptors(
    start_child: StartChild,
) -> None:
    child = start_child(reusable=True)
    endpoint = await child.endpoint()
    process = psutil.Process(child.pid)

    async def runs(count: int) -> None:
        for number in range(count):
            assert await _outcome(endpoint, f"__stream:20:0 run{number}") == f"echo: run{number}"

    await runs(20)  # warm
    descriptors, memory = process.num_fds(), process.memory_info().rss
    await runs(200)
    # The last connection may be on its way out.
    assert process.num_fds() <= descriptors + 1
    assert process.memory_info().rss - memory < 8 * 1024 * 1024
    assert process.num_threads() <= 4


# -- the record


async def test_the_record_says_where_and_until_when(start_child: StartChild) -> None:
    child = start_child("echo")
    record = await child.record()
    assert list(record)[:5] == ["agent_id", "role", "labels", "endpoint", "pid"]
    assert (record["agent_id"], record["role"], record["labels"]) == ("c1", "tester", [])
    assert record["pid"] == child.pid
    started = datetime.fromisoformat(record["started_at"][:19])
    expires = datetime.fromisoformat(record["lease_expires_at"][:19])
    assert abs(expires - started - timedelta(seconds=60)) <= timedelta(seconds=1)
    assert oct(child.record_path.stat().st_mode)[-3:] == "644"


async def test_a_terminated_child_leaves_its_record(start_child: StartChild) -> None:
    child = start_child(reusable=True)
    async with dialled(await child.endpoint()) as parent:
        await parent.run("__sleep_ms:60000 __stream:100000000:0")
        os.kill(child.pid, signal.SIGTERM)
        assert await child.ended() == -signal.SIGTERM  # a shell says 143
    assert child.record_path.exists()
    assert child.said() == ""


async def test_an_interrupted_child_takes_its_record_with_it(start_child: StartChild) -> None:
    child = start_child(arguments=("--forever",))
    await child.record()
    os.kill(child.pid, signal.SIGINT)
    assert await child.ended() == 130
    assert not child.record_path.exists()


# -- what it is told


@pytest.mark.parametrize(
    "given",
    [
        b"",
        b"not json",
        b"{}",
        b'{"version":1}',
        b"[]",
        b'{"version":1,"identity":{"child_id":"c1"},"executor":{"kind":"echo"},'
        b'"fabric_dir":"/tmp"} {}',
        b" " * (8 * 1024 * 1024 + 1),
    ],
    ids=["nothing", "words", "empty", "half", "list", "two", "too much"],
)
async def test_a_bad_document_ends_it_with_101(tmp_path: Path, given: bytes) -> None:
    child = ChildProcess(tmp_path)
    child.start(given)
    try:
        assert await child.ended() == 101
        assert "Traceback" not in child.said()
        assert list(tmp_path.iterdir()) == []
    finally:
        child.close()


async def test_a_document_of_the_whole_size_is_read(tmp_path: Path) -> None:
    child = ChildProcess(tmp_path)
    data = json.dumps(document(tmp_path, "echo")).encode()
    child.start(data + b" " * (8 * 1024 * 1024 - len(data)))
    try:
        async with dialled(await child.endpoint()) as parent:
            assert (await parent.outcome("hi"))["result"] == "echo: hi"
    finally:
        child.close()


@pytest.mark.parametrize("kind", ["cli_adapter", "claude_code", "codex"])
async def test_another_programs_executor_ends_it_with_2(start_child: StartChild, kind: str) -> None:
    child = start_child("echo")
    child.close()
    child = start_child(kind, executor={"kind": kind, "command": "true", "args": []})
    assert await child.ended() == 2
    assert "Traceback" not in child.said()


async def test_a_fabric_folder_that_cannot_be_written_ends_it(
    start_child: StartChild, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    child = start_child("echo", fabric_dir=str(tmp_path / "file" / "below"))
    assert await child.ended() == 1
    assert "record" in child.said()


async def test_secrets_are_in_no_argument_and_no_output(start_child: StartChild) -> None:
    secrets = {"provider_credentials": [{"provider": "x", "api_key": "sk-hidden-key"}]}
    child = start_child(secrets=secrets)
    async with dialled(await child.endpoint()) as parent:
        assert (await parent.outcome("__fail:no"))["status"] == "error"
        process = psutil.Process(child.pid)
        assert "sk-hidden-key" not in " ".join(process.cmdline())
        assert "sk-hidden-key" not in " ".join(process.environ().values())
        assert "sk-hidden-key" not in child.record_path.read_text()
    assert await child.ended() == 0
    assert "sk-hidden-key" not in child.said()


async def test_it_prints_its_capabilities(tmp_path: Path) -> None:
    child = ChildProcess(tmp_path, arguments=("--print-capabilities",))
    child.start(b"")
    try:
        assert await child.ended() == 0
        assert json.loads(child.said()) == {"provision_version": 2, "capabilities": []}
    finally:
        child.close()


# -- a parent that is killed

# Starts the child in a thread that ends, tells its pid, and stays.
PARENT = """
import subprocess, sys, threading, time
made = []
def start():
    made.append(
        subprocess.Popen(
            sys.argv[2:], stdin=open(sys.argv[1], "rb"), stdout=subprocess.DEVNULL
        )
    )
thread = threading.Thread(target=start)
thread.start()
thread.join()
print(made[0].pid, flush=True)
time.sleep(600)
"""


async def _spawned_by_another(
    tmp_path: Path, *arguments: str
) -> tuple[asyncio.subprocess.Process, int]:
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps(document(tmp_path, reusable=True)))
    parent = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", PARENT, str(spec)),
        *(sys.executable, str(ROOT / "manage.py"), "runchild", *arguments),
        stdout=asyncio.subprocess.PIPE,
    )
    assert parent.stdout is not None
    return parent, int(await parent.stdout.readline())


async def test_a_child_ends_with_its_parent_killed(tmp_path: Path) -> None:
    parent, pid = await _spawned_by_another(tmp_path)
    try:
        record = tmp_path / "c1.json"
        async with asyncio.timeout(60):
            while not record.exists():
                await asyncio.sleep(0.02)
        # The thread that started it has long ended; that alone is no reason to go.
        async with dialled(json.loads(record.read_text())["endpoint"]) as driver:
            await driver.run("__stream:100000000:1")
            await driver.frame()
            parent.kill()
            assert await died(pid)
        assert not record.exists()
    finally:
        kill(pid)
        if parent.returncode is None:
            parent.kill()
        await parent.wait()


async def test_a_detached_child_outlives_its_parent(tmp_path: Path) -> None:
    parent, pid = await _spawned_by_another(tmp_path, "--detached")
    try:
        record = tmp_path / "c1.json"
        async with asyncio.timeout(60):
            while not record.exists():
                await asyncio.sleep(0.02)
        parent.kill()
        await parent.wait()
        assert (
            await _outcome(json.loads(record.read_text())["endpoint"], "__sleep_ms:800") == "echo: "
        )
        assert is_alive(pid)
    finally:
        kill(pid)
        if parent.returncode is None:
            parent.kill()
        await parent.wait()
        await died(pid)


async def test_a_killed_child_leaves_a_record_whose_lease_runs_out(
    start_child: StartChild,
) -> None:
    child = start_child()
    async with dialled(await child.endpoint()) as parent:
        await parent.run("__stream:100000000:1")
        await parent.frame()
        os.kill(child.pid, signal.SIGKILL)
        message = await parent.socket.receive(timeout=60)
        while message.type.name == "TEXT":
            message = await parent.socket.receive(timeout=60)
        assert message.type.name in {"CLOSED", "ERROR", "CLOSE", "CLOSING"}
    assert child.record_path.exists()
