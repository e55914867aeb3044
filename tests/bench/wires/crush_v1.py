"""The `/v1` interface: whole messages as server-sent events."""

import os
import uuid
from collections.abc import Callable
from pathlib import Path

from tests.bench.http_client import HttpClient
from tests.bench.watch import Watch

Receive = Callable[[bytes, float], None]
_SESSION = b'"session_id":"'
_COMPLETE = b'"type":"run_complete"'


class CrushV1:
    """A workspace with any number of attached clients."""

    def __init__(self, url: str) -> None:
        self.http = HttpClient(url)
        self.workspace_id = ""
        self._path = ""

    async def open(self, folder: Path) -> None:
        self._path = str(folder)
        await self._attach(lambda body, at: None)
        await self.http.call("POST", f"{self._at}/agent/init", {"interactive": True})

    @property
    def _at(self) -> str:
        return f"/v1/workspaces/{self.workspace_id}"

    async def _attach(self, receive: Receive) -> None:
        # Every subscriber is its own client, as every terminal is.
        client_id = str(uuid.uuid4())
        env = [f"{name}={value}" for name, value in os.environ.items()]
        claim = {"path": self._path, "client_id": client_id, "env": env, "yolo": True}
        answer, _ = await self.http.call("POST", "/v1/workspaces", claim)
        self.workspace_id = answer["id"]
        await self.http.stream(f"{self._at}/events?client_id={client_id}", receive)

    async def session(self) -> str:
        answer, _ = await self.http.call("POST", f"{self._at}/sessions", {"title": "bench"})
        return str(answer["id"])

    async def prompt(self, session: str, text: str) -> float:
        body = {"session_id": session, "prompt": text, "run_id": str(uuid.uuid4())}
        _, seconds = await self.http.call("POST", f"{self._at}/agent", body)
        return seconds

    async def cancel(self, session: str) -> None:
        await self.http.call("POST", f"{self._at}/agent/sessions/{session}/cancel")

    async def rename(self, session: str, title: str) -> None:
        await self.http.call("PUT", f"{self._at}/sessions/{session}", {"title": title})

    async def poll(self, what: str) -> float:
        """Seconds that a GET below the workspace takes."""
        _, seconds = await self.http.call("GET", f"{self._at}/{what}")
        return seconds

    async def subscribe(self, watch: Watch, *, sampled: bool = True) -> None:
        await self._attach(_sampled(watch) if sampled else _at_the_end(watch))

    async def warm(self, calls: int) -> None:
        await self.http.warm(calls)

    def close(self) -> None:
        self.http.close()


def _sampled(watch: Watch) -> Receive:
    rest = b""

    def receive(body: bytes, at: float) -> None:
        nonlocal rest
        watch.payload_bytes += len(body)
        *lines, rest = (rest + body).split(b"\n")
        for line in lines:
            complete = _COMPLETE in line[:48]
            if complete or b"@" in line:
                session = _session(line)
                watch.snapshot(session, line, at)
                if complete:
                    watch.run_ended(session, at)

    return receive


def _at_the_end(watch: Watch) -> Receive:
    rest = b""

    def receive(body: bytes, at: float) -> None:
        nonlocal rest
        watch.payload_bytes += len(body)
        whole, _, rest = (rest + body).rpartition(b"\n")
        where = whole.find(_COMPLETE)
        if where >= 0:
            line = whole[where:].partition(b"\n")[0]
            watch.words[_session(line)] = line.count(b"@")
            watch.run_ended(_session(line), at)

    return receive


def _session(line: bytes) -> str:
    start = line.find(_SESSION) + len(_SESSION)
    return line[start : line.find(b'"', start)].decode()
