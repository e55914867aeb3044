"""`python -m tests.bench.bypasses [NAME …]`: what each bypass of an ordinary way saves.

Each figure is the median of processes of their own, with the bypass and without it, in turn. The
code beside each bypass and `docs/where-we-leave-django.md` have the figures.
"""

import argparse
import asyncio
import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

RUNS = 5
LOOPS = 20_000
PICTURE_BYTES = 3_500_000


@dataclass(frozen=True)
class Case:
    what: str
    unit: str
    measure: Callable[[bool], float]


def collector_pause(bypassed: bool) -> float:
    """How long one full collection stops the event loop."""
    _load_server()
    if bypassed:
        gc.collect()
        gc.freeze()
    return 1e3 * _wall(gc.collect)


def collector_thresholds(bypassed: bool) -> float:
    """Objects that live as long as a request among many requests, in a loaded server."""
    _load_server()
    gc.collect()
    gc.freeze()
    if bypassed:
        gc.set_threshold(50_000, 20, 50)
    alive: deque[object] = deque(maxlen=50_000)

    def work() -> None:
        for number in range(1_000_000):
            alive.append({"number": number, "parts": [number]})

    return 1e3 * _cpu(work)


def switch_interval(bypassed: bool) -> float:
    """How late the event loop wakes while another thread, like the writer's, computes."""
    if bypassed:
        sys.setswitchinterval(0.001)
    is_done = False

    def compute() -> None:
        while not is_done:
            sum(range(1_000))

    thread = threading.Thread(target=compute)
    thread.start()
    late = []
    for _ in range(200):
        began = time.perf_counter()
        time.sleep(0.001)
        late.append(time.perf_counter() - began - 0.001)
    is_done = True
    thread.join()
    return 1e3 * median(late)


def large_blocks(bypassed: bool) -> float:
    """Memory that stays after bodies with pictures were handled in several threads."""
    from concurrent.futures import ThreadPoolExecutor

    import orjson
    import psutil

    from crushsite.runtime import return_large_blocks

    if bypassed:
        return_large_blocks()
    small: list[bytes] = []  # what outlives a body lies between the holes that bodies leave

    def handle(number: int) -> None:
        body = orjson.dumps({"picture": "A" * PICTURE_BYTES, "number": number})
        copy = orjson.loads(body)
        small.append(orjson.dumps({"size": len(copy["picture"]), "text": "x" * 2_000}))

    process = psutil.Process()
    before = process.memory_info().rss
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(handle, range(200)))
        return float(process.memory_info().rss - before) / 1_048_576


def statements(bypassed: bool) -> float:
    """A short statement of a transaction on SQLite."""
    connection = _database()
    from workspaces.log.statements import statements as ours

    sql = "SELECT id, last_number FROM bench WHERE id = %s AND last_number >= %s"
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE bench (id text PRIMARY KEY, last_number integer)")
        cursor.execute("INSERT INTO bench VALUES ('a', 1)")

    def work() -> None:
        with ours() if bypassed else connection.cursor() as cursor:
            for _ in range(LOOPS):
                cursor.execute(sql, ("a", 1))

    return 1e6 * _cpu(work) / LOOPS


def synchronous_normal(bypassed: bool) -> float:
    """One commit on SQLite, on this machine's disk."""
    os.environ["CRUSH_SQLITE_FSYNC"] = "0" if bypassed else "1"
    connection = _database()
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE bench (number integer)")
        began = time.perf_counter()
        for number in range(500):
            cursor.execute("INSERT INTO bench VALUES (%s)", [number])
        return 1e6 * (time.perf_counter() - began) / 500


