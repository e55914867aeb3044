"""A server of either shape starts, answers, stops, and comes back where it was."""

import asyncio
from collections.abc import Callable

import psutil

from tests.acceptance.harness.client import Client
from tests.acceptance.harness.shapes import Server

Connect = Callable[[Server], Client]


async def test_it_answers_health(server: Server, connect: Connect) -> None:
    assert await connect(server).http.call("GET", "/v1/health") is None


async def test_it_ends_with_zero_on_sigterm(server: Server, connect: Connect) -> None:
    await connect(server).http.call("GET", "/v1/health")
    await asyncio.to_thread(server.stop)
    assert server.pids() == []


async def test_it_listens_on_its_port_again_after_a_kill(server: Server, connect: Connect) -> None:
    await asyncio.to_thread(server.kill9)
    await asyncio.to_thread(server.restart)
    assert await connect(server).http.call("GET", "/v1/health") is None


def test_it_leaves_no_process_behind(server: Server) -> None:
    family = [psutil.Process(pid) for pid in server.pids()]
    family += [child for parent in family for child in parent.children(recursive=True)]
    server.stop()
    # Its children end behind it: the kernel takes a moment for each.
    psutil.wait_procs(family, timeout=60)
    assert [process for process in family if process.is_running()] == []
