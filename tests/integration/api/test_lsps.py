"""What is written and told of language servers, and what dead servers left of them."""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import orjson
import psutil
import pytest

from agents.models import LanguageServer
from agents.runs.tool_servers.language_servers import (
    forget_server,
    language_host,
    lsp_tools,
    record_status,
    settle_left,
)
from agents.tools.lsp.states import LanguageServerStatus, ServerStatus
from agents.tools.shell.identity import new_mark, recorded_start
from tests.integration.api.conftest import Opened
from workspaces.log.reader import read
from workspaces.log.writer import writer
from workspaces.models import Event


@pytest.fixture(autouse=True)
def own_host() -> Iterator[None]:
    language_host.cache_clear()
    yield
    language_host.cache_clear()


async def record(workspace: Opened, status: ServerStatus) -> None:
    await writer.write(workspace.id, lambda tx: record_status(tx, workspace.id, status))


async def told(workspace: Opened) -> list[dict[str, object]]:
    def rows() -> list[dict[str, object]]:
        found = Event.objects.filter(workspace_id=workspace.id, kind="lsp.changed")
        return [orjson.loads(event.payload)["lsp"] for event in found.order_by("number")]

    return await read(rows)


async def test_each_change_is_told_once_and_rows_are_what_was_told(workspace: Opened) -> None:
    starting = ServerStatus("ls", LanguageServerStatus.STARTING)
    ready = ServerStatus(
        "ls", LanguageServerStatus.READY, pid=5, pid_started="x y z", is_connected=True
    )
    counted = replace(ready, is_connected=False, diagnostic_count=3, only_diagnostics=True)
    none_left = replace(counted, diagnostic_count=0)
    failed = ServerStatus("ls", LanguageServerStatus.ERROR, error="It has ended.")
    for status in (starting, starting, ready, counted, counted, none_left, failed):
        await record(workspace, status)
    assert await told(workspace) == [
        {"type": "state_changed", "name": "ls", "state": 1},
        {"type": "state_changed", "name": "ls", "state": 2},
        {"type": "diagnostics_changed", "name": "ls", "state": 2, "diagnostic_count": 3},
        {"type": "diagnostics_changed", "name": "ls", "state": 2, "diagnostic_count": 0},
        {"type": "state_changed", "name": "ls", "state": 3, "error": "It has ended."},
    ]
    assert await workspace.api.get(f"{workspace.url}/lsps") == {
        "ls": {
            "name": "ls",
            "state": 3,
            "error": "It has ended.",
            "diagnostic_count": 0,
            "connected_at": "0001-01-01T00:00:00Z",
        }
    }


async def test_a_server_that_another_process_runs_is_not_made_unstarted(workspace: Opened) -> None:
    ready = ServerStatus(
        "ls", LanguageServerStatus.READY, pid=5, pid_started="x y z", is_connected=True
    )
    await record(workspace, ready)
    await record(workspace, ServerStatus("ls", LanguageServerStatus.UNSTARTED))
    assert (await workspace.api.get(f"{workspace.url}/lsps"))["ls"]["state"] == 2


async def test_one_that_is_configured_no_more_is_forgotten(workspace: Opened) -> None:
    await record(
        workspace, ServerStatus("ls", LanguageServerStatus.READY, pid=5, is_connected=True)
    )
    await writer.write(workspace.id, lambda tx: forget_server(tx, workspace.id, "ls"))
    await writer.write(workspace.id, lambda tx: forget_server(tx, workspace.id, "ls"))
    assert await workspace.api.get(f"{workspace.url}/lsps") == {}
    assert (await told(workspace))[-1] == {"type": "state_changed", "name": "ls", "state": 4}


async def test_what_a_dead_server_left_is_ended(workspace: Opened) -> None:
    mark = new_mark()
    left = subprocess.Popen(
        [sys.executable, "-S", "-c", "import time; time.sleep(600)"],
        env={**os.environ, "CRUSH_PROCESS_MARK": mark},
        start_new_session=True,
    )
    try:
        started = recorded_start(left.pid, mark)
        assert len(started) <= 64
        ready = ServerStatus("ls", LanguageServerStatus.READY, pid=left.pid, pid_started=started)
        await record(workspace, replace(ready, is_connected=True))
        await settle_left()
        assert left.wait(timeout=10) == -signal.SIGKILL
    finally:
        left.kill()
        left.wait()
    assert (await workspace.api.get(f"{workspace.url}/lsps"))["ls"]["state"] == 4
    (row,) = await read(lambda: list(LanguageServer.objects.values_list("pid", "pid_started")))
    assert row == (0, "")


async def test_another_process_with_the_number_is_left_alone(workspace: Opened) -> None:
    innocent = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
    try:
        _, _, host = recorded_start(innocent.pid, new_mark()).split(" ")
        stale = f"another-boot/1 {new_mark()} {host}"
        ready = ServerStatus("ls", LanguageServerStatus.READY, pid=innocent.pid, pid_started=stale)
        await record(workspace, replace(ready, is_connected=True))
        await settle_left()
        assert psutil.pid_exists(innocent.pid)
        assert innocent.poll() is None
    finally:
        innocent.kill()
        innocent.wait()
    assert (await workspace.api.get(f"{workspace.url}/lsps"))["ls"]["state"] == 4


async def test_a_server_of_another_machine_is_left_alone(workspace: Opened) -> None:
    elsewhere = ServerStatus(
        "ls", LanguageServerStatus.READY, pid=5, pid_started=f"b/1 {new_mark()} otherone"
    )
    await record(workspace, replace(elsewhere, is_connected=True))
    await settle_left()
    assert (await workspace.api.get(f"{workspace.url}/lsps"))["ls"]["state"] == 2
    await settle_left(is_alone=True)  # nobody else works on this data
    assert (await workspace.api.get(f"{workspace.url}/lsps"))["ls"]["state"] == 4


async def test_bad_requests_are_refused_in_a_sentence(workspace: Opened) -> None:
    for method, path, body, status, message in (
        ("GET", "/lsps/none/diagnostics", None, 404, "language server not found"),
        ("POST", "/lsps/start", {}, 400, "path is required"),
        ("POST", "/lsps/start", {"path": ""}, 400, "path: must not be empty"),
        ("POST", "/lsps/start", {"path": ["x"]}, 400, "path: must be a string"),
    ):
        answer = await workspace.api.call(method, workspace.url + path, body)
        assert (answer.status, answer.message) == (status, message)
    for method, path in (("GET", "/lsps"), ("POST", "/lsps/stop"), ("GET", "/lsps/x/diagnostics")):
        answer = await workspace.api.call(method, f"/v1/workspaces/unknown{path}")
        assert (answer.status, answer.message) == (404, "workspace not found")


async def test_starting_and_stopping_answer_with_nothing(workspace: Opened) -> None:
    for path, body in (("/lsps/start", {"path": "a.py"}), ("/lsps/stop", None)):
        answer = await workspace.api.call("POST", workspace.url + path, body)
        assert (answer.status, answer.body) == (200, b"")
    await language_host().stop()


async def test_a_workspace_that_has_closed_meanwhile_brings_no_tools_and_no_fault(
    workspace: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    await workspace.api.call("DELETE", f"{workspace.url}?client_id={workspace.client_id}")

    assert await lsp_tools(workspace.id) == {}

    assert not [record for record in caplog.records if record.levelno > logging.INFO]
