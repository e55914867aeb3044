"""A request for a workspace goes to its home. Only on PostgreSQL: SQLite has one process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from crushsite.forwarding.messages import MISDIRECTED, ForwardedRequest
from tests.integration.databases import POSTGRESQL, Databases
from tests.integration.forwarding.ground import Web, opened
from tests.integration.runs.ground import write
from workspaces.access import OWNER
from workspaces.actions.processes import leave_homes, take_home
from workspaces.log.ids import new_id
from workspaces.log.reader import read
from workspaces.log.timestamps import now_ms
from workspaces.models import WorkspaceHome
from workspaces.queries.processes import home_of


@pytest.fixture
def transactional_db(databases: Databases) -> Iterator[None]:
    with databases.get(POSTGRESQL).use():
        yield


async def take(web: Web, worker: int, workspace_id: str) -> None:
    assert await read(write, lambda tx: take_home(tx, web.ids[worker], workspace_id))


async def test_a_request_makes_its_worker_the_home_and_the_others_follow(web: Web) -> None:
    await web.add_worker("code")
    workspace_id = await opened(web)
    assert await read(home_of, workspace_id) == ""
    await web.rest.get(f"/api/workspaces/{workspace_id}/paths?q=price")
    assert await read(home_of, workspace_id) == web.ids[0]

    for _ in range(5):  # they receive nothing
        await web.register_worker("code")
    for _ in range(3):
        found = await web.rest.get(f"/api/workspaces/{workspace_id}/paths?q=price")
        assert [each["path"] for each in found["items"]] == ["prices.txt"]


async def test_a_workspace_without_a_home_goes_to_the_worker_with_the_fewest(web: Web) -> None:
    for _ in range(3):
        await web.add_worker("code")
    workspace_id = await opened(web)
    for worker in (0, 2):
        await take(web, worker, new_id())
    await web.rest.get(f"/api/workspaces/{workspace_id}/paths?q=price")
    assert await read(home_of, workspace_id) == web.ids[1]


async def test_a_worker_that_leaves_sends_a_request_on(web: Web) -> None:
    for _ in range(2):
        await web.add_worker("code")
    workspace_id = await opened(web)
    await take(web, 0, workspace_id)
    await web.homes[0].leave()
    await take(web, 1, new_id())  # so the one that leaves would be chosen
    found = await web.rest.get(f"/api/workspaces/{workspace_id}/paths?q=price")
    assert [each["path"] for each in found["items"]] == ["prices.txt"]
    assert await read(home_of, workspace_id) == web.ids[1]


async def test_a_request_is_refused_while_its_only_worker_leaves(web: Web) -> None:
    await web.add_worker("code")
    workspace_id = await opened(web)
    await web.homes[0].leave()
    answer = await web.rest.call("GET", f"/api/workspaces/{workspace_id}/paths?q=price")
    assert answer.status == 503
    assert answer.json["code"] == "folder_unserved"
    assert "moves to another worker" in answer.json["detail"]


async def test_a_worker_performs_nothing_for_a_workspace_of_another_one(web: Web) -> None:
    for _ in range(2):
        await web.add_worker("code")
    workspace_id = await opened(web)
    await take(web, 0, workspace_id)
    request = a_request(f"/api/workspaces/{workspace_id}/paths", workspace_id)
    assert (await web.workers[1].perform(request)).status == MISDIRECTED
    assert (await web.workers[0].perform(request)).status == 200
    await read(write, lambda tx: leave_homes(tx, web.ids[0], None))
    assert (await web.workers[1].perform(request)).status == 200
    assert await read(WorkspaceHome.objects.count) == 1


def a_request(path: str, workspace_id: str) -> ForwardedRequest:
    fields: dict[str, Any] = {"query": "q=price", "headers": (), "identity": OWNER, "address": ""}
    return ForwardedRequest(
        new_id(),
        "w",
        "channel",
        now_ms() + 9_000,
        "GET",
        path,
        is_tool=False,
        client_id="",
        workspace_id=workspace_id,
        **fields,
    )
