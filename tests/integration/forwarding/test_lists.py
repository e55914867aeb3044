"""What a web process without folders shows of many of them at once."""

from __future__ import annotations

import asyncio
import subprocess
import time
from typing import Any

import orjson
import pytest

from crushsite.forwarding.elsewhere import ANSWER_SECONDS
from tests.integration.forwarding.ground import Sent, Web, listening, opened
from workspaces.access import Caller, Identity, IdentityKind, MemberRole
from workspaces.log.ids import new_id
from workspaces.log.reader import read
from workspaces.models import RegisteredProcess, Workspace


async def open_second(web: Web) -> str:
    (web.root / "second").mkdir(exist_ok=True)
    body = {"path": str(web.root / "second"), "client_id": new_id()}
    return str((await web.v1.post("/v1/workspaces", body))["id"])


async def board_git(web: Web) -> dict[str, Any]:
    return {each["id"]: each["git"] for each in (await web.rest.get("/api/board"))["items"]}


async def test_workers_fill_the_list_of_workspaces(web: Web) -> None:
    await web.add_worker("code")
    await web.add_worker("code")  # one of them has the first folder, or both
    ids = [await opened(web), await open_second(web)]
    alone = [await web.v1.get(f"/v1/workspaces/{each}") for each in ids]

    assert await web.v1.get("/v1/workspaces") == alone
    assert all(each["config"] and each["skills"] is not None for each in alone)

    roles = {ids[1]: MemberRole.VIEWER}
    web.call_as(Caller(Identity(IdentityKind.USER, roles=roles)))
    assert await web.v1.get("/v1/workspaces") == alone[1:]


async def test_a_workspace_without_its_worker_is_listed_with_what_is_known(web: Web) -> None:
    await web.add_worker("code")
    workspace_id = await opened(web)
    await read(lambda: RegisteredProcess.objects.update(is_lost=True))

    (shown,) = await web.v1.get("/v1/workspaces")
    assert (shown["id"], shown["path"]) == (workspace_id, str(web.root / "shop"))
    assert (shown["config"], shown["skills"]) == (None, None)


async def test_a_silent_worker_delays_the_list_only_for_its_time(web: Web) -> None:
    await web.add_worker("code", labels=("quick",))
    ids = {"quick": await opened(web), "silent": await open_second(web)}
    for label, workspace_id in ids.items():
        await read(Workspace.objects.filter(pk=workspace_id).update, labels=label)
    await web.register_worker("code", labels=("silent",))

    began = time.monotonic()
    shown = {each["id"]: each["config"] for each in await web.v1.get("/v1/workspaces")}
    assert time.monotonic() - began < 2 * ANSWER_SECONDS
    assert shown[ids["quick"]]
    assert shown[ids["silent"]] is None


async def test_many_large_workspaces_come_in_several_answers(web: Web) -> None:
    large = {"options": {"context_paths": ["x" * 500_000]}}
    for name in ("shop", "second"):
        (web.root / name).mkdir()
        (web.root / name / "crush.json").write_text(orjson.dumps(large).decode())
    await web.add_worker("code")
    ids = [await opened(web), await open_second(web)]
    sent = Sent(await listening(web))

    shown = await web.v1.get("/v1/workspaces")

    assert [each["id"] for each in shown] == ids
    assert all("x" * 500_000 in str(each["config"]) for each in shown)
    assert len(sent.messages()) == 2


async def test_the_board_shows_what_workers_say_about_git(web: Web) -> None:
    await web.add_worker("code")
    workspace_id, other = await opened(web), await open_second(web)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-C", str(web.root / "shop")]
    for arguments in (["init", "-qb", "trunk"], ["add", "."], ["commit", "-qm", "First"]):
        await asyncio.to_thread(subprocess.run, [*git, *arguments], check=True)
    (web.root / "shop" / "prices.txt").write_text("1\n2\n")

    async with asyncio.timeout(60):
        while not (found := await board_git(web))[workspace_id]:
            await asyncio.sleep(0.1)
    assert found[workspace_id]["branch"] == "trunk"
    assert found[other] is None


async def test_the_board_does_not_wait_for_a_silent_worker(web: Web) -> None:
    await web.add_worker("code")
    workspace_id = await opened(web)
    await web.workers.pop().stop()

    began = time.monotonic()
    for _ in range(5):
        assert await board_git(web) == {workspace_id: None}
    assert time.monotonic() - began < ANSWER_SECONDS


@pytest.mark.parametrize("part", [0, 1, 3])
async def test_the_folders_above_all_roots_are_the_roots(web: Web, part: int) -> None:
    written = str(web.root)[:part]
    shown = await web.rest.get(f"/api/folders?path={written}")
    root = {"path": str(web.root), "name": "code", "workspace_id": None}
    assert shown == {"items": [root], "is_complete": True}
