"""A web process in front of workers, in one process."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from channels.layers import get_channel_layer

from agents.runs.claims.homes import WorkspaceHomes
from crushsite.asgi.forwarded import ForwardedRequests
from crushsite.asgi.forwarding import Forwarding
from crushsite.asgi.routing import ApiHandler, LazyDjango
from crushsite.forwarding.exchange import group_of
from tests.integration.api.client import Api
from tests.integration.runs.ground import write
from workspaces.access import Caller
from workspaces.actions.processes import ProcessFacts, register
from workspaces.log.ids import new_id
from workspaces.log.reader import read
from workspaces.log.timestamps import now_ms
from workspaces.placement.roots import Root, WorkerScope


@dataclass
class Web:
    """A web process in front of workers. Its own handlers must not see what is forwarded."""

    root: Path
    workers: list[ForwardedRequests] = field(default_factory=list)
    homes: list[WorkspaceHomes] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)  # of the workers
    seen: list[str] = field(default_factory=list)
    accept_seconds: float = 10.0

    def __post_init__(self) -> None:
        scope = WorkerScope(False, (), (Root("code", str(self.root)),), frozenset())
        server: Any = SimpleNamespace(
            shape=SimpleNamespace(works=False),
            registration=SimpleNamespace(roots=SimpleNamespace(scope=scope)),
        )
        urls = "crushsite.api_urls"
        self._v1 = Forwarding(
            _Watched(ApiHandler(urls), self.seen),
            server,
            urls,
            prefix="/",
            accept_seconds=self.accept_seconds,
        )
        urls = "crushsite.rest_urls"
        self._rest = Forwarding(
            _Watched(LazyDjango(), self.seen),
            server,
            urls,
            prefix="/api/",
            accept_seconds=self.accept_seconds,
        )
        self.v1, self.rest = Api(self._v1), Api(self._rest)

    def call_as(self, caller: Caller) -> None:
        self.v1.caller = self.rest.caller = caller

    async def register_worker(self, *roots: str, labels: tuple[str, ...] = ()) -> str:
        """Returns the id of a worker that receives nothing."""
        worker = new_id()
        facts = ProcessFacts(
            "worker",
            "alpha",
            7,
            "1",
            started_at=now_ms(),
            most_runs=9,
            roots=roots,
            labels=labels,
        )
        await read(write, lambda tx: register(tx, worker, facts, expires_at=now_ms() + 60_000))
        self.ids.append(worker)
        return worker

    async def add_worker(self, *roots: str, labels: tuple[str, ...] = ()) -> ForwardedRequests:
        worker = await self.register_worker(*roots, labels=labels)
        homes = WorkspaceHomes(worker, lambda: None, {}, is_shared=True)
        self.homes.append(homes)
        self.workers.append(ForwardedRequests(lambda: worker, homes))
        await self.workers[-1].start()
        return self.workers[-1]

    async def stop(self) -> None:
        for worker in self.workers:
            await worker.stop()
        await self._v1.finish()
        await self._rest.finish()


class _Watched:
    def __init__(self, handler: Any, seen: list[str]) -> None:
        self._handler = handler
        self._seen = seen

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self._seen.append(scope["path"])
        await self._handler(scope, receive, send)

    async def finish(self) -> None:
        await self._handler.finish()


async def opened(web: Web) -> str:
    (web.root / "shop").mkdir(exist_ok=True)
    (web.root / "shop" / "prices.txt").write_text("1")
    body = {"path": str(web.root / "shop"), "client_id": new_id()}
    return str((await web.v1.post("/v1/workspaces", body))["id"])


class Sent:
    """What is sent to a worker, as another process of its group receives it."""

    def __init__(self, channel: str) -> None:
        layer: Any = get_channel_layer()
        self._queue = layer._queues[channel]

    def messages(self) -> list[Any]:
        return list(self._queue._queue)


async def listening(web: Web) -> str:
    layer: Any = get_channel_layer()
    channel: str = await layer.new_channel()
    await layer.group_add(group_of(web.ids[0]), channel)
    return channel