def cache_size(bypassed: bool) -> float:
    """Lookups in a table of 40 MB whose used part, 6 MB, exceeds SQLite's own cache of 2 MB."""
    connection = _database()
    with connection.cursor() as cursor:
        cursor.execute(f"PRAGMA cache_size={-8_000 if bypassed else -2_000}")
        cursor.execute("CREATE TABLE bench (id integer PRIMARY KEY, text text)")
        rows = ((number, "x" * 1_000) for number in range(40_000))
        cursor.execute("BEGIN")
        cursor.executemany("INSERT INTO bench VALUES (%s, %s)", rows)
        cursor.execute("COMMIT")

        def work() -> None:
            for number in range(LOOPS):
                cursor.execute("SELECT text FROM bench WHERE id = %s", [number * 7_919 % 6_000])
                cursor.fetchone()

        work()
        return 1e6 * _cpu(work) / LOOPS


def socket_frames(bypassed: bool) -> float:
    """One text frame of 200 bytes, from the message to the transport."""
    _load_server()
    from autobahn.websocket.protocol import WebSocketServerProtocol

    from crushsite.server.websocket import Socket, SocketFactory

    class Sink:
        disconnecting = False

        def write(self, data: bytes) -> None:
            pass

    async def main() -> float:
        factory: Any = SocketFactory(None, server="crush")
        protocol: Any = Socket()
        protocol.factory = factory
        protocol.transport = Sink()
        WebSocketServerProtocol._connectionMade(protocol)
        protocol.state = protocol.STATE_OPEN
        protocol.send_state = 0
        text = "x" * 200

        def work() -> None:
            for _ in range(LOOPS):
                if bypassed:
                    protocol.serverSend(text)
                else:
                    protocol.sendMessage(text.encode(), False)

        return 1e6 * _cpu(work) / LOOPS

    return asyncio.run(main())


def request_timers(bypassed: bool) -> float:
    """The idle timeout of a connection during one request: none, or two timers of Twisted's."""

    async def main() -> float:
        loop = asyncio.get_running_loop()

        def work() -> None:
            for _ in range(LOOPS):
                for _ in range(0 if bypassed else 2):
                    loop.call_later(60, int).cancel()

        return 1e6 * _cpu(work) / LOOPS

    return asyncio.run(main())


def form_parsing(bypassed: bool) -> float:
    """A form of 32 MB, which Twisted would parse in the event loop."""
    from urllib.parse import parse_qs

    body = b"&".join(b"name%d=value" % number for number in range(2_000_000))[: 32 * 1_048_576]
    return 0.0 if bypassed else _wall(lambda: parse_qs(body, keep_blank_values=True))


def guard_caches(bypassed: bool) -> float:
    """The guard's checks of one request of a browser: Host and Origin."""
    from crushsite.asgi.guard import Guard

    async def app(scope: Any, receive: Any, send: Any) -> None:
        pass

    guard: Any = Guard(app)
    headers = [(b"host", b"127.0.0.1:22787"), (b"origin", b"http://127.0.0.1:22787")]
    scope = {"type": "http", "method": "GET", "headers": headers}

    async def main() -> float:
        began = time.process_time()
        for _ in range(LOOPS):
            if not bypassed:
                guard._hosts.clear()
                guard._origins.clear()
            await guard(scope, None, None)
        return 1e6 * (time.process_time() - began) / LOOPS

    return asyncio.run(main())


def addresses(bypassed: bool) -> float:
    """Finds the view of one of a client's addresses."""
    _load_server()
    from crushsite.asgi.routing import ApiHandler

    handler = ApiHandler()
    match = handler._match if bypassed else handler._match.__wrapped__
    path = "/v1/workspaces/1ac9fb0b-08e8-4ada-82d7-3ca759fbe87a/agent"

    def work() -> None:
        for _ in range(LOOPS):
            match(path)

    return 1e6 * _cpu(work) / LOOPS


