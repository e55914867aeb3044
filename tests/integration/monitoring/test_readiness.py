"""``/healthz`` and ``/readyz``, on both databases."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio
from django.db.migrations.recorder import MigrationRecorder

from crushsite.monitoring.readiness import READINESS
from tests.doubles.joined_layer import JOINED_LAYER, JoinedLayer
from tests.integration.api.client import Api
from tests.integration.monitoring.test_migration_state import newest_of
from workspaces.access import ANONYMOUS, Caller
from workspaces.delivery.hub import Hub
from workspaces.log.reader import read, stop_reading


@pytest_asyncio.fixture
async def nobody(database: str) -> AsyncIterator[Api]:
    """Calls without any credential."""
    READINESS.watch_no_more()  # forgets what an earlier test has found
    api = Api()
    api.caller = Caller(ANONYMOUS)
    yield api
    READINESS.watch_no_more()
    await asyncio.to_thread(stop_reading)


async def test_a_process_whose_parts_all_work_is_ready(nobody: Api) -> None:
    answer = await nobody.call("GET", "/readyz")
    assert (answer.status, answer.json) == (200, {"message": "ready", "failing": []})
    assert answer.headers["cache-control"] == "no-store"
    alive = await nobody.call("GET", "/healthz")
    assert (alive.status, alive.json) == (200, {"message": "ok"})


async def test_both_answer_head_and_nothing_else(nobody: Api) -> None:
    for address in ("/healthz", "/readyz"):
        assert (await nobody.call("HEAD", address)).status == 200
        assert (await nobody.call("POST", address, {})).status == 405


async def test_a_database_without_a_migration_is_not_ready(nobody: Api) -> None:
    name = await read(newest_of, "notifications")

    def change(record: str) -> None:
        from django.db import connection

        getattr(MigrationRecorder(connection), record)("notifications", name)

    assert (await nobody.call("GET", "/readyz")).status == 200
    await read(change, "record_unapplied")
    try:
        READINESS.watch_no_more()
        answer = await nobody.call("GET", "/readyz")
    finally:
        await read(change, "record_applied")
    assert (answer.status, answer.json["failing"]) == (503, ["migrations"])
    assert answer.json["message"] == "not ready: migrations"


async def test_a_missing_root_of_work_folders_is_not_ready_and_not_named(
    nobody: Api, settings: Any, tmp_path: Path
) -> None:
    settings.CRUSH_WORK_ROOTS = (str(tmp_path), str(tmp_path / "not-mounted"))
    answer = await nobody.call("GET", "/readyz")
    assert (answer.status, answer.json["failing"]) == (503, ["work_folders"])
    assert b"mounted" not in answer.body
    settings.CRUSH_WORK_ROOTS = (str(tmp_path),)
    READINESS.watch_no_more()
    assert (await nobody.call("GET", "/readyz")).status == 200


async def test_a_draining_process_is_alive_and_not_ready(nobody: Api) -> None:
    is_draining = False

    async def layer() -> None:
        return None

    READINESS.watch(is_draining=lambda: is_draining, layer=layer)
    assert (await nobody.call("GET", "/readyz")).status == 200
    is_draining = True  # and no earlier result counts
    answer = await nobody.call("GET", "/readyz")
    assert (answer.status, answer.json["failing"]) == (503, ["draining"])
    assert (await nobody.call("GET", "/healthz")).status == 200


class SilentLayer(JoinedLayer):
    """Takes messages and passes none on."""

    async def send(self, channel: str, message: dict[str, Any]) -> None:
        return None


async def status_with(layer: str, nobody: Api, settings: Any) -> tuple[int, list[str]]:
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": layer}}
    hub = Hub(poll_seconds=60)
    await hub.start()
    READINESS.watch(is_draining=lambda: False, layer=hub.check_layer)
    try:
        answer = await nobody.call("GET", "/readyz")
        return answer.status, answer.json["failing"]
    finally:
        await hub.stop()


async def test_a_channel_layer_must_pass_messages_on(nobody: Api, settings: Any) -> None:
    works = JOINED_LAYER["default"]["BACKEND"]
    assert await status_with(works, nobody, settings) == (200, [])
    silent = f"{__name__}.SilentLayer"
    assert await status_with(silent, nobody, settings) == (503, ["channel_layer"])
