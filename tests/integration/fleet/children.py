"""Real child processes, and a parent to drive them that shares no code with ours.

The parent's end is aiohttp's, or a bare socket; the child's is built on another library.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

ROOT = Path(__file__).resolve().parents[3]
SECONDS = 60.0  # nothing here takes so long
LARGEST = 64 * 1024 * 1024

Json = dict[str, Any]


@dataclass
class ChildProcess:
    fabric: Path
    id: str = "c1"
    arguments: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = None
    env: dict[str, str] = field(default_factory=dict)

    def start(self, document: Json | bytes, *, through: list[str] | None = None) -> None:
        """``through``: a command that runs the child's command."""
        command = [sys.executable, str(ROOT / "manage.py"), "runchild", *self.arguments]
        self.process = subprocess.Popen(
            [*(through or ()), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **self.env},
            cwd=self.fabric,
        )
        data = document if isinstance(document, bytes) else json.dumps(document).encode()
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(data)
            self.process.stdin.close()

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def record_path(self) -> Path:
        return self.fabric / f"{self.id}.json"

    async def record(self) -> Json:
        """The child's record, once it is there."""
        assert self.process is not None
        async with asyncio.timeout(SECONDS):
            while not self.record_path.exists():
                assert self.process.poll() is None, self.said()
                await asyncio.sleep(0.01)
        return json.loads(self.record_path.read_bytes())

    async def endpoint(self) -> str:
        return str((await self.record())["endpoint"])

    async def ended(self, seconds: float = SECONDS) -> int:
        """Its exit code."""
        assert self.process is not None
        return await asyncio.to_thread(self.process.wait, seconds)

    def said(self) -> str:
        """Everything it printed, after its end."""
        assert self.process is not None
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.process.wait(SECONDS)
        return (self.process.stdout.read() + self.process.stderr.read()).decode()

    def close(self) -> None:
        if self.process is not None:
            if self.process.poll() is None:
                self.process.kill()
            self.process.wait(SECONDS)
            for pipe in (self.process.stdout, self.process.stderr):
                if pipe is not None:
                    pipe.close()


def document(fabric: Path, kind: str = "script", **more: Any) -> Json:
    return {
        "version": 1,
        "identity": {"child_id": "c1", "parent_id": "p1", "role": "tester", "depth": 1},
        "executor": {"kind": kind},
        "fabric_dir": str(fabric),
        **more,
    }


class Parent:
    """One connection to a child."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket

    async def send(self, frame: Json | str) -> None:
        await self.socket.send_str(frame if isinstance(frame, str) else json.dumps(frame))

    async def run(self, assignment: str, **more: Any) -> None:
        await self.send({"kind": "run", "assignment": assignment, **more})

    async def frame(self) -> Json:
        return json.loads(await self.socket.receive_str(timeout=SECONDS))

    async def frames(self) -> list[Json]:
        """All up to the next terminal, which is the last."""
        frames = [await self.frame()]
        while frames[-1]["kind"] != "terminal":
            frames.append(await self.frame())
        return frames

    async def outcome(self, assignment: str, **more: Any) -> Json:
        """The terminal of a run."""
        await self.run(assignment, **more)
        return (await self.frames())[-1]

    async def until(self, kind: str) -> Json:
        """The next frame of this kind; others before it are passed over."""
        while True:
            frame = await self.frame()
            if frame["kind"] == kind:
                return frame

    async def hears_nothing_but_stats(self) -> Json:
        """The terminal of a run that only asks for the child's counts: nothing came before it."""
        await self.run("__stats")
        assert (await self.frame())["event"] == {"type": "complete"}
        return await self.frame()

    def cut(self) -> None:
        """The connection is reset without a close frame."""
        transport = self.socket._response.connection.transport  # type: ignore[union-attr]
        transport.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0"
        )
        transport.abort()


@contextlib.asynccontextmanager
async def dialled(endpoint: str, headers: Mapping[str, str] | None = None) -> AsyncIterator[Parent]:
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(endpoint, max_msg_size=0, headers=headers) as ws,
    ):
        yield Parent(ws)


def terminal(status: str, **more: Any) -> Json:
    return {"kind": "terminal", "status": status, **more}


def tokens(frames: list[Json]) -> list[str]:
    events = [frame["event"] for frame in frames if frame["kind"] == "event"]
    return [event["content"] for event in events if event["type"] == "token"]


def is_alive(pid: int) -> bool:
    """Also false for one that has ended and nobody has waited for."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in {"Z", "X"}


async def died(pid: int, seconds: float = SECONDS) -> bool:
    until = time.monotonic() + seconds
    while is_alive(pid) and time.monotonic() < until:
        await asyncio.sleep(0.02)
    return not is_alive(pid)


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