def redis_layer(bypassed: bool) -> float:
    """Sending a message of 500 bytes to a group and receiving it, in this process."""
    import uvloop
    from channels_redis.pubsub import RedisPubSubChannelLayer

    from tests.acceptance.harness.redis import Redis
    from workspaces.delivery.redis_layer import RedisLayer

    async def pass_on(url: str) -> float:
        ours = RedisLayer(url=url, prefix="bench")
        layer: Any = ours if bypassed else RedisPubSubChannelLayer(hosts=[url], prefix="bench")
        channel = await layer.new_channel()
        await layer.group_add("group", channel)
        began = time.process_time()
        for number in range(LOOPS // 10):
            await layer.group_send("group", {"number": number, "text": "x" * 500})
            await layer.receive(channel)
        return (time.process_time() - began) / (LOOPS // 10)

    with tempfile.TemporaryDirectory(prefix="crush-redis-") as folder:
        server = Redis(Path(folder))
        server.start()
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                return 1e6 * runner.run(pass_on(server.new_url()))
        finally:
            server.stop()


def nudges(bypassed: bool) -> float:
    """A worker's consumer gets a nudge, by Channels' dispatch and by its own."""
    _load_server()
    from types import SimpleNamespace

    from channels.consumer import AsyncConsumer

    from crushsite.management.commands.runworker import NudgeConsumer

    pool: Any = SimpleNamespace(receive_nudge=lambda _message: None)

    class Ordinary(AsyncConsumer):
        async def run_accepted(self, message: dict[str, Any]) -> None:
            pool.receive_nudge(message)

    async def pass_on() -> float:
        consumer = NudgeConsumer(pool=pool) if bypassed else Ordinary()
        await consumer.dispatch({"type": "run.accepted"})
        began = time.process_time()
        for _ in range(LOOPS // 10):
            await consumer.dispatch({"type": "run.accepted"})
        return (time.process_time() - began) / (LOOPS // 10)

    return 1e6 * asyncio.run(pass_on())


CASES = {
    "collector-pause": Case("a full collection in a loaded server", "ms", collector_pause),
    "thresholds": Case("a million small objects", "ms", collector_thresholds),
    "switch-interval": Case("the loop's wake-up while a thread works", "ms late", switch_interval),
    "large-blocks": Case("memory left by 200 pictures", "MB", large_blocks),
    "statements": Case("a short statement on SQLite", "µs", statements),
    "synchronous": Case("a commit on SQLite", "µs", synchronous_normal),
    "cache-size": Case("a lookup on SQLite", "µs", cache_size),
    "frames": Case("a frame of a WebSocket", "µs", socket_frames),
    "timers": Case("the idle timeout during a request", "µs", request_timers),
    "forms": Case("a form of 32 MB", "s", form_parsing),
    "addresses": Case("the view of an address", "µs", addresses),
    "guard": Case("the guard's checks of a request", "µs", guard_caches),
    "nudges": Case("a nudge from the channel layer", "µs", nudges),
    "redis-layer": Case("a message through Redis", "µs", redis_layer),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.bypasses", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CASES)}")
    parser.add_argument("--once", choices=("with", "without"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = options.names or list(CASES)
    if unknown := set(names) - set(CASES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    if options.once:
        print(json.dumps(CASES[names[0]].measure(options.once == "with")))
        return
    for name in names:
        runs = [(_once(name, "without"), _once(name, "with")) for _ in range(RUNS)]
        before, after = median(run[0] for run in runs), median(run[1] for run in runs)
        case = CASES[name]
        print(
            f"{name:<17}{case.what:<42}{before:>9.3g} {case.unit}, with the bypass {after:.3g}",
            flush=True,
        )


def _once(name: str, which: str) -> float:
    with tempfile.TemporaryDirectory(prefix="crush-bypasses-") as folder:
        environment = {
            **os.environ,
            "CRUSH_DATA_DIR": folder,
            "DJANGO_SETTINGS_MODULE": "crushsite.settings",
        }
        done = subprocess.run(
            [sys.executable, "-m", "tests.bench.bypasses", name, "--once", which],
            cwd=Path(__file__).parents[2],
            env=environment,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
    return float(json.loads(done.stdout))


def _load_server() -> None:
    import importlib

    import django

    django.setup()
    for name in ("crushsite.api_urls", "crushsite.asgi.routing", "crushsite.server.asgi_server"):
        importlib.import_module(name)


def _database() -> Any:
    import django

    django.setup()
    from django.db import connection

    return connection


def _cpu(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _wall(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
