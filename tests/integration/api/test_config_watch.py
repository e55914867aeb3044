"""The watch of a process, its fallback, and who is told how often."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

from agents.config import watch as config_watch
from agents.config.cache import configs
from agents.config.watch import CannotWatch, ConfigWatch
from tests.integration.api.conftest import Opened
from workspaces.log.reader import read
from workspaces.models import Event

Start = Callable[[ConfigWatch], ConfigWatch]


def refusing(*_: Any) -> Any:
    raise CannotWatch("OS file watch limit reached")


@pytest_asyncio.fixture
async def start(workspace: Opened) -> AsyncIterator[Start]:
    started: list[ConfigWatch] = []

    def begin(watch: ConfigWatch) -> ConfigWatch:
        configs().on_unannounced = watch.wake
        watch.start()
        started.append(watch)
        return watch

    yield begin
    configs().on_unannounced = None
    for watch in started:
        await watch.stop()


async def told(workspace: Opened, count: int) -> None:
    """Until so many changes are in the log."""
    async with asyncio.timeout(60):
        while await read(_changes, workspace.id) < count:
            await asyncio.sleep(0.02)
    assert await read(_changes, workspace.id) == count


def _changes(workspace_id: str) -> int:
    return Event.objects.filter(workspace_id=workspace_id, kind="config.changed").count()


def is_between_rounds() -> bool:
    (task,) = (task for task in asyncio.all_tasks() if task.get_name() == "config-watch")
    awaited = getattr(task.get_coro(), "cr_await", None)
    return awaited is not None and "_round" not in awaited.__qualname__


async def shown(workspace: Opened) -> Any:
    return (await workspace.api.get(f"{workspace.url}/config"))["options"].get("initialize_as")


def write(workspace: Opened, name: str) -> None:
    (workspace.path / "crush.json").write_text(json.dumps({"options": {"initialize_as": name}}))


async def test_a_change_is_told_once(workspace: Opened, start: Start) -> None:
    await shown(workspace)
    start(ConfigWatch())
    write(workspace, "A.md")
    await told(workspace, 1)
    assert await shown(workspace) == "A.md"
    write(workspace, "B.md")
    await told(workspace, 2)
    assert await shown(workspace) == "B.md"


async def test_a_kernel_that_refuses_a_watch_is_named_once_and_files_are_looked_at(
    workspace: Opened, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    await shown(workspace)
    start(ConfigWatch(make_watch=refusing))
    for count, name in enumerate(("A.md", "B.md"), 1):
        write(workspace, name)
        await told(workspace, count)
        assert await shown(workspace) == name
    lines = [record.getMessage() for record in caplog.records if "watched" in record.getMessage()]
    assert lines == [
        "configuration files cannot be watched (OS file watch limit reached):"
        f" they are checked every {config_watch.ROUND_SECONDS:g} s"
    ]


async def test_who_looks_first_has_it_told(workspace: Opened, start: Start) -> None:
    """A turn that begins before the watch has noticed works with what clients are then told."""
    await shown(workspace)
    start(ConfigWatch(make_watch=refusing))
    write(workspace, "A.md")
    assert await shown(workspace) == "A.md"
    await told(workspace, 1)


async def test_a_change_by_a_client_is_told_by_it_alone(workspace: Opened, start: Start) -> None:
    await shown(workspace)
    start(ConfigWatch())
    for number in range(5):
        body = {"scope": 1, "key": "options.initialize_as", "value": f"{number}.md"}
        await workspace.api.post(f"{workspace.url}/config/set", body)
        assert await shown(workspace) == f"{number}.md"
    assert await read(_changes, workspace.id) == 5
    write(workspace, "theirs.md")
    (workspace.path / ".crush" / "crush.json").unlink()
    async with asyncio.timeout(60):
        while await shown(workspace) != "theirs.md" or await read(_changes, workspace.id) < 6:
            await asyncio.sleep(0.02)
    assert await read(_changes, workspace.id) in {6, 7}  # two files changed


async def test_a_closed_workspace_is_told_nothing(workspace: Opened, start: Start) -> None:
    await shown(workspace)
    watch = start(ConfigWatch(make_watch=refusing))
    answer = await workspace.api.call("DELETE", f"{workspace.url}?client_id={workspace.client_id}")
    assert answer.status == 200
    await watch.close(workspace.id)
    write(workspace, "A.md")
    other = {"path": str(workspace.path.parent), "client_id": workspace.client_id}
    opened = await workspace.api.post("/v1/workspaces", other)
    await watch.open(opened["id"])
    await workspace.api.post(
        f"/v1/workspaces/{opened['id']}/config/set",
        {"scope": 0, "key": "options.debug", "value": True},
    )
    await workspace.api.post(
        f"/v1/workspaces/{opened['id']}/config/remove", {"scope": 0, "key": "options.debug"}
    )
    assert await read(_changes, opened["id"]) == 2
    assert await read(_changes, workspace.id) == 0


@pytest.mark.parametrize("ticks", range(3))
async def test_it_stops_in_the_moment_in_which_a_workspace_opens(
    workspace: Opened, ticks: int
) -> None:
    watch = ConfigWatch(make_watch=refusing)
    watch.start()
    await shown(workspace)
    async with asyncio.timeout(60):
        while not is_between_rounds():
            await asyncio.sleep(0.01)
    await watch.open("another")  # wakes the watch
    for _ in range(ticks):
        await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await watch.stop()
