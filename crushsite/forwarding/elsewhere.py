"""Reads about many folders that this process does not have: each worker answers for its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from crushsite.forwarding.choice import chosen_worker
from crushsite.forwarding.exchange import RequestSender
from crushsite.forwarding.messages import ForwardedRequest
from workspaces.access import OWNER
from workspaces.log.ids import new_id
from workspaces.log.log_throttle import LogThrottle
from workspaces.log.reader import read
from workspaces.log.timestamps import now_ms
from workspaces.models import Workspace
from workspaces.placement.elsewhere import MOST_IDS
from workspaces.placement.roots import Root, WorkerScope, labels_in
from workspaces.queries.processes import known_roots, worker_offers
from workspaces.tasks import cancel_within

logger = logging.getLogger(__name__)

ANSWER_SECONDS = 5.0  # of one worker
FRESH_SECONDS = 2.0
KEPT_SECONDS = 15.0  # the last answer of a worker that is silent since
MOST_KEPT = 5_000
STOPPING_SECONDS = 2.0
PREFIX = "/folders/"

OnFound = Callable[[Mapping[str, Any]], None]


class HasScope(Protocol):
    @property
    def scope(self) -> WorkerScope | None: ...


@dataclass(slots=True)
class _Kept:
    value: Any = None
    found_at: float | None = None
    requested_at: float | None = None
    is_pending: bool = False  # now


class FoldersOfWorkers:
    """See ``FoldersElsewhere``. Its requests are the server's own, and only read."""

    def __init__(self, sender: RequestSender, here: HasScope) -> None:
        """``here``: what this process itself serves."""
        self._sender = sender
        self._here = here
        self._kept: dict[tuple[str, str], _Kept] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._throttle = LogThrottle()

    @property
    def roots(self) -> tuple[Root, ...]:
        scope = self._here.scope
        return () if scope is None else scope.known

    def has(self, path: str) -> bool:
        scope = self._here.scope
        return scope is not None and not scope.serves(path)

    async def stop(self) -> None:
        await cancel_within(self._tasks, seconds=STOPPING_SECONDS)

    async def read(self, what: str, ids: Collection[str]) -> Mapping[str, Any]:
        found: dict[str, Any] = {}
        await self._request_all(what, ids, found.update)
        return found

    async def newest(
        self, what: str, ids: Collection[str], *, at_most_seconds: float
    ) -> Mapping[str, Any]:
        loop = asyncio.get_running_loop()
        if len(self._kept) > MOST_KEPT:
            self._kept.clear()
        entries = {key: self._kept.setdefault((what, key), _Kept()) for key in ids}
        now = loop.time()
        due = {
            key: each
            for key, each in entries.items()
            if not each.is_pending
            and (each.requested_at is None or each.requested_at < now - FRESH_SECONDS)
        }
        if due:
            is_new = any(each.requested_at is None for each in due.values())
            for each in due.values():
                each.requested_at, each.is_pending = now, True
            task = asyncio.create_task(self._renew(what, due), name="folders elsewhere")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            if is_new:
                await asyncio.wait({task}, timeout=at_most_seconds)
        since = loop.time() - KEPT_SECONDS
        return {
            key: each.value
            for key, each in entries.items()
            if each.found_at is not None and each.found_at >= since
        }

    async def _renew(self, what: str, entries: Mapping[str, _Kept]) -> None:
        def keep(found: Mapping[str, Any]) -> None:
            now = asyncio.get_running_loop().time()
            for key, value in found.items():
                entries[key].value, entries[key].found_at = value, now

        try:
            await self._request_all(what, entries.keys(), keep)
        except Exception as error:  # noqa: BLE001  the database may come back
            self._note(error)
        finally:
            for each in entries.values():
                each.is_pending = False

    async def _request_all(self, what: str, ids: Collection[str], on_found: OnFound) -> None:
        groups = await read(_by_worker, list(ids)) if ids else {}
        await asyncio.gather(
            *(self._request(what, worker, group, on_found) for worker, group in groups.items())
        )

    async def _request(self, what: str, worker: str, ids: list[str], on_found: OnFound) -> None:
        """Repeats a request to a worker until it has answered for all of these workspaces, or its time is up."""
        waiting = ids
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                while waiting:
                    found = await self._request_once(what, worker, waiting[:MOST_IDS])
                    on_found(found)
                    if not found:
                        return
                    waiting = [each for each in waiting if each not in found]
        except Exception as error:  # noqa: BLE001  the others are shown
            self._note(error)

    async def _request_once(self, what: str, worker: str, ids: list[str]) -> Mapping[str, Any]:
        request = ForwardedRequest(
            id=new_id(),
            worker=worker,
            answer_to=await self._sender.channel(),
            expires_at=now_ms() + int(ANSWER_SECONDS * 1000),
            method="POST",
            path=f"{PREFIX}{what}",
            query="",
            headers=(("content-type", "application/json"),),
            identity=OWNER,
            address="",
            is_tool=False,
            client_id="",
            body=orjson.dumps({"ids": ids}),
        )
        answer = await self._sender.wait(
            await self._sender.send(request),
            worker,
            seconds=ANSWER_SECONDS,
            accept_seconds=ANSWER_SECONDS,
        )
        if answer is None or answer.status != 200:
            self._note(f"{worker} answers {answer.status if answer else 'nothing'}")
            return {}
        found = orjson.loads(answer.body)
        return {key: found[key] for key in ids if key in found}

    def _note(self, reason: object) -> None:
        if self._throttle.admit("failed") is not None:
            logger.warning("a worker's folders could not be read: %s", reason or "no answer")


def _by_worker(ids: list[str]) -> dict[str, list[str]]:
    """Returns the workspaces of each worker; those that no worker serves are left out."""
    roots, workers = known_roots(), worker_offers(now_ms())
    groups: dict[str, list[str]] = {}
    rows = Workspace.objects.filter(pk__in=ids).values_list("pk", "path", "labels")
    for key, path, labels in rows:
        worker = chosen_worker(path, labels_in(labels), roots=roots, workers=workers)
        if worker is not None:
            groups.setdefault(worker.id, []).append(key)
    return groups
