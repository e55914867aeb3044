"""A stand-in for the published worker, on another WebSocket library and none of our code.

`python -m tests.doubles.foreign_child` reads a provisioning document on standard input and serves.
It keeps that worker's odd ways: a superseded run ends beside the new one, a panic sends no
terminal, a cut connection cancels nothing, a deaf run ends when it likes. Its executor is `echo`
or `script`; the other kinds misbehave before they can be reached.
"""

import asyncio
import contextlib
import json
import os
import sys
import time
import uuid
from pathlib import Path

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

LIMIT = 64 * 1024 * 1024


class Panic(Exception):
    pass


class Run:
    """One assignment. Words of its own beside those of the scripted executor are in `_word`."""

    def __init__(self, socket: ServerConnection, frame: dict) -> None:
        self.socket = socket
        self.frame = frame
        self.cancelled = asyncio.Event()
        self.inbox: asyncio.Queue[str] = asyncio.Queue()
        self.waiting: dict[str, asyncio.Future[bool]] = {}
        self.echo: list[str] = []

    async def perform(self) -> None:
        try:
            terminal = await self._execute()
        except Panic:
            return
        with contextlib.suppress(ConnectionClosed):
            await self._send({"kind": "terminal", **terminal})

    async def _execute(self) -> dict:
        for word in self.frame["assignment"].split():
            name, _, value = word.partition(":")
            terminal = await self._word(word, name, value)
            if terminal is not None:
                return terminal
            if self.cancelled.is_set():
                return {"status": "cancelled"}
        await self._event({"type": "complete"})
        return {"status": "completed", "result": "echo: " + " ".join(self.echo)}

    async def _word(self, word: str, name: str, value: str) -> dict | None:
        match name:
            case "__sleep_ms":
                await self._sleep(int(value) / 1000)
            case "__deaf_ms":
                await asyncio.sleep(int(value) / 1000)
            case "__hang":
                time.sleep(int(value) / 1000)  # not even pings are answered
            case "__stream":
                count, _, pause = value.partition(":")
                for number in range(int(count)):
                    if self.cancelled.is_set():
                        break
                    await self._event({"type": "token", "content": f"tick{number} "})
                    if pause and int(pause):
                        await self._sleep(int(pause) / 1000)
            case "__steps":
                for number in range(int(value)):
                    await self._event({"type": "tool_start", "n": number})
                    await asyncio.sleep(0)
            case "__approve":
                await self._approve(value)
            case "__approve_overtakes":
                # The question leaves before the event that came before it.
                approval = asyncio.create_task(self._approve(value))
                await asyncio.sleep(0.02)
                await self._event({"type": "token", "content": "before "})
                await approval
            case "__await_steer":
                for _ in range(int(value or 1)):
                    self.echo.append(f"steer=[{await self.inbox.get()}]")
            case "__big":
                await self._event({"type": "token", "content": "x" * int(value)})
            case "__length":
                self.echo.append(f"chars={len(self.frame['assignment'])}")
            case "__text":
                await self.socket.send(value)
            case "__binary":
                await self.socket.send(b'{"kind":"terminal","status":"error"}')
            case "__die":
                sys.stderr.write("last words of the child\n")
                sys.stderr.flush()
                os._exit(int(value))
            case "__drop":
                self.socket.transport.abort()
            case "__panic":
                await asyncio.sleep(int(value or 0) / 1000)
                raise Panic
            case "__fail":
                return {"status": "error", "error": value}
            case "__suspend":
                return {"status": "suspended", "transcript": [{"role": "user", "content": "x"}]}
            case _:
                await self._event({"type": "token", "content": f"{word} "})
                self.echo.append(word)
        return None

    async def _sleep(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.cancelled.wait(), seconds)

    async def _approve(self, tool: str) -> None:
        request_id = f"sa-{uuid.uuid4()}"
        answer = self.waiting[request_id] = asyncio.get_running_loop().create_future()
        body = {"question": f"May {tool}?", "tool_name": tool, "resource": "/x"}
        await self._send({"kind": "approval_request", "id": request_id, "body": body})
        stopped = asyncio.ensure_future(self.cancelled.wait())
        await asyncio.wait({answer, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if answer.done():
            self.echo.append(f"approved={str(answer.result()).lower()}")

    async def _event(self, event: dict) -> None:
        await self._send({"kind": "event", "event": event})

    async def _send(self, frame: dict) -> None:
        await self.socket.send(json.dumps(frame, separators=(",", ":"), ensure_ascii=False))


async def handle(socket: ServerConnection) -> None:
    active: Run | None = None
    tasks = set()

    def is_active() -> bool:
        return active is not None and any(task.get_name() == str(id(active)) for task in tasks)

    async for text in socket:
        try:
            frame = json.loads(text) if isinstance(text, str) else {}
            kind = frame.get("kind")
        except (ValueError, AttributeError):
            continue
        if kind == "run":
            if is_active():
                active.cancelled.set()  # and nobody waits for its end
            active = Run(socket, frame)
            task = asyncio.create_task(active.perform(), name=str(id(active)))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        elif kind == "cancel" and is_active():
            active.cancelled.set()
        elif kind == "message" and is_active():
            active.inbox.put_nowait(frame["text"])
        elif kind == "approval_reply" and is_active():
            waiting = active.waiting.get(frame["id"])
            if waiting is not None and not waiting.done():
                waiting.set_result(frame["approved"])
    if active is not None:
        active.cancelled.set()


def publish(spec: dict, endpoint: str) -> Path:
    now = time.time()

    def moment(at: float) -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + ".500Z"

    child_id = spec["identity"]["child_id"]
    record = {
        "agent_id": child_id,
        "role": spec["identity"].get("role", ""),
        "labels": [],
        "endpoint": endpoint,
        "pid": os.getpid(),
        "version": "2026.6.21",
        "started_at": moment(now),
        "lease_expires_at": moment(now + 60),
    }
    path = Path(spec["fabric_dir"]) / f"{child_id}.json"
    hidden = path.with_name(f".{path.name}.tmp.{uuid.uuid4()}")
    hidden.write_text(json.dumps(record, indent=2))
    hidden.rename(path)
    return path


async def main() -> int:
    spec = json.loads(await asyncio.to_thread(sys.stdin.read))
    kind = spec["executor"]["kind"]
    if kind == "exits":
        print("no such engine: moon", file=sys.stderr)
        return 2
    if kind == "unreachable":
        await asyncio.sleep(3600)
    if kind == "elsewhere":
        publish(spec, "ws://192.0.2.1:9")
        await asyncio.sleep(3600)
    if kind == "silent":
        server = await asyncio.start_server(lambda *_: asyncio.sleep(3600), "127.0.0.1", 0)
        publish(spec, f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        await asyncio.sleep(3600)

    over = asyncio.Event()
    one_at_a_time = asyncio.Lock()

    async def connected(socket: ServerConnection) -> None:
        async with one_at_a_time:
            await handle(socket)
        if not spec.get("reusable"):
            over.set()

    server = await serve(
        connected, "127.0.0.1", 0, compression=None, max_size=LIMIT, ping_interval=None
    )
    async with server:
        port = next(iter(server.sockets)).getsockname()[1]
        path = publish(spec, f"ws://127.0.0.1:{port}")
        await over.wait()
    path.unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
