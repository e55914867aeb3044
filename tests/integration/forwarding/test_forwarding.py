"""A web process without folders: a worker performs the requests about them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
import pytest_asyncio
from channels.layers import get_channel_layer

from agents.config.cache import configs
from crushsite.asgi.forwarded import ForwardedRequests
from crushsite.asgi.forwarding import Forwarding
from crushsite.asgi.routing import ApiHandler, LazyDjango
from crushsite.forwarding.exchange import group_of
from tests.doubles.joined_layer import JOINED_LAYER
from tests.integration.api.client import Answer, Api
from tests.integration.runs.ground import write
from workspaces.access import ANONYMOUS, OWNER, Caller, Identity, IdentityKind, MemberRole
from workspaces.actions.processes import ProcessFacts, add_root, register
from workspaces.log.ids import new_id
from workspaces.log.reader import read, stop_reading
from workspaces.log.timestamps import now_ms
from workspaces.log.writer import writer
from workspaces.models import FileRead, RegisteredProcess, Workspace
from workspaces.placement.roots import Root, WorkerScope


@dataclass
class Web:
    """A web process in front of workers. Its own handlers must not see what is forwarded."""

    root: Path
    workers: list[ForwardedRequests] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        scope = WorkerScope(False, (), (Root("code", str(self.root)),), frozenset())
        server: Any = SimpleNamespace(
            shape=SimpleNamespace(works=False),
            registration=SimpleNamespace(roots=SimpleNamespace(scope=scope)),
        )
        urls = "crushsite.api_urls"
        self._v1 = Forwarding(_Watched(ApiHandler(urls), self.seen), server, urls, prefix="/")
        urls = "crushsite.rest_urls"
        self._rest = Forwarding(_Watched(LazyDjango(), self.seen), server, urls, prefix="/api/")
        self.v1, self.rest = Api(self._v1), Api(self._rest)

    def call_as(self, caller: Caller) -> None:
        self.v1.caller = self.rest.caller = caller

    async def add_worker(self, *roots: str) -> ForwardedRequests:
        worker = new_id()
        facts = ProcessFacts(
            "worker", "alpha", 7, "1", started_at=now_ms(), most_runs=9, roots=roots
        )
        await read(write, lambda tx: register(tx, worker, facts, expires_at=now_ms() + 60_000))
        self.workers.append(ForwardedRequests(worker))
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


@pytest_asyncio.fixture
async def web(transactional_db: None, settings: Any, tmp_path: Path) -> AsyncIterator[Web]:
    settings.CHANNEL_LAYERS = JOINED_LAYER
    configs.cache_clear()
    writer.start(publish=None, loop=asyncio.get_running_loop())
    root = tmp_path / "code"
    root.mkdir()
    await read(write, lambda tx: add_root(tx, name="code", path=str(root), marker=""))
    web = Web(root)
    yield web
    await web.stop()
    await asyncio.to_thread(writer.stop)
    await asyncio.to_thread(stop_reading)


async def opened(web: Web) -> str:
    (web.root / "shop").mkdir()
    (web.root / "shop" / "prices.txt").write_text("1")
    body = {"path": str(web.root / "shop"), "client_id": new_id()}
    return str((await web.v1.post("/v1/workspaces", body))["id"])


async def test_a_worker_opens_a_folder_and_reads_it(web: Web) -> None:
    await web.add_worker("code")
    workspace_id = await opened(web)
    assert (await read(Workspace.objects.get)).pk == workspace_id

    shown = await web.v1.get(f"/v1/workspaces/{workspace_id}")
    assert shown["path"] == str(web.root / "shop")
    assert shown["config"] == await web.v1.get(f"/v1/workspaces/{workspace_id}/config")
    paths = await web.rest.get(f"/api/workspaces/{workspace_id}/paths?q=price")
    assert paths["items"] == [{"path": "prices.txt", "is_folder": False}]
    folders = await web.rest.get(f"/api/folders?path={web.root}/s")
    assert [each["workspace_id"] for each in folders["items"]] == [workspace_id]
    assert web.seen == []


async def test_a_worker_writes_what_a_request_changes(web: Web) -> None:
    await web.add_worker("code")
    workspace_id = await opened(web)
    below = f"/v1/workspaces/{workspace_id}"
    session = (await web.v1.post(f"{below}/sessions", {"title": "x"}))["id"]
    body = {"session_id": session, "path": "prices.txt"}
    await web.v1.post(f"{below}/filetracker/read", body)
    row = await read(FileRead.objects.get)
    assert row.path == str(web.root / "shop" / "prices.txt")
    change = {"scope": 1, "key": "options.debug", "value": True}
    await web.v1.post(f"{below}/config/set", change)
    assert (await web.v1.get(f"{below}/config"))["options"]["debug"] is True
    assert web.seen == [f"{below}/sessions"]


V1 = [
    ("GET", "lsps/none/diagnostics", None),
    ("POST", "lsps/start", {"path": "prices.txt"}),
    ("POST", "lsps/stop", {}),
    ("GET", "mcp/states", None),
    ("GET", "mcp/prompts", None),
    ("GET", "mcp/pending-auth", None),
    ("POST", "mcp/refresh-tools", {"name": "none"}),
    ("GET", "skills", None),
    ("GET", "agent", None),
    ("GET", "project/needs-init", None),
]
REST = [
    ("GET", "language-servers/none/diagnostics", None),
    ("POST", "language-servers/start", {"path": "prices.txt"}),
    ("GET", "mcp-servers", None),
    ("POST", "mcp-servers/none/refresh", {"what": "tools"}),
    ("GET", "configuration", None),
    ("GET", "models", None),
    ("GET", "skills", None),
    ("GET", "trust", None),
]


async def test_a_worker_performs_what_concerns_the_folders_programs(web: Web) -> None:
    await web.add_worker("code")
    workspace_id = await opened(web)
    calls = [(web.v1, "v1", call) for call in V1] + [(web.rest, "api", call) for call in REST]
    for api, prefix, (method, address, body) in calls:
        answer = await api.call(method, f"/{prefix}/workspaces/{workspace_id}/{address}", body)
        assert answer.status < 500, address
        assert b"not found" not in answer.body or answer.status == 404
    body = {"path": str(web.root / "shop"), "asks_model": False}
    assert (await web.rest.call("POST", "/api/diagnosis", body)).json["version"]
    assert web.seen == []


async def test_without_a_worker_a_request_is_refused_and_may_be_repeated(web: Web) -> None:
    await web.add_worker("data")
    path = str(web.root)
    body = {"path": path, "client_id": new_id()}
    v1 = await web.v1.call("POST", "/v1/workspaces", body)
    assert (v1.status, v1.headers["retry-after"]) == (503, "5")
    assert v1.message.startswith("No worker that has the folder")
    rest = await web.rest.call("POST", "/api/workspaces", {"path": path})
    assert (rest.status, rest.headers["retry-after"]) == (503, "5")
    assert (rest.json["code"], rest.content_type) == ("folder_unserved", "application/problem+json")
    assert web.seen == []


async def test_a_folder_outside_all_roots_is_read_here(web: Web, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    await web.v1.post("/v1/workspaces", {"path": str(other), "client_id": new_id()})
    assert web.seen == ["/v1/workspaces"]


async def test_rights_are_checked_before_anything_is_sent(web: Web) -> None:
    await web.add_worker("code")
    workspace_id = await opened(web)
    sent = Sent(await _listening(web))
    roles = {workspace_id: MemberRole.VIEWER}
    for identity, status in ((ANONYMOUS, 401), (Identity(IdentityKind.USER, roles=roles), 403)):
        web.call_as(Caller(identity))
        changed = await web.v1.call("POST", f"/v1/workspaces/{workspace_id}/config/set", {})
        assert changed.status == status
        new = {"path": str(web.root), "client_id": new_id()}
        assert (await web.v1.call("POST", "/v1/workspaces", new)).status == status
    assert sent.messages() == []

    async def yes() -> bool:
        return True

    web.call_as(Caller(OWNER, is_tool=yes))
    answer = await web.v1.call("POST", f"/v1/workspaces/{workspace_id}/config/set", {})
    assert answer.status == 403
    assert sent.messages() == []
    assert (await web.v1.call("GET", f"/v1/workspaces/{workspace_id}/config")).status == 200
    assert len(sent.messages()) == 1


async def test_the_workers_refusals_reach_the_client(web: Web) -> None:
    await web.add_worker("code")
    missing = {"path": str(web.root / "none"), "client_id": new_id()}
    answer: Answer = await web.v1.call("POST", "/v1/workspaces", missing)
    assert (answer.status, answer.message) == (400, "path: does not exist")
    rest = await web.rest.call("POST", "/api/workspaces", {"path": str(web.root / "none")})
    assert (rest.status, rest.json["code"]) == (400, "bad_field")
    assert web.seen == []


class Sent:
    """What is sent to a worker, as another process of its group receives it."""

    def __init__(self, channel: str) -> None:
        layer: Any = get_channel_layer()
        self._queue = layer._queues[channel]

    def messages(self) -> list[Any]:
        return list(self._queue._queue)


async def _listening(web: Web) -> str:
    layer: Any = get_channel_layer()
    channel: str = await layer.new_channel()
    await layer.group_add(group_of(web.workers[0].worker), channel)
    return channel


async def test_messages_are_encrypted_and_a_repeated_one_is_performed_once(web: Web) -> None:
    worker = await web.add_worker("code")
    workspace_id = await opened(web)
    sent = Sent(await _listening(web))
    session = (await web.v1.post(f"/v1/workspaces/{workspace_id}/sessions", {"title": "x"}))["id"]
    body = {"session_id": session, "path": "prices.txt"}
    await web.v1.post(f"/v1/workspaces/{workspace_id}/filetracker/read", body)
    (message,) = sent.messages()
    assert b"prices" not in orjson.dumps(message)

    layer: Any = get_channel_layer()
    await read(lambda: FileRead.objects.all().delete())
    for repeated in (message, {"type": "forwarded", "sealed": "x"}, {"type": "forwarded"}):
        await layer.group_send(group_of(worker.worker), repeated)
    # It still works, and what was sent before is done by then: messages are received in order.
    assert (await web.v1.call("GET", f"/v1/workspaces/{workspace_id}/config")).status == 200
    assert await read(FileRead.objects.count) == 0


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_worker_that_is_gone_is_not_waited_for(web: Web, method: str) -> None:
    await web.add_worker("code")
    workspace_id = await opened(web)
    channel = await _listening(web)
    await web.workers.pop().stop()  # it dies: it is registered, and answers no more
    address = f"/v1/workspaces/{workspace_id}/" + ("config" if method == "GET" else "config/set")
    request = asyncio.create_task(web.v1.call(method, address, {}))
    layer: Any = get_channel_layer()
    await layer.receive(channel)
    await read(lambda: RegisteredProcess.objects.update(is_lost=True))
    answer = await request
    assert answer.status == 503
    is_reading = method == "GET"
    assert ("Look whether it was done" in answer.message) is not is_reading
    assert answer.headers["retry-after"] == "5"
