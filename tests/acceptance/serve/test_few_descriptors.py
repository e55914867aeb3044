"""A server that runs out of file descriptors says so in a line, and recovers."""

import asyncio
import socket
import sys
from contextlib import ExitStack
from pathlib import Path

from aiohttp import ClientError

from tests.acceptance.calling import until
from tests.acceptance.harness.environment import ROOT, server_environment
from tests.acceptance.harness.http import Http, UnexpectedStatus
from tests.acceptance.harness.ports import free_port
from tests.acceptance.harness.processes import Process

LIMIT = 60
CONNECTIONS = 150


async def test_it_recovers_and_its_log_stays_readable(tmp_path: Path) -> None:
    port = free_port()
    serve = [sys.executable, "manage.py", "serve", "--host", f"tcp://127.0.0.1:{port}"]
    process = Process(
        "serve",
        ["sh", "-c", f'ulimit -n {LIMIT} && exec "$@"', "sh", *serve],
        env=server_environment(tmp_path / "home", tmp_path / "data", {}),
        cwd=ROOT,
        log=tmp_path / "serve.log",
    )
    process.start()
    try:
        await asyncio.to_thread(process.wait_for_line, "Serving", 60)
        with ExitStack() as stack:
            for _ in range(CONNECTIONS):
                connection = socket.create_connection(("127.0.0.1", port), 60)
                stack.enter_context(connection)
                connection.sendall(b"GET /v1/workspaces HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await asyncio.sleep(1)  # it cannot accept more than a part of them

        async def answers() -> bool:
            async with Http(f"http://127.0.0.1:{port}") as http:
                try:
                    return isinstance(await http.call("GET", "/v1/workspaces"), list)
                except (UnexpectedStatus, ClientError):
                    return False

        assert await until(answers, "it answers again")
        assert process.stop() == 0
    finally:
        process.kill9()
    text = process.log_text()
    for unwanted in ("never retrieved", "Logging error", "not formatted", "Traceback"):
        assert unwanted not in text, text
