"""MCP servers of the tests' own: on stdio by configuration, distant ones as processes on loopback."""

import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.acceptance.calling import until
from tests.acceptance.conversation import Seat
from tests.acceptance.harness.environment import ROOT
from tests.acceptance.harness.ports import free_port
from tests.acceptance.harness.processes import Process

DOUBLE = str(ROOT / "tests/doubles/mcp_server.py")
# The default of 15 s is meant for people; a busy machine may take longer to start Python.
START_SECONDS = 100


def on_stdio(*args: str, **more: Any) -> dict[str, Any]:
    """A server of `crush.json`."""
    command = {"type": "stdio", "command": sys.executable, "args": [DOUBLE, *args]}
    return {**command, "timeout": START_SECONDS, **more}


class Distant:
    """A server on a port of its own, through any number of starts."""

    def __init__(
        self,
        kind: str,
        folder: Path,
        *args: str,
        script: str = DOUBLE,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}{'/sse' if kind == 'sse' else '/mcp'}"
        self.kind = kind
        flag = {"http": "--http", "sse": "--sse", "oauth": "--port"}[kind]
        self.process = Process(
            f"mcp {kind}",
            [sys.executable, "-m", *_module(script), flag, str(self.port), *args],
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), **(env or {})},
            cwd=ROOT,
            log=folder / f"mcp-{kind}-{self.port}.log",
        )

    @property
    def entry(self) -> dict[str, Any]:
        kind = "sse" if self.kind == "sse" else "http"
        return {"type": kind, "url": self.url, "timeout": START_SECONDS}

    def start(self) -> None:
        self.process.start()
        deadline = time.monotonic() + 60
        while not self._answers():
            if time.monotonic() > deadline or not self.process.alive:
                raise self.process.failure("does not listen")
            time.sleep(0.05)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/nothing", timeout=10):
                return True
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False

    def kill9(self) -> None:
        self.process.kill9()


def _module(script: str) -> list[str]:
    return [".".join(Path(script).resolve().relative_to(ROOT).with_suffix("").parts)]


async def until_state(
    seat: Seat,
    name: str,
    state: str,
    *,
    start: int | None = None,
    timeout: float = START_SECONDS + 20,
) -> dict[str, Any]:
    """The state that clients see then. With `start`, by an `mcp_event` from there on."""

    async def shown_state() -> dict[str, Any] | None:
        # A stream that is opened late has missed the first events; then the state tells.
        for event in seat.stream.events[start or 0 :]:
            payload = event.payload
            if event.type == "mcp_event" and (payload["name"], payload["state"]) == (name, state):
                return payload
        if start is None:
            shown = (await states(seat)).get(name, {})
            return shown if shown.get("state") == state else None
        return None

    return dict(await until(shown_state, f"{name} is {state}", timeout))


async def states(seat: Seat) -> dict[str, Any]:
    return dict(await seat.workspace.call("GET", "/mcp/states"))
